"""`agenda apps submit|list|show|kill`: applications of a server."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from service.cli.client.completion import complete_execution_state, completing
from service.cli.client.reservations.tables import instant_text
from service.cli.client.server import Server, ServerReply, client_options, entry_path
from service.cli.forms.layout import ListColumn
from service.cli.forms.local_times import zone_line
from service.cli.terminal.errors import reports_errors
from service.cli.terminal.exit_codes import DONE
from service.cli.terminal.options import READABLE_OR_STDIN
from service.cli.terminal.output import (
    JSON,
    TABLE,
    format_option,
    limit_option,
    listing_options,
    print_json,
    print_listing,
    print_table,
    print_title,
)

_PATH: Final = "/v1/applications"
#: Values of `cover` of an application; `dispatch.applications.document` has the same (tested).
COVERS: Final = ("reservation", "none")
_COLUMNS: Final = ("id", "tenant", "state", "submitted", "started", "ended", "running", "wanted")
_LISTED: Final = tuple(
    ListColumn(name, is_wide=name in ("submitted", "ended")) for name in (*_COLUMNS, "reason")
)
_PARTS: Final = ("component", "core", "wanted", "grown", "assigned", "running", "covered")


@click.group()
def apps() -> None:
    """Submit, list, show and end the applications of a server."""


@apps.command()
@click.argument("file", type=READABLE_OR_STDIN)
@client_options
@click.option("--id", "id_", help="Id of the application.  [default: chosen by the server]")
@click.option("--tenant", shell_complete=completing("tenant"), help="Tenant of the application.")
@click.option(
    "--queue",
    shell_complete=completing("queue"),
    help="Queue in which policies count the application.",
)
@click.option("--reservation", help="Reservation under which the application runs.")
@click.option("--atom", help="Path of the atom of that reservation.")
@click.option(
    "--cover",
    type=click.Choice(COVERS),
    help="With none it runs as best effort, and its reservation does not cover it.",
)
@click.option(
    "--close-on-end",
    is_flag=True,
    help="When the application ends, give the rest of its reservation back.",
)
@format_option(TABLE, JSON)
@reports_errors
def submit(
    file: str,
    server: Server,
    id_: str | None,
    tenant: str | None,
    queue: str | None,
    reservation: str | None,
    atom: str | None,
    cover: str | None,
    close_on_end: bool,
    form: str,
) -> int:
    """Submit the application in FILE: JSON, TOML (by the file's name) or a ZApp."""
    from dispatch.applications.document import parse_document

    raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    options = {
        "id": id_, "tenant": tenant, "queue": queue, "reservation": reservation, "atom": atom,
        "cover": cover, "close_on_end": close_on_end,
    }  # fmt: skip
    given = {name: value for name, value in options.items() if value}
    body = {**given, "application": parse_document(raw, file)}
    return _print_application(server, server.once(_PATH, body), form)


@apps.command("list")
@client_options
@click.option(
    "--tenant", shell_complete=completing("tenant"), help="Only applications of this tenant."
)
@click.option(
    "--state", shell_complete=complete_execution_state, help="Only applications in this state."
)
@limit_option
@listing_options()
@reports_errors
def list_(server: Server, tenant: str | None, state: str | None, limit: int, form: str) -> int:
    """List the applications of a server in order of submission, and why those wait that do."""
    filters = {"tenant": tenant, "state": state}
    entries = server.list_all(_PATH, "applications", filters, limit)
    zone = server.zone() if form == TABLE else None
    rows = [[*_row(entry, zone), entry["reason"]] for entry in entries]
    title = f"{len(entries):,} applications; {zone_line(zone)}"
    print_listing(entries, _LISTED, rows, form, "no applications", title)
    return DONE


@apps.command()
@click.argument("id_", metavar="ID", shell_complete=completing("application"))
@client_options
@format_option(TABLE, JSON)
@reports_errors
def show(id_: str, server: Server, form: str) -> int:
    """Show one application: its state and its components."""
    return _print_application(server, server.call("GET", entry_path(_PATH, id_)), form)


@apps.command()
@click.argument("id_", metavar="ID", shell_complete=completing("application"))
@client_options
@format_option(TABLE, JSON)
@reports_errors
def kill(id_: str, server: Server, form: str) -> int:
    """End an application; its components are stopped at the server's next tick."""
    return _print_application(server, server.call("DELETE", entry_path(_PATH, id_)), form)


def _print_application(server: Server, reply: ServerReply, form: str) -> int:
    body = reply.good()
    if form == JSON:
        print_json(body)
        return DONE
    zone = server.zone()
    print_title(zone_line(zone))
    print_table(_COLUMNS, [_row(body, zone)])
    if body["reason"]:
        click.echo(f"\n{body['reason']}")
    for note in body["notes"]:
        click.echo(f"\nnote: {note}")
    if body["components"]:
        click.echo()
        parts = [
            [part["name"], *(part.get(key, 0) for key in _PARTS[1:])] for part in body["components"]
        ]
        print_table(_PARTS, parts)
        for part in body["components"]:
            if part.get("reason"):
                click.echo(f"\n{part['reason']}")
    return DONE


def _row(entry: Mapping[str, Any], zone: str | None) -> list[object]:
    """Return an application in `_COLUMNS`; times by the clock of a zone, None: in seconds."""
    parts = entry["components"]
    sums = {key: sum(part[key] for part in parts) for key in ("running", "wanted")}
    values: dict[str, Any] = {**entry, **sums}
    if zone is not None:
        for time in ("submitted", "started", "ended"):
            values[time] = instant_text(entry, entry[time], zone)
    return [values.get(name) for name in _COLUMNS]
