"""`agenda run`, `pipelines` and `logs`: a job file to a server, its runs, and what they write."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import click

from agenda.errors import problem_of
from agenda.jobs import APPLICATIONS, PIPELINES, Call, Job, LogPiece, log_pieces
from rdl.time_grid import duration_text
from service.cli.kit.commands import (
    Answer,
    Listing,
    Table,
    flag,
    given,
    id_of,
    queue_option,
    server_command,
    tenant_option,
)
from service.cli.kit.errors import CliError
from service.cli.kit.options import READABLE_OR_STDIN
from service.cli.kit.output import (
    common_zone,
    instant_text,
    limit_option,
    local_text,
    print_table,
    print_title,
    zone_line,
)
from service.cli.kit.server import Server, ServerReply, as_messages, entry_path
from service.cli.plan_tables import extent
from service.cli.reservations import why_not

#: The number of an occurrence in a path.
_OCCURRENCE: Final = re.compile(r"@[0-9*]+")

_STAGES: Final = ("stage", "state", "start", "end", "after", "application")


@server_command(
    None,
    "run",
    click.argument("file", type=READABLE_OR_STDIN),
    flag("--check", "Say what is wrong with FILE, or what would be promised; change nothing."),
    click.option("--id", help="Id of the reservation.  [default: chosen by the server]"),
    tenant_option("Tenant of the job."),
    queue_option("Queue of the job."),
    click.option("--margin", help="How long before the end of its window the job has to end: 30m."),
    click.option("--key", help="Word under which FILE is submitted once, however often this "
                 "command runs: a retry gets the same answer."),
    short_help="Reserve for a job of several stages and run them.",
)  # fmt: skip
def run(file: str, server: Server, check: bool, key: str | None, **options: Any) -> Answer:
    """Run the job in FILE (TOML or JSON): reserve for it, and start each stage in its turn.

    FILE holds the request in RDL (`rdl`) and, by the name of its atom, what each stage runs
    (`stages`). All of it is accepted, or none. Where the request recurs, each of its runs starts
    the stages. Exits with 3 if the request is refused.
    """
    from dispatch.applications.document import parse_document

    raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    job = parse_document(raw, file)
    if not isinstance(job, Mapping):
        raise CliError(f"{file}: a job is a table with `rdl` and `stages`")
    body = {**job, **given(**options)}
    if check:
        reply = server.call("POST", PIPELINES, body, {"dry_run": "true"})
    else:
        reply = server.once(PIPELINES, body, key=key)
    return _answer(file, body, reply, check=check)


def _answer(file: str, body: Mapping[str, Any], reply: ServerReply, *, check: bool) -> Answer:
    if not reply.ok:
        raise CliError(f"{file}: {why_not(body, reply)}", reply.exit_code)
    return Answer(reply.body, partial(_print_pipeline, reply.body, check=check))


def _print_pipeline(pipeline: Mapping[str, Any], *, check: bool) -> None:
    reservation = pipeline["reservation"]
    zone = common_zone([reservation])
    what = f"{pipeline['id']} would be accepted" if check else f"{pipeline['id']} is accepted"
    print_title(f"{what}; {zone_line(zone)}")
    first: dict[str, Any] = {}  # of a recurrence the first occurrence
    for atom in reservation["atoms"]:
        first.setdefault(_OCCURRENCE.sub("", atom["path"]), atom)
    rows = []
    for stage in pipeline["stages"]:
        # The stage of a `together` has the path of the whole, its atoms the paths below that.
        own = _OCCURRENCE.sub("", stage["atom"])
        below = f"{own}." if own else ""
        atoms = [one for path, one in first.items() if f"{path}.".startswith(below)]
        start, end = extent({"atoms": atoms})
        times = [instant_text(reservation, seconds, zone) for seconds in (start, end)]
        state = "" if check else stage["state"]
        rows.append([stage["name"], state, *times, ", ".join(stage["after"]), stage["application"]])
    print_table(_STAGES, rows)
    if pipeline["recurs"]:
        click.echo(f"it recurs: times are those of its first run; overlap: {pipeline['overlap']}")
    if pipeline["reason"]:
        click.echo(f"no further run starts: {pipeline['reason']}")
    for note in dict.fromkeys([*reservation.get("notes", ()), *pipeline["notes"]]):
        click.echo(f"note: {note}")


@click.group()
def pipelines() -> None:
    """Show jobs of several stages and their runs, and run one again."""


_PIPELINE: Final = id_of("pipeline")
_LISTED: Final = Table(
    "id tenant recurs runs state next slack reason*",
    "next",
    next=lambda entry: entry["next_at"],
    slack=lambda entry: _slack_text(entry["slack"]),
)
_RUNS: Final = Table(
    "run state late start end deadline stages",
    "start end deadline",
    start=lambda entry: entry["start_at"],
    end=lambda entry: entry["end_at"],
    deadline=lambda entry: entry["deadline_at"],
    stages=lambda entry: ", ".join(_stage_text(one) for one in entry["stages"]),
)
_RUN_STAGES: Final = Table(
    "name state tasks late attempt retries start end started ended application*",
    "start end started ended",
    tasks=lambda entry: _tasks_text(entry["tasks"]),
    **{
        name: lambda entry, key=f"{name}_at": entry[key]
        for name in ("start", "end", "started", "ended")
    },
)


def _slack_text(seconds: float | None) -> str:
    return "" if seconds is None else duration_text(round(1000 * seconds))


def _stage_text(stage: Mapping[str, Any]) -> str:
    """Return a stage and its state in a few words."""
    words = [stage["name"], stage["state"], _tasks_text(stage["tasks"])]
    return " ".join(filter(None, words)) + (" late" if stage["late"] else "")


def _tasks_text(tasks: Mapping[str, int] | None) -> str:
    """Return how many tasks of a stage are done, and have failed."""
    if tasks is None:
        return ""
    failed = f", {tasks['failed']:,} failed" if tasks["failed"] else ""
    return f"{tasks['done']:,} of {tasks['count']:,}{failed}"


@server_command(
    pipelines, "list", tenant_option("Only pipelines of this tenant."), limit_option, lists=True
)
def list_(server: Server, limit: int, tenant: str | None) -> Listing:
    """List pipelines, the newest first: the state of their newest run, and when the next begins."""
    query = {"tenant": tenant, "limit": min(limit, 1000)}
    body = server.call("GET", PIPELINES, query=query).good()
    found = body["pipelines"]
    return Listing(found, found, _LISTED, f"{len(found):,} pipelines", "no pipelines")


@server_command(pipelines, "show", _PIPELINE)
def show(id_: str, server: Server) -> Answer:
    """Show one pipeline: what it is promised, and its newest run."""
    body = server.call("GET", entry_path(PIPELINES, id_)).good()
    return Answer(body, partial(_print_shown, server, body))


def _print_shown(server: Server, body: Mapping[str, Any]) -> None:
    zone = server.zone()
    print_title(f"{body['id']} is {body['reservation']['state']}; {zone_line(zone)}")
    recurs = f"{body['runs']:,} runs so far" if body["recurs"] else "it runs once"
    following = body["next_at"] and f"; the next begins {local_text(body['next_at'], 0, zone)}"
    click.echo(f"{recurs}{following or ''}")
    if body["slack"] is not None:
        slack = f"slack of the tightest stage {_slack_text(body['slack'])}"
        click.echo(f"deadline {local_text(body['deadline_at'], 0, zone)}; {slack}")
    if body["reason"]:
        click.echo(f"no further run starts: {body['reason']}")
    click.echo()
    _RUN_STAGES.print(body["stages"], zone)
    _print_reasons(body["stages"])


def _print_reasons(stages: Sequence[Mapping[str, Any]]) -> None:
    for stage in stages:
        if stage["reason"]:
            click.echo(f"\n{stage['name']}: {stage['reason']}")


@server_command(pipelines, "runs", _PIPELINE, limit_option, lists=True)
def runs(id_: str, server: Server, limit: int) -> Listing:
    """List the runs of a pipeline, the newest first."""
    found: list[dict[str, Any]] = []
    query: dict[str, Any] = {}
    while len(found) < limit:
        path = f"{entry_path(PIPELINES, id_)}/runs"
        body = server.call(
            "GET", path, query={**query, "limit": min(100, limit - len(found))}
        ).good()
        found += body["runs"]
        if body["next"] is None:
            break
        query = {"before": body["next"]}
    return Listing(found, found, _RUNS, f"{len(found):,} runs of {id_}", "no run has begun")


@server_command(
    pipelines,
    "again",
    _PIPELINE,
    click.option(
        "--run",
        type=click.IntRange(0),
        help="Which run, by its number.  [default: the newest]",
    ),
    flag("--all", "Also what succeeded: every stage, and all of its tasks."),
)
def again(id_: str, server: Server, run: int | None, **options: bool) -> Answer:
    """Run the stages and tasks of a run of pipeline ID again that have not succeeded.

    They run in what is left of their slots, and otherwise in free capacity.
    """
    path = entry_path(PIPELINES, id_)
    if run is None:
        run = max(server.call("GET", path).good()["runs"] - 1, 0)
    body = server.call("POST", f"{path}/again", {"run": run, **options}).good()
    return Answer(body, partial(_print_run, server, id_, body))


@server_command(pipelines, "cancel", _PIPELINE)
def cancel(id_: str, server: Server) -> Answer:
    """Cancel the reservation of pipeline ID, and end its stages: what runs and what waits."""
    with as_messages():
        job = Job(_call_of(server), id_)
        job.cancel()
        body = job.refresh()
    return Answer(body, partial(_print_shown, server, body))


def _call_of(server: Server) -> Call:
    """Return what sends the calls of a `Job`."""

    def call(
        method: str, path: str, body: object = None, query: Mapping[str, object] | None = None
    ) -> Any:
        reply = server.call(method, path, body, query)
        if not reply.ok:
            raise problem_of(reply.status, reply.body)
        return reply.body

    return call


def _print_run(server: Server, id_: str, body: Mapping[str, Any]) -> None:
    zone = server.zone()
    print_title(f"run {body['run']} of {id_} is {body['state']}; {zone_line(zone)}")
    _RUN_STAGES.print(body["stages"], zone)
    _print_reasons(body["stages"])


@server_command(
    None,
    "logs",
    id_of("application"),
    click.option("--stage", help="Only this stage of the job ID."),
    click.option("--component", help="Only this component."),
    click.option(
        "--run",
        "run_id",
        metavar="RUN",
        help="Only this run: of a job its number, of an application its id.",
    ),
    click.option("--stream", type=click.Choice(("stdout", "stderr")), help="Only this stream."),
    flag("--follow", "Go on until the work is over."),
    forms=(),
    short_help="Print what applications and jobs write.",
)
def logs(
    id_: str, server: Server, stage: str | None, follow: bool, run_id: str | None, **chosen: Any
) -> None:
    """Print what the components of the application ID, or of the stages of the job ID, wrote.

    What they wrote to standard error is printed there. The server keeps the last MiB of each
    stream of each run.
    """
    number = int(run_id) if run_id is not None and run_id.isdecimal() else None
    call = _call_of(server)
    with as_messages():
        ids = _applications_of(server, call, id_, stage, number)
        is_application = number is None or ids == [id_]  # on a Slurm its runs have numbers, too
        query = {"run": run_id if is_application else None, **chosen}
        seen: set[tuple[str, str]] = set()
        for piece in log_pieces(call, ids, query, follow=follow):
            _print_piece(piece, seen)
    if run_id is not None and number is None and not seen:
        raise CliError(f"{id_}: there is no run {run_id!r}, or nothing of it is kept")


def _applications_of(
    server: Server, call: Call, id_: str, stage: str | None, run: int | None
) -> Sequence[str]:
    """Return the ids of an application, or of the stages of a run of a job (None: the newest)."""
    by_id = server.call("GET", entry_path(APPLICATIONS, id_)) if stage is None else None
    is_application = by_id is not None and by_id.status != HTTPStatus.NOT_FOUND
    if is_application and run is None:
        return [id_]
    found = server.call("GET", entry_path(PIPELINES, id_))
    if found.status == HTTPStatus.NOT_FOUND:
        if is_application:
            return [id_]
        raise CliError(f"there is no application and no job {id_!r}", found.exit_code)
    return Job(call, id_, found.good()).applications(stage, run)


def _print_piece(piece: LogPiece, seen: set[tuple[str, str]]) -> None:
    """Print a piece, below a line that says what wrote it where that is new."""
    key = (piece.run, piece.stream)
    if key not in seen:
        seen.add(key)
        task = "" if piece.task is None else f" task {piece.task}"
        where = f"{piece.application} {piece.component} {piece.index}{task} on {piece.machine}"
        click.echo(f"==> {where}, run {piece.run}, {piece.stream} <==", err=True)
    if piece.skipped:
        click.echo(f"... {piece.skipped:,} bytes are not kept", err=True)
    click.echo(piece.text, nl=False, err=piece.stream == "stderr")
