"""`agenda sbatch`, `squeue` and `sacct`: submit and list jobs of a Slurm that a server uses."""

from __future__ import annotations

import math
import os
import pwd
import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from dispatch.backends.slurm.control.errors import SlurmError
from dispatch.backends.slurm.control.job_demand import JobDemand
from dispatch.backends.slurm.control.job_names import promise_comment
from service.cli.batch_script import (
    OWN,
    SbatchOption,
    check_licenses,
    kept_apart,
    marked_words,
    read_options,
    request_of,
    whole_nodes,
)
from service.cli.held_job import HeldJob, held_job
from service.cli.job_limits import ask_within, known_limits
from service.cli.kit.errors import DONE, CliError, ExitCode, reports_errors
from service.cli.kit.options import duration, read_text
from service.cli.kit.output import ListColumn, listing_options, print_listing
from service.cli.kit.server import (
    Server,
    ServerReply,
    client_options,
    completing,
    entry_path,
)
from service.cli.plan_tables import offer_lines

if TYPE_CHECKING:
    from dispatch.backends.slurm.control.commands import SlurmCommands
    from dispatch.backends.slurm.control.records import SlurmJob
    from dispatch.entitlements.start_delay import StartDelayTable

#: How far back Slurm's accounting is read, in the form of sacct.
_SINCE = "now-7days"


def learnt_delays(commands: SlurmCommands, user: str) -> StartDelayTable:
    """Return the start delays of a user's jobs in Slurm's accounting; empty if it is unavailable.

    A job that is bound to its reservation may begin with it: the delay of its start is the time
    that Slurm took to find free capacity and to preempt other jobs.
    """
    from dispatch.entitlements.start_delay import NO_DELAY

    try:
        return delays_of(commands.ended_jobs(user, _SINCE))
    except SlurmError:
        return NO_DELAY


def delays_of(runs: Iterable[SlurmJob]) -> StartDelayTable:
    """Return the start delays of users' promised jobs by the size of their share of a node."""
    from dispatch.backends.slurm.control.job_names import words_of
    from dispatch.entitlements.start_delay import StartDelays
    from rdl.resources import Resources

    delays = StartDelays()
    for run in sorted(runs, key=lambda one: one.started_s):
        is_promised = "deadline" in words_of(run)
        if is_promised and run.nodes and 0 < run.eligible_s <= run.started_s:
            size = Resources.of({"cpu": 1000 * run.cpus // len(run.nodes)})
            delays.observe(size, 1000 * (run.started_s - run.eligible_s))
    return delays.table()


def enlarged(request: str, cpus: int, table: StartDelayTable) -> tuple[str, int]:
    """Return a request in RDL extended by the delay for this many CPUs, and that delay in ms."""
    from dispatch.entitlements.start_delay import StartDelayTable, enlarge
    from rdl.resources import Resources
    from rdl.text.formatter import format_expression
    from rdl.text.parser import parse

    delay_ms = table.delay_ms(Resources.of({"cpu": 1000 * cpus}))
    if not delay_ms:
        return request, 0
    expression = parse(request)
    # The delay is that of the CPUs, whichever resource determines the size of the bundle.
    everywhere = StartDelayTable({("cpu", 0): delay_ms, ("memory", 0): delay_ms})
    return format_expression(enlarge(expression, everywhere)), delay_ms


_PATH: Final = "/v1/reservations"
_CLUSTER: Final = "/v1/cluster"
_POLICY: Final = "/v1/dispatch/policy"

#: Relative times in Slurm's format.
_FROM_NOW: Final = re.compile(r"now\+(\d+)(seconds?|minutes?|hours?|days?|weeks?)?")
_LOCAL: Final = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2})?")

#: Options of `agenda sbatch` that a line ``#AGENDA`` may give.
_LINES: Final = ("deadline", "work", "id", "queue")


@click.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.option("--deadline", metavar="WHEN",
              help="End of all work: a duration from now, a time of day or RFC 3339.")  # fmt: skip
@click.option("--work", metavar="DURATION",
              help="Nodes times how long the job runs.  [default: by its --time]")  # fmt: skip
@click.option("--id", "id_", help="Id of the reservation.  [default: chosen by the server]")
@click.option("--queue", shell_complete=completing("queue"), help="Queue of the request.")
@click.option("--allow-start/--no-allow-start", default=True, show_default=True,
              help="Reserve longer by what your promised jobs waited for their start, as Slurm's "
                   "accounting has it.")  # fmt: skip
