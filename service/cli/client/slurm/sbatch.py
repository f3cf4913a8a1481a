"""`agenda sbatch`: a reservation, and a job of Slurm that runs in it, in one step."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import time
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

import click

from dispatch.backends.slurm.control.errors import SlurmError
from dispatch.backends.slurm.control.job_names import is_job_for, promise_comment
from service.cli.client.completion import completing
from service.cli.client.server import Server, client_options, entry_path
from service.cli.client.slurm.batch_script import marked_words, options_of, shape_of
from service.cli.client.slurm.sbatch_options import check_environment, read_options
from service.cli.plans.plan_tables import offer_lines
from service.cli.terminal.errors import CliError, reports_errors
from service.cli.terminal.exit_codes import DONE
from service.cli.terminal.options import duration, read_text

_PATH: Final = "/v1/reservations"
_POLICY: Final = "/v1/dispatch/policy"

#: By so much may the clocks of this host and of slurmctld's differ, s.
_CLOCKS_S: Final = 10

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
    """Reserve nodes before a deadline and submit SCRIPT to Slurm in them.

    Options of sbatch are passed on and say what is reserved: nodes, tasks, CPUs, memory, GPUs,
    a feature (-C) and time. One that asks for anything else is refused.
    Lines "#AGENDA --deadline=6h --work=8h" of the script stand for options that are not given.
    Exits with 3 if the reservation is refused: nothing is submitted then.
    """
    if shutil.which("sbatch") is None:
        raise CliError("there is no sbatch here; run this where Slurm's commands are")
    check_environment(os.environ)
    own, place = read_options(words)
    script = read_text(script_name(words, place))
    lines = _own_lines(script)
    given = {"deadline": deadline, "work": work, "id": id_, "queue": queue}
    options = {name: given[name] or lines.get(name) for name in _LINES}
    shape = shape_of([*options_of(script), *own])
    if not options["deadline"]:
        raise CliError("give --deadline, or a line #AGENDA --deadline=6h in the script")
    seconds = _seconds(options["work"], shape.nodes, shape.limit_s)
    user = pwd.getpwuid(os.getuid()).pw_name
    rdl = shape.request(seconds, _end(options["deadline"]))
    body: dict[str, Any] = {
        "rdl": _with_start(server, rdl, shape.cpus, user) if allow_start else rdl,
        "tenant": user,
    }
    body |= {name: options[name] for name in ("id", "queue") if options[name]}
    reply = server.once(_PATH, body)
    if not reply.ok:
        code = reply.body.get("code") if isinstance(reply.body, dict) else None
        click.echo(f"agenda: {reply.problem()}", err=True)
        refusal = (reply.body or {}).get("refusal") or {} if code else {}
        for line in offer_lines(refusal.get("offers", ())):
            click.echo(line, err=True)
        return reply.exit_code
    return _submit(server, reply.body, words, seconds * shape.nodes)


def _with_start(server: Server, rdl: str, cpus: int, user: str) -> str:
    """Return a request that allows for what Slurm takes to start a job, and say how much.

    It stays as it is where the server allows for it in every request.
    """
    from dispatch.backends.slurm.control.commands import SlurmCommands
    from service.cli.client.slurm.start_waits import enlarged, learnt_delays

    if server.call("GET", _POLICY).good().get("allow_start"):
        return rdl
    longer, delay_ms = enlarged(rdl, cpus, learnt_delays(SlurmCommands(), user))
    if delay_ms:
        click.echo(f"reserving {delay_ms / 1000:g} s more: jobs wait so long to start", err=True)
    return longer


def script_name(words: Sequence[str], place: int) -> str:
    """Return the script, the first word behind sbatch's options.

    Raises
    ------
    CliError
        If there is none, or another component of a job follows.
    """
    if place >= len(words):
        raise CliError("name a script; without one sbatch reads standard input, and this does not")
    if words[place] == ":":
        raise CliError("a job of several components (:) is not supported; reserve each by itself")
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


def _seconds(work: str | None, nodes: int, limit_s: int | None) -> int:
    """Return how long the job runs."""
    if work:
        if work.isdecimal():  # minutes for sbatch, seconds for Agenda
            raise CliError(f"--work {work} of what? Write {work}m or {work}s")
        whole_ms = duration(work)
        return max(1, -(-whole_ms // (1000 * nodes)))
    if limit_s:
        return limit_s
    raise CliError("say how long it runs: --work 8h (node time), or sbatch's --time")


def _end(text: str) -> str:
    """Return a deadline in RDL: durations count from the submission."""
    return text if ":" in text or text.startswith("+") else f"+{text}"


def _submit(
    server: Server, reservation: dict[str, Any], words: tuple[str, ...], work_s: int
) -> int:
    """Submit the job, held until the server binds it; without it the reservation is given up."""
    id_ = reservation["id"]
    comment = promise_comment(id_, window_end_s(reservation) or 0, work_s)
    own = ["--parsable", "--hold", f"--comment={comment}"]
    since_s = time.time() - _CLOCKS_S
    done = subprocess.run(["sbatch", *own, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise CliError(f"{done.stderr.strip()}; {_give_up(server, id_, since_s)}")
    job = done.stdout.strip().partition(";")[0]
    click.echo(f"Submitted batch job {job}")
    click.echo(f"reserved as {id_}: {_when(reservation)}", err=True)
    return DONE


def _give_up(server: Server, id_: str, since_s: float) -> str:
    """Give a reservation up whose job Slurm did not take; return what there is to say.

    Slurm may have taken it since `since_s` (Unix time), and its answer was lost: then it is
    cancelled. A job that was submitted for the same reservation before stays.
    """
    from dispatch.backends.slurm.control.commands import SlurmCommands

    server.call("DELETE", entry_path(_PATH, id_))
    commands, said = SlurmCommands(), "the reservation was given up"
    try:
        ours = [one for one in commands.jobs() if is_job_for(one, id_)]
        jobs = [one.id for one in ours if one.is_open and one.submitted_s >= since_s]
        if jobs:
            commands.cancel(jobs)
            said += f", and job {jobs[0]} cancelled that Slurm had taken all the same"
    except SlurmError:
        said += f"; if Slurm took the job, it stays held: look for reservation={id_} in comments"
    return said


def window_end_s(reservation: dict[str, Any]) -> int | None:
    """Return until when a reservation's request lets it run, as Unix time; None: not told."""
    if not reservation.get("window") or reservation.get("begin_at") is None:
        return None
    begin_s = datetime.fromisoformat(reservation["begin_at"]).timestamp()
    return int(begin_s - reservation["begin"] + reservation["window"][1])


def _when(reservation: dict[str, Any]) -> str:
    begin, end = reservation.get("begin_at"), reservation.get("finish_at")
    return f"from {begin} to {end}" if begin and end else str(reservation.get("state"))
