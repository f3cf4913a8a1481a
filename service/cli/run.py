"""`agenda run`: a job file to a server, as a reservation with the work of its stages."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from service.cli.kit.commands import (
    Answer,
    flag,
    given,
    queue_option,
    server_command,
    tenant_option,
)
from service.cli.kit.errors import CliError
from service.cli.kit.options import READABLE_OR_STDIN
from service.cli.kit.output import common_zone, instant_text, print_table, print_title, zone_line
from service.cli.kit.server import Server, ServerReply
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
    atoms = {atom["path"]: atom for atom in reservation["atoms"]}
    rows = []
    for stage in pipeline["stages"]:
        start, end = extent({"atoms": [atoms[stage["atom"]]]})
        times = [instant_text(reservation, seconds, zone) for seconds in (start, end)]
        state = "" if check else stage["state"]
        rows.append([stage["name"], state, *times, ", ".join(stage["after"]), stage["application"]])
    print_table(_STAGES, rows)
    for note in dict.fromkeys([*reservation.get("notes", ()), *pipeline["notes"]]):
        click.echo(f"note: {note}")