@client_options
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[SBATCH OPTIONS] SCRIPT [ARGS]")
@reports_errors
def sbatch(
    server: Server,
    deadline: str | None,
    work: str | None,
    id_: str | None,
    queue: str | None,
    allow_start: bool,
    words: tuple[str, ...],
) -> int:
    """Submit SCRIPT to Slurm, with nodes that are reserved for it before a deadline.

    Options of sbatch are passed on. The job waits, held, and what Slurm says of it is reserved:
    nodes, CPUs, memory, GPUs, licences (-L) of which the cluster has a pool, a feature (-C), whole
    nodes (--exclusive), time, a begin (-b), jobs that come before it (-d), arrays (-a) and
    components (:). A job that asks for anything else is refused by name and cancelled. With
    --test-only nothing is reserved, and it is said when it would run. Lines "#AGENDA --deadline=6h
    --work=8h" of the script stand for options that are not given.
    Exits with 3 if the reservation is refused: the job is cancelled then.
    """
    if shutil.which("sbatch") is None:
        raise CliError("sbatch was not found; run this on a host that has Slurm's commands")
    given_options, place = read_options(words)
    is_wrapped = any(option.name == "wrap" for option in given_options)
    script = "" if is_wrapped else read_text(script_name(words, place))
    lines = _own_lines(script)
    words, own = _without_own(words, given_options, script)
    given = {"deadline": deadline, "work": work, "id": id_, "queue": queue}
    options = {name: given[name] or lines.get(name) for name in _LINES}
    if not options["deadline"]:
        raise CliError("give --deadline, or a line #AGENDA --deadline=6h in the script")
    end, work_s = _end(options["deadline"]), _work_s(options["work"])
    user = pwd.getpwuid(os.getuid()).pw_name
    with held_job(words) as job:
        demands = job.demands()
        reserved = demands
        if len(demands) > 1 or demands[0].whole or demands[0].licenses:
            cluster = server.call("GET", _CLUSTER).good()
            for demand in demands:
                check_licenses(demand, cluster.get("pools", ()))
            machines = cluster["machines"]
            demands = [whole_nodes(one, machines) if one.whole else one for one in demands]
            reserved = kept_apart(demands, machines)
        seconds = _seconds(work_s, demands)
        earliest_s = max(_begin_s(server, job, demand) for demand in demands)
        check_begin(earliest_s, end)
        limits = known_limits(user, demands, seconds)
        longer: Callable[[str], str] = str
        if allow_start:
            longer = _longer(server, max(demand.cpus for demand in demands), user)

        def ask(begin_s: int, is_try: bool) -> ServerReply:
            left_s = max(begin_s, earliest_s) - int(time.time())
            begin = f"+{left_s}s" if left_s > 0 else ""
            rdl = longer(request_of(reserved, seconds, end, begin))
            body: dict[str, Any] = {"rdl": rdl, "tenant": user}
            body |= {name: options[name] for name in ("id", "queue") if options[name]}
            if is_try:
                return server.call("POST", _PATH, body, {"dry_run": "true"})
            return server.once(_PATH, body)

        begin_s = 0
        if limits or own.is_test:
            begin_s, reply = ask_within(limits, job.others, server, ask)
        if not own.is_test:
            reply = ask(begin_s, False)
        if not reply.ok:
            code = reply.body.get("code") if isinstance(reply.body, dict) else None
            click.echo(f"agenda: {reply.problem()}", err=True)
            refusal = (reply.body or {}).get("refusal") or {} if code else {}
            for line in offer_lines(refusal.get("offers", ())):
                click.echo(line, err=True)
            return reply.exit_code
        if own.is_test:
            click.echo(f"would be reserved: {_when(reply.body)}", err=True)
            return DONE
        _promise(server, job, reply.body, demands, seconds, own.comment)
    click.echo(f"Submitted batch job {job.id}")
    click.echo(f"reserved as {reply.body['id']}: {_when(reply.body)}", err=True)
    return job.wait()


def _longer(server: Server, cpus: int, user: str) -> Callable[[str], str]:
    """Return a function that extends requests by Slurm's start delay, and prints the delay.

    It leaves requests unchanged if the server itself extends every request.
    """
    from dispatch.backends.slurm.control.commands import SlurmCommands
    from rdl.resources import Resources

    if server.call("GET", _POLICY).good().get("allow_start"):
        return str
    table = learnt_delays(SlurmCommands(), user)
    if delay_ms := table.delay_ms(Resources.of({"cpu": 1000 * cpus})):
        click.echo(f"reserving {delay_ms / 1000:g} s more: jobs wait so long to start", err=True)
    return lambda rdl: enlarged(rdl, cpus, table)[0]


