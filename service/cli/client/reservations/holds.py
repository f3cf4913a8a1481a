"""`agenda holds create|list|show|accept|release`: room that is kept for up to a minute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

from agenda.errors import REFUSAL_CODES
from service.cli.client.completion import completing
from service.cli.client.reservations.reservations import bodies_in
from service.cli.client.reservations.tables import print_reservations, why_not
from service.cli.client.server import Server, client_options, entry_path
from service.cli.forms.agents import complete_agent
from service.cli.forms.layout import ListColumn
from service.cli.forms.local_times import local_text, zone_line
from service.cli.terminal.command_group import LazyCommand, LazyGroup
from service.cli.terminal.errors import CliError, reports_errors
from service.cli.terminal.exit_codes import DONE, REFUSED
from service.cli.terminal.options import READABLE_OR_STDIN
from service.cli.terminal.output import (
    JSON,
    TABLE,
    format_option,
    listing_options,
    print_json,
    print_listing,
    print_title,
)

PATH: Final = "/v1/holds"
_LISTED: Final = (ListColumn("id"), ListColumn("holder"), ListColumn("until"))
_ID: Final = click.argument("id_", metavar="ID", shell_complete=completing("hold"))
_HERE: Final = "service.cli.client.reservations.holds"

_VERBS: Final = (
    LazyCommand("create", f"{_HERE}:create", "Place a request and keep its room for a while."),
    LazyCommand("list", f"{_HERE}:list_", "List what is held, the first to end first."),
    LazyCommand("show", f"{_HERE}:show", "Show a hold and the room that it keeps."),
    LazyCommand("accept", f"{_HERE}:accept", "Make a reservation of a hold."),
    LazyCommand("release", f"{_HERE}:release", "Give back what is held."),
)


@click.group(cls=LazyGroup, parts=_VERBS)
def holds() -> None:
    """Keep room on a server for up to a minute, then accept it or give it back.

    Room that nobody accepts is given back when its time is over.
    """


@click.command()
@click.argument("file", type=READABLE_OR_STDIN)
@client_options
@click.option(
    "--time", "time_", default="60s", show_default=True, help="Keep the room so long, at most 60s."
)
@click.option("--id", "id_", help="Id of the hold.  [default: chosen by the server]")
@click.option("--tenant", shell_complete=completing("tenant"), help="Tenant of the request.")
@click.option("--queue", shell_complete=completing("queue"), help="Queue of the request.")
@click.option(
    "--agent",
    shell_complete=complete_agent,
    help="Agent that places the request (agenda plan --help).  [default: the server's]",
)
@format_option(TABLE, JSON)
@reports_errors
def create(
    file: str,
    server: Server,
    time_: str,
    id_: str | None,
    tenant: str | None,
    queue: str | None,
    agent: str | None,
    form: str,
) -> int:
    """Place the request in FILE and keep its room for a while.

    FILE is RDL text, RDL JSON or one workload line. Exits with 3 if there is no room; such a
    refusal is not kept.
    """
    bodies = list(bodies_in(file))
    if len(bodies) != 1:
        raise CliError(f"{file}: {len(bodies)} requests; a hold is for one")
    options = {"id": id_, "tenant": tenant, "queue": queue, "agent": agent}
    given = {name: value for name, value in options.items() if value is not None}
    body = {**given, **bodies[0], "time": time_}
    reply = server.call("POST", PATH, body)
    if not reply.ok and reply.code in REFUSAL_CODES:
        click.echo(why_not(body, reply), err=True)
        return REFUSED
    return _print_hold(reply.good(), form)


@click.command("list")
@client_options
@listing_options()
@reports_errors
def list_(server: Server, form: str) -> int:
    """List what is held for your tenants, the first to end first."""
    body = server.call("GET", PATH).good()
    zone = server.zone() if form == TABLE else None
    rows = [
        [one["id"], one["holder"], local_text(one["until_at"], 0, zone) if zone else one["until"]]
        for one in body["holds"]
    ]
    title = f"{len(rows):,} held; {zone_line(zone)}"
    print_listing(body, _LISTED, rows, form, "nothing is held", title)
    return DONE


@click.command()
@_ID
@client_options
@format_option(TABLE, JSON)
@reports_errors
def show(id_: str, server: Server, form: str) -> int:
    """Show the hold ID and the room that it keeps."""
    return _print_hold(server.call("GET", entry_path(PATH, id_)).good(), form)


@click.command()
@_ID
@client_options
@format_option(TABLE, JSON)
@reports_errors
def accept(id_: str, server: Server, form: str) -> int:
    """Make a reservation of the hold ID, at the times and on the machines that it keeps."""
    return _print_reservation(server.call("POST", f"{entry_path(PATH, id_)}/accept").good(), form)


@click.command()
@_ID
@client_options
@format_option(TABLE, JSON)
@reports_errors
def release(id_: str, server: Server, form: str) -> int:
    """Give back what the hold ID keeps; its reservation is cancelled."""
    return _print_reservation(server.call("DELETE", entry_path(PATH, id_)).good(), form)


def _print_reservation(body: Mapping[str, Any], form: str) -> int:
    if form == JSON:
        print_json(body)
    else:
        print_reservations([body])
    return DONE


def _print_hold(body: Mapping[str, Any], form: str) -> int:
    if form == JSON:
        print_json(body)
        return DONE
    zone = body["reservation"].get("zone", "UTC")
    until = local_text(body["until_at"], 0, zone)
    print_title(f"held until {until} ({zone}) for {body['holder']}")
    print_reservations([body["reservation"]])
    return DONE
