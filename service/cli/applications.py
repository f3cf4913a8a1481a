"""`agenda apps`, `assignments` and `dispatch`: applications, where they run and how."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from planner.cluster.dispatch_policy import ALLOCATIONS, GROWTHS, ORDERS, PLACEMENTS, complete_words
from service.cli.completion import complete_execution_state, completing
from service.cli.kit.errors import DONE, reports_errors
from service.cli.kit.options import READABLE_OR_STDIN
from service.cli.kit.output import (
    JSON,
    TABLE,
    ListColumn,
    format_option,
    limit_option,
    listing_options,
    local_text,
    print_json,
    print_listing,
    print_table,
    print_title,
    zone_line,
)
from service.cli.kit.server import Server, ServerReply, client_options, entry_path
from service.cli.reservations import instant_text

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


_ASSIGNED = ("execution", "component", "index", "machine", "since", "covered")


@click.command()
@client_options
@click.option("--execution", help="Only components of this application.")
@click.option("--machine", help="Only components on this machine, such as plain-3.")
@listing_options()
@reports_errors
def assignments(server: Server, execution: str | None, machine: str | None, form: str) -> int:
    """Show which component is on which machine now, and whether a reservation covers it."""
    query = {"execution": execution, "machine": machine}
    body = server.call("GET", "/v1/assignments", query=query).good()
    zone = server.zone() if form == TABLE else None
    if zone is not None:
        for row in body["rows"]:
            row["since"] = local_text(body["at_calendar"], row["since"] - body["at"], zone)
    title = f"{len(body['rows']):,} components on machines; {zone_line(zone)}"
    rows = [[row[name] for name in _ASSIGNED] for row in body["rows"]]
    print_listing(body, _ASSIGNED, rows, form, "nothing is assigned", title, "rows")
    if body["below"]:
        click.echo(f"below their entitlement: {', '.join(body['below'])}", err=True)
    return DONE


_POLICY: Final = "/v1/dispatch/policy"


@click.group()
def dispatch() -> None:
    """Show and change how a server serves work without a reservation."""


@dispatch.command()
@client_options
@click.option("--order", type=click.Choice(ORDERS), help="Who goes first of equal priority.")
@click.option(
    "--by-priority/--no-by-priority", default=None, help="Let a higher priority go first."
)
@click.option(
    "--interactive-first/--no-interactive-first",
    default=None,
    help="Let interactive go before batch of equal priority.",
)
@click.option(
    "--preempt/--no-preempt",
    default=None,
    help="Let who goes first take elastic components of others at once.",
)
@click.option(
    "--allocation", type=click.Choice(ALLOCATIONS), help="How elastic components are granted."
)
@click.option(
    "--reclaim/--no-reclaim",
    default=None,
    help="Take elastic components back so that cores can start.",
)
@click.option("--placement", type=click.Choice(PLACEMENTS), help="How machines are chosen.")
@click.option("--tables/--no-tables", default=None, help="Make dispatch tables (LoTES).")
@click.option(
    "--allow-start/--no-allow-start",
    default=None,
    help="Let requests hold leases longer by what work of their size waits for its start.",
)
@click.option(
    "--grow",
    type=click.Choice(GROWTHS),
    help="How far components with a `grow` use what is idle.",
)
@click.option(
    "--grow-below",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Of global_cap: grow while less than this share of the machines is held.",
)
@click.option(
    "--grow-times",
    type=click.IntRange(1),
    metavar="N",
    help="Of relative_size: grow to N times what was asked for.",
)
@click.option(
    "--spare",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Keep as many machines free of promises as were lost at once at most in this share of "
    "the time; 0: none.",
)
@format_option(TABLE, JSON)
@reports_errors
def policy(server: Server, form: str, **options: Any) -> int:
    """Show the dispatch policy of a server; with options, change these words of it first.

    A change counts from the server's next tick; cores that run stay. It fails where somebody else
    has changed the cluster's description meanwhile.
    """
    words = {name: value for name, value in options.items() if value is not None}
    reply = server.call("GET", _POLICY)
    found = reply.good()
    if words:
        seen = {} if reply.tag is None else {"If-Match": reply.tag}
        found = server.call("PUT", _POLICY, found | complete_words(words), headers=seen).good()
    if form == JSON:
        print_json(found)
    else:
        print_title("dispatch policy: how work is served")
        print_table(("word", "value"), [[name, _word_text(value)] for name, value in found.items()])
    return DONE


def _word_text(value: object) -> str:
    """Return a value as the cluster file has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
