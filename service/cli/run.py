"""`agenda run` and `agenda logs`: a job file to a server, and what its stages write."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

import click

from rdl.errors import did_you_mean
from service.cli.kit.commands import (
    Answer,
    flag,
    given,
    id_of,
    queue_option,
    server_command,
    tenant_option,
)
from service.cli.kit.errors import CliError
from service.cli.kit.options import READABLE_OR_STDIN
from service.cli.kit.output import common_zone, instant_text, print_table, print_title, zone_line
from service.cli.kit.server import Server, ServerReply, entry_path
from service.cli.plan_tables import extent
from service.cli.reservations import why_not

PIPELINES: Final = "/v1/pipelines"

_STAGES: Final = ("stage", "state", "start", "end", "after", "application")


@server_command(
    None,
    "run",
    click.argument("file", type=READABLE_OR_STDIN),
    flag("--check", "Say what is wrong with FILE, or what would be promised; change nothing."),
    click.option("--id", help="Id of the reservation.  [default: chosen by the server]"),
    tenant_option("Tenant of the job."),
    queue_option("Queue of the job."),
    click.option("--key", help="Word under which FILE is submitted once, however often this "
                 "command runs: a retry gets the same answer."),
    short_help="Reserve for a job of several stages and run them.",
)  # fmt: skip
def run(file: str, server: Server, check: bool, key: str | None, **options: Any) -> Answer:
    """Run the job in FILE (TOML or JSON): reserve for it, and start each stage in its turn.

    FILE holds the request in RDL (`rdl`) and, by the name of its atom, what each stage runs
    (`stages`). All of it is accepted, or none. Exits with 3 if the request is refused.
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
    rows = []
    for stage in pipeline["stages"]:
        # The stage of a `together` has the path of the whole, its atoms the paths below that.
        below = f"{stage['atom']}." if stage["atom"] else ""
        atoms = [one for one in reservation["atoms"] if f"{one['path']}.".startswith(below)]
        start, end = extent({"atoms": atoms})
        times = [instant_text(reservation, seconds, zone) for seconds in (start, end)]
        state = "" if check else stage["state"]
        rows.append([stage["name"], state, *times, ", ".join(stage["after"]), stage["application"]])
    print_table(_STAGES, rows)
    for note in dict.fromkeys([*reservation.get("notes", ()), *pipeline["notes"]]):
        click.echo(f"note: {note}")


_APPLICATIONS: Final = "/v1/applications"

#: States in which an application writes nothing any more.
_OVER: Final = frozenset({"completed", "failed", "killed", "rejected"})

#: Pause between two looks at logs that are followed, seconds.
_LOOK_S: Final = 1.0


@server_command(
    None,
    "logs",
    id_of("application"),
    click.option("--stage", help="Only this stage of the job ID."),
    click.option("--component", help="Only this component."),
    click.option("--run", "run_id", metavar="RUN", help="Only this run, by its id."),
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
    ids = _applications_of(server, id_, stage)
    query = {"run": run_id, **chosen}
    printed: dict[tuple[str, str], int] = {}
    while True:
        # The state is read first: what is written before the end is then seen after it.
        over = all(server.call("GET", entry_path(_APPLICATIONS, one)).good()["state"] in _OVER
                   for one in ids) if follow else True  # fmt: skip
        more = [_print_new(server, one, query, printed) for one in ids]
        if over and not any(more):
            return
        if not any(more):
            time.sleep(_LOOK_S)


def _applications_of(server: Server, id_: str, stage: str | None) -> list[str]:
    """Return the ids of an application, of a stage of a job, or of all of its stages."""
    if stage is not None:
        pipeline = server.call("GET", entry_path(PIPELINES, id_)).good()
        known = {one["name"]: one["application"] for one in pipeline["stages"]}
        if stage not in known:
            near = did_you_mean(stage, known)
            raise CliError(f"{id_} has no stage {stage!r}" + (f"; {near}" if near else ""))
        return [known[stage]]
    if server.call("GET", entry_path(_APPLICATIONS, id_)).status != HTTPStatus.NOT_FOUND:
        return [id_]
    found = server.call("GET", entry_path(PIPELINES, id_))
    if found.status == HTTPStatus.NOT_FOUND:
        raise CliError(f"there is no application and no job {id_!r}", found.exit_code)
    return [one["application"] for one in found.good()["stages"]]


def _print_new(
    server: Server, id_: str, query: Mapping[str, Any], printed: dict[tuple[str, str], int]
) -> bool:
    """Print what an application wrote since the last look; return whether there was anything."""
    path = f"{entry_path(_APPLICATIONS, id_)}/logs"
    found = server.call("GET", path, query={**query, "limit": 0}).good()
    if found["detail"] and not found["logs"]:
        raise CliError(f"{id_}: {found['detail']}")
    any_new = False
    for log in found["logs"]:
        key = (log["run"], log["stream"])
        if log["size"] <= printed.get(key, 0):
            continue
        any_new = True
        if key not in printed:
            printed[key] = 0
            where = f"{id_} {log['component']} {log['index']} on {log['machine']}"
            click.echo(f"==> {where}, run {log['run']}, {log['stream']} <==", err=True)
        while printed[key] < log["size"]:
            more = {"run": log["run"], "stream": log["stream"], "after": printed[key]}
            (piece,) = server.call("GET", path, query=more).good()["logs"]
            if piece["start"] > printed[key]:
                click.echo(f"... {piece['start'] - printed[key]:,} bytes are not kept", err=True)
            if not piece["text"]:
                printed[key] = log["size"]
                break
            click.echo(piece["text"], nl=False, err=log["stream"] == "stderr")
            printed[key] = piece["end"]
    return any_new
