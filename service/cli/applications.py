"""`agenda apps`, `assignments` and `dispatch`: applications, where they run and how."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import click

from planner.cluster.dispatch_policy import ALLOCATIONS, GROWTHS, ORDERS, PLACEMENTS, complete_words
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
from service.cli.kit.options import READABLE_OR_STDIN
from service.cli.kit.output import limit_option, print_table, print_title, zone_line
from service.cli.kit.server import Server, ServerReply, complete_execution_state, entry_path
from service.sentences import counted

_PATH: Final = "/v1/applications"
#: Values of `cover` of an application; `dispatch.applications.document` has the same (tested).
COVERS: Final = ("reservation", "none")


def _sum(key: str) -> Any:
    return lambda entry: sum(part[key] for part in entry["components"])


_CELLS: Final = {name: _sum(name) for name in ("running", "wanted")}
_TIMES: Final = "submitted started ended"
_APPLICATION: Final = Table(
    "id tenant state submitted started ended running wanted", _TIMES, **_CELLS
)
_LISTED: Final = Table(
    "id tenant state submitted* started ended* running wanted reason", _TIMES, **_CELLS
)
_PARTS: Final = ("component", "core", "wanted", "grown", "assigned", "running", "covered")
_ID: Final = id_of("application")


@click.group()
def apps() -> None:
    """Submit, list, show and end the applications of a server."""


@server_command(
    apps,
    "submit",
    click.argument("file", type=READABLE_OR_STDIN),
    click.option("--id", help="Id of the application.  [default: chosen by the server]"),
    tenant_option("Tenant of the application."),
    queue_option("Queue in which policies count the application."),
    click.option("--reservation", help="Reservation under which the application runs."),
    click.option("--atom", help="Path of the atom of that reservation."),
    click.option(
        "--cover",
        type=click.Choice(COVERS),
        help="With none it runs as best effort, and its reservation does not cover it.",
    ),
    flag("--close-on-end", "When the application ends, give the rest of its reservation back."),
)
def submit(file: str, server: Server, **options: Any) -> Answer:
    """Submit the application in FILE: JSON, TOML (by the file's name) or a ZApp."""
    from dispatch.applications.document import parse_document

    raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    body = {**given(**options), "application": parse_document(raw, file)}
    return _answer(server, server.once(_PATH, body))


@server_command(
    apps,
    "list",
    tenant_option("Only applications of this tenant."),
    click.option(
        "--state", shell_complete=complete_execution_state, help="Only applications in this state."
    ),
    limit_option,
    lists=True,
)
def list_(server: Server, limit: int, **filters: str | None) -> Listing:
    """List the applications of a server in order of submission, and why those wait that do."""
    found = server.list_all(_PATH, "applications", filters, limit)
    title = counted(len(found), "application")
    return Listing(found, found, _LISTED, title, "no applications")


@server_command(apps, "show", _ID)
def show(id_: str, server: Server) -> Answer:
    """Show one application: its state and its components."""
    return _answer(server, server.call("GET", entry_path(_PATH, id_)))


@server_command(apps, "kill", _ID)
def kill(id_: str, server: Server) -> Answer:
    """End an application; its components are stopped at the server's next tick."""
    return _answer(server, server.call("DELETE", entry_path(_PATH, id_)))


def _answer(server: Server, reply: ServerReply) -> Answer:
    body = reply.good()
    return Answer(body, partial(_print_application, server, body))


def _print_application(server: Server, body: Mapping[str, Any]) -> None:
    zone = server.zone()
    _APPLICATION.print([body], zone, zone_line(zone))
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


_ASSIGNED: Final = Table("execution component index machine since covered", "since")


@server_command(
    None,
    "assignments",
    click.option("--execution", help="Only components of this application."),
    click.option("--machine", help="Only components on this machine, such as plain-3."),
    lists=True,
)
def assignments(server: Server, **filters: str | None) -> Listing:
    """Show which component is on which machine now, and whether a reservation covers it."""
    body = server.call("GET", "/v1/assignments", query=filters).good()
    # The server says one instant and what it is in seconds; each row counts as that does.
    clock = {"submitted": body["at"], "submitted_at": body["at_calendar"]}
    rows = [{**row, **clock} for row in body["rows"]]
    title = f"{counted(len(rows), 'component')} on machines"
    if body["below"]:
        click.echo(f"below their entitlement: {', '.join(body['below'])}", err=True)
    return Listing(body, rows, _ASSIGNED, title, "nothing is assigned", "rows")


_POLICY: Final = "/v1/dispatch/policy"


@click.group()
def dispatch() -> None:
    """Show and change the policy for work without a reservation."""


@server_command(
    dispatch,
    "policy",
    click.option("--order", type=click.Choice(ORDERS), help="Who goes first of equal priority."),
    click.option(
        "--by-priority/--no-by-priority", default=None, help="Let a higher priority go first."
    ),
    click.option(
        "--interactive-first/--no-interactive-first",
        default=None,
        help="Let interactive go before batch of equal priority.",
    ),
    click.option(
        "--preempt/--no-preempt",
        default=None,
        help="Let who goes first take elastic components of others at once.",
    ),
    click.option(
        "--allocation", type=click.Choice(ALLOCATIONS), help="How elastic components are granted."
    ),
    click.option(
        "--reclaim/--no-reclaim",
        default=None,
        help="Take elastic components back so that cores can start.",
    ),
    click.option("--placement", type=click.Choice(PLACEMENTS), help="How machines are chosen."),
    click.option("--tables/--no-tables", default=None, help="Make dispatch tables (LoTES)."),
    click.option(
        "--allow-start/--no-allow-start",
        default=None,
        help="Let requests hold leases longer by what work of their size waits for its start.",
    ),
    click.option(
        "--grow",
        type=click.Choice(GROWTHS),
        help="How far components with a `grow` use what is idle.",
    ),
    click.option(
        "--grow-below",
        type=click.FloatRange(0, 1),
        metavar="SHARE",
        help="Of global_cap: grow while less than this share of the machines is held.",
    ),
    click.option(
        "--grow-times",
        type=click.IntRange(1),
        metavar="N",
        help="Of relative_size: grow to N times what was requested.",
    ),
    click.option(
        "--spare",
        type=click.FloatRange(0, 1),
        metavar="SHARE",
        help="Keep as many machines free of promises as were lost at once at most in this share of "
        "the time; 0: none.",
    ),
)
def policy(server: Server, **options: Any) -> Answer:
    """Show the dispatch policy of a server; with options, change these words of it first.

    A change counts from the server's next tick; cores that run stay. It fails if another user
    has changed the cluster's description meanwhile.
    """
    words = {name: value for name, value in options.items() if value is not None}
    reply = server.call("GET", _POLICY)
    found = reply.good()
    if words:
        seen = {} if reply.tag is None else {"If-Match": reply.tag}
        found = server.call("PUT", _POLICY, found | complete_words(words), headers=seen).good()
    return Answer(found, partial(_print_policy, found))


def _print_policy(found: Mapping[str, Any]) -> None:
    print_title("dispatch policy: how work is served")
    print_table(("word", "value"), [[name, _word_text(value)] for name, value in found.items()])


def _word_text(value: object) -> str:
    """Return a value as the cluster file has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