def script_name(words: Sequence[str], place: int) -> str:
    """Return the script, the first word after sbatch's options.

    Raises
    ------
    CliError
        If there is none.
    """
    if place >= len(words):
        raise CliError("name a script; without one sbatch reads standard input, and this does not")
    return words[place]


def _own_lines(script: str) -> dict[str, str]:
    found: dict[str, str] = {}
    words = iter(marked_words(script, "AGENDA"))
    for word in words:
        name, mark, value = word.removeprefix("--").partition("=")
        if name not in _LINES or not word.startswith("--"):
            raise CliError(f"#AGENDA {word}: write one of --{', --'.join(_LINES)}")
        found[name] = value if mark else next(words, "")
    return found


def _work_s(work: str | None) -> int | None:
    """Return the requested node time; None if it is not given."""
    if not work:
        return None
    if work.isdecimal():  # minutes for sbatch, seconds for Agenda
        raise CliError(f"--work {work} of what? Write {work}m or {work}s")
    return -(-duration(work) // 1000)


def _seconds(work_s: int | None, demands: Sequence[JobDemand]) -> int:
    """Return how long the job runs: as long as its longest component."""
    if work_s is not None:
        return max(1, -(-work_s // sum(demand.nodes * demand.tasks for demand in demands)))
    limits_s = [demand.limit_s for demand in demands if demand.limit_s]
    if len(limits_s) == len(demands):
        return max(limits_s)
    raise CliError("say how long it runs: --work 8h (node time), or sbatch's --time")


def _end(text: str) -> str:
    """Return a deadline in RDL; durations count from the submission.

    Slurm's forms are accepted too: ``now+20minutes``, and a date and time in this host's zone.
    """
    if found := _FROM_NOW.fullmatch(text):
        return f"+{found[1]}{(found[2] or 's')[0]}"
    if _LOCAL.fullmatch(text):
        try:
            return datetime.fromisoformat(text).astimezone().isoformat()
        except ValueError as error:
            raise CliError(f"--deadline {text}: {error}") from error
    return text if ":" in text or text.startswith("+") else f"+{text}"


class _OwnOptions(NamedTuple):
    """The options of sbatch that `agenda sbatch` carries out itself."""

    comment: str
    is_test: bool


def _without_own(
    words: Sequence[str], options: Iterable[SbatchOption], script: str
) -> tuple[tuple[str, ...], _OwnOptions]:
    """Return words without the options that are carried out here, and these options."""
    own = [one for one in options if one.name in OWN]
    lines = marked_words(script, "SBATCH")
    if "--test-only" in lines:
        raise CliError("#SBATCH --test-only submits nothing; give it to `agenda sbatch` instead")
    of_lines = [value for word, value in pairwise([*lines, ""]) if word == "--comment"]
    of_lines += [word.partition("=")[2] for word in lines if word.startswith("--comment=")]
    comments = [*of_lines, *(one.value for one in own if one.name == "comment")]
    taken = {place for one in own for place in range(one.place, one.place + one.count)}
    kept = tuple(word for place, word in enumerate(words) if place not in taken)
    is_test = any(one.name == "test-only" for one in own)
    given = {f"--{one.name}" for one in options} | set(lines)
    if given & {"--quiet", "-Q"} and given & {"--wait", "-W"}:
        raise CliError("sbatch --quiet --wait does not say which job it is; leave --quiet out")
    return kept, _OwnOptions(comments[-1] if comments else "", is_test)


def _begin_s(server: Server, job: HeldJob, demand: JobDemand) -> int:
    """Return the earliest start of a job, Unix time; 0: now.

    Raises
    ------
    CliError
        If it waits for a job whose end is unknown.
    """
    begins_s = [demand.begin_s or 0]
    if demand.after:
        others = [one for one in job.others() if one.is_open]
        for id_ in demand.after:
            begins_s += [_end_of_job(server, one) for one in others if id_ in (one.id, one.array)]
    return max(begins_s)


def check_begin(begin_s: int, end: str) -> None:
    """Check that a job may begin before its deadline, which has the form of :func:`_end`.

    A time of day is not checked: it means the next one after the start.

    Raises
    ------
    CliError
        With exit code 3 if the deadline is not later.
    """
    if end.startswith("+"):
        end_s = time.time() + duration(end[1:]) / 1000
    else:
        try:
            end_s = datetime.fromisoformat(end).timestamp()
        except ValueError:
            return
    if begin_s >= end_s:
        first, last = _instant(begin_s), _instant(int(end_s))
        raise CliError(
            f"the job may begin at {first} (--begin, or the end of what it depends on), and its "
            f"deadline is {last}; give a later --deadline",
            ExitCode.REFUSED,
        )


def _end_of_job(server: Server, job: SlurmJob) -> int:
    """Return the latest end of a job, Unix time: by its time limit or its reservation."""
    from dispatch.backends.slurm.control.job_names import words_of

    if job.is_up and job.ends_s and job.limit_min:
        return job.ends_s
    id_ = words_of(job).get("reservation", "-")
    promised = {} if id_ == "-" else _reservation(server, id_)
    if promised.get("finish_at") and not job.is_up:
        return math.ceil(datetime.fromisoformat(promised["finish_at"]).timestamp())
    why = "has no time limit" if job.is_up else "waits in Slurm without a promise"
    raise CliError(
        f"--dependency: job {job.id} {why}, so it is not known when it ends; submit it by "
        "`agenda sbatch` too"
    )


def _promise(
    server: Server,
    job: HeldJob,
    reservation: dict[str, Any],
    demands: Sequence[JobDemand],
    seconds: int,
    own: str,
) -> None:
    """Write the reservation into a held job, so that the server binds it.

    Raises
    ------
    CliError
        If Slurm does not accept the change; the reservation is cancelled.
    """
    id_ = reservation["id"]
    try:
        work_s = seconds * sum(demand.nodes * demand.tasks for demand in demands)
        comment = promise_comment(id_, window_end_s(reservation) or 0, work_s, own)
        job.promise(comment, demands, seconds)
    except SlurmError as error:
        server.call("DELETE", entry_path(_PATH, id_))
        raise CliError(f"{error}; the reservation was given up") from error


def window_end_s(reservation: dict[str, Any]) -> int | None:
    """Return the end of a reservation's window, Unix time; None if the answer has none."""
    if not reservation.get("window") or reservation.get("begin_at") is None:
        return None
    begin_s = datetime.fromisoformat(reservation["begin_at"]).timestamp()
    return int(begin_s - reservation["begin"] + reservation["window"][1])


def _when(reservation: dict[str, Any]) -> str:
    begin, end = reservation.get("begin_at"), reservation.get("finish_at")
    return f"from {begin} to {end}" if begin and end else str(reservation.get("state"))


_QUEUED: Final = (
    "job", "name", "user", "partition", "state", "nodes", "reservation", "promised", "begins",
    "ends", "reason",
)  # fmt: skip
_QUEUE_LIST: Final = tuple(ListColumn(name, is_wide=name == "partition") for name in _QUEUED)


#: State of a promise whose time is over while its job waits or runs.
_OVER: Final = "over"


@click.command()
@client_options
@click.option("--user", help="Only jobs of this user.")
@listing_options()
@reports_errors
def squeue(server: Server, user: str | None, form: str) -> int:
    """List Slurm's jobs that run or wait under Agenda, with the reservations they are for."""
    from dispatch.backends.slurm.control.commands import SlurmCommands
    from dispatch.backends.slurm.control.errors import SlurmError
    from dispatch.backends.slurm.control.job_names import words_of

    try:
        jobs = [job for job in SlurmCommands().jobs() if job.is_open]
    except SlurmError as error:
        raise CliError(str(error)) from error
    known: dict[str, dict[str, Any]] = {}
    entries: list[dict[str, Any]] = []
    for job in sorted(jobs, key=lambda one: one.id):
        words = words_of(job)
        if not words or (user is not None and job.user != user):
            continue
        id_ = words.get("reservation", "-")
        if id_ not in known:
            known[id_] = {} if id_ == "-" else _reservation(server, id_)
        promise = known[id_]
        entries.append(
            {
                "job": job.id,
                "name": job.name,
                "user": job.user,
                "partition": job.partition,
                "state": job.state.lower(),
                "nodes": ",".join(job.nodes or job.wanted_nodes),
                "reservation": None if id_ == "-" else id_,
                "promised": _OVER if promise.get("state") == "completed" else promise.get("state"),
                "begins": promise.get("begin_at"),
                "ends": promise.get("finish_at"),
                "reason": "" if job.is_up else job.reason,
            }
        )
    rows = [[entry[name] for name in _QUEUED] for entry in entries]
    print_listing(entries, _QUEUE_LIST, rows, form, "no jobs")
    return DONE


def _reservation(server: Server, id_: str) -> dict[str, Any]:
    reply = server.call("GET", entry_path("/v1/reservations", id_))
    return reply.body if reply.ok and isinstance(reply.body, dict) else {}


_ACCOUNTED: Final = (
    "reservation", "user", "promise", "work", "deadline", "begun", "ended", "jobs", "runs",
    "promised_s", "had_s",
)  # fmt: skip
#: Outcomes of promises in addition to `dispatch.accounts.promises.Outcome`.
_OPEN, _UNKNOWN = "open", "unknown"
_PROMISES: Final = ("kept", "degraded", "unused", "failed", "cancelled", _OPEN, _UNKNOWN)
_LABELS: Final = {"promised_s": "promised, s", "had_s": "had, s"}
_ACCOUNT_LIST: Final = tuple(
    ListColumn(name, _LABELS.get(name, ""), is_wide=name in ("user", "runs")) for name in _ACCOUNTED
)


@click.command()
@client_options
@click.option("--since", default="1d", show_default=True, metavar="DURATION",
              help="How far back.")  # fmt: skip
@click.option("--promise", "wanted", metavar="VERDICT",
              type=click.Choice(_PROMISES), help="Only those that were this.")  # fmt: skip
@listing_options()
@reports_errors
def sacct(server: Server, since: str, wanted: str | None, form: str) -> int:
    """List the outcome of promises, and of their work by Slurm's accounting.

    PROMISE is what the server says, as its page and /v1/promises do: kept, open (and kept so far),
    or lacking machines while they were due (degraded, unused, failed). WORK is what Slurm says: in
    time (all jobs ended well before the deadline), short (they had the node time that was promised
    and needed more), late (neither), cancelled (by their owner, before the deadline) or failed.
    """
    from dispatch.backends.slurm.control.commands import SlurmCommands, instant_word
    from dispatch.backends.slurm.control.errors import SlurmError
    from dispatch.backends.slurm.reserved.kept_promises import (
        deadline_of,
        promise_record,
        reservations_of,
    )

    now_s = int(time.time())
    begin = instant_word(now_s - duration(since) // 1000)
    try:
        found = reservations_of(SlurmCommands(timeout_s=60).accounted_runs(begin))
    except SlurmError as error:
        raise CliError(f"{error}; promises are read from slurmdbd") from error
    records = []
    for id_, runs in found.items():
        deadline_s = deadline_of(runs) or _planned_s(server, id_)
        records.append(promise_record(id_, runs, deadline_s, now_s))
    promises = promises_of(server) if records else {}
    records.sort(key=lambda one: (one.deadline_s or 0, one.reservation))
    entries: list[dict[str, Any]] = [
        {
            "reservation": one.reservation,
            "user": one.user,
            "promise": promises.get(one.reservation, _UNKNOWN),
            "work": str(one.verdict),
            "deadline": _instant(one.deadline_s),
            "begun": _instant(one.begun_s),
            "ended": _instant(one.ended_s),
            "jobs": one.jobs,
            "runs": one.runs,
            "promised_s": one.promised_s or None,
            "had_s": one.had_s,
        }
        for one in records
        if wanted in (None, promises.get(one.reservation, _UNKNOWN))
    ]
    rows = [[entry[name] for name in _ACCOUNTED] for entry in entries]
    print_listing(entries, _ACCOUNT_LIST, rows, form, _NOTHING)
    counts = Counter(entry["promise"] for entry in entries)
    if entries:
        click.echo(", ".join(f"{counts[one]} {one}" for one in _PROMISES if counts[one]), err=True)
    return DONE


_NOTHING: Final = (
    "no promises; Slurm's accounting names them with AccountingStoreFlags=job_comment in slurm.conf"
)


def _planned_s(server: Server, id_: str) -> int | None:
    """Return the end of a reservation's window on the server, Unix time."""
    reply = server.call("GET", entry_path("/v1/reservations", id_))
    return window_end_s(reply.body) if reply.ok and isinstance(reply.body, dict) else None


def promises_of(server: Server) -> dict[str, str]:
    """Return the outcome of each reservation from the server's ledger."""
    told = server.call("GET", "/v1/promises", query={"each": "true"}).good()
    return {
        one["id"]: _OPEN if one["promise"] == "kept" and not one["is_over"] else one["promise"]
        for one in told["reservations"]
    }


def _instant(unix_s: int | None) -> str | None:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if unix_s else None
