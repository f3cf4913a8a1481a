"""`agenda reservations update`: another request in the place of one that stands."""

from __future__ import annotations

from typing import Any

import click

from agenda.errors import REFUSAL_CODES
from service.cli.client.completion import completing
from service.cli.client.reservations.reservations import PATH, bodies_in
from service.cli.client.reservations.tables import (
    displaced_lines,
    offers_in,
    print_reservations,
    why_not,
)
from service.cli.client.server import Server, ServerReply, client_options, entry_path
from service.cli.plans.plan_tables import offer_lines
from service.cli.terminal.errors import CliError, reports_errors
from service.cli.terminal.exit_codes import DONE
from service.cli.terminal.options import READABLE_OR_STDIN, finite
from service.cli.terminal.output import JSON, TABLE, format_option, print_json


@click.command()
@click.argument("id_", metavar="ID", shell_complete=completing("reservation"))
@click.argument("file", type=READABLE_OR_STDIN)
@client_options
@click.option(
    "--revision",
    type=click.IntRange(min=1),
    help="Change it only if it is still at this revision.",
)
@click.option(
    "--weight", type=finite, metavar="NUMBER", help="Factor of what the request is worth."
)
@click.option("--priority", type=int, help="Where a policy lets it, it displaces what has less.")
@click.option("--agent", help="Agent that places the request.  [default: the server's]")
@click.option("--dry-run", is_flag=True, help="Show what the answer would be and change nothing.")
@format_option(TABLE, JSON)
@reports_errors
def update(
    id_: str,
    file: str,
    server: Server,
    revision: int | None,
    weight: float | None,
    priority: int | None,
    agent: str | None,
    dry_run: bool,
    form: str,
) -> int:
    """Ask for the request in FILE instead of what the reservation ID holds.

    FILE is RDL text, RDL JSON or one workload line. If it has no place, the reservation stays as it
    is, and the exit code is 3.
    """
    options = {"weight": weight, "priority": priority, "agent": agent}
    given = {name: value for name, value in options.items() if value is not None}
    body = {**given, **_asked(file)}
    headers = {"If-Match": "*" if revision is None else f'"{revision}"'}
    query = {"dry_run": "true" if dry_run else None}
    reply = server.call("PUT", entry_path(PATH, id_), body, query, headers)
    if form == JSON:
        print_json(reply.body)
    elif reply.ok:
        print_reservations([reply.body])
        for line in displaced_lines(reply.body, dry_run=dry_run):
            click.echo(line)
    return DONE if reply.ok else _tell_refusal(id_, body, reply, form)


def _asked(file: str) -> dict[str, Any]:
    """Return the request of FILE; whose it is and where cannot change."""
    bodies = list(bodies_in(file))
    if len(bodies) != 1:
        raise CliError(f"{file}: {len(bodies)} requests; one takes the place of one")
    return {name: value for name, value in bodies[0].items() if name != "id"}


def _tell_refusal(id_: str, body: dict[str, Any], reply: ServerReply, form: str) -> int:
    """Tell why a reservation stays as it is; return the exit code of a refusal.

    Raises
    ------
    CliError
        If it is none.
    """
    problem = reply.body if isinstance(reply.body, dict) else {}
    if problem.get("code") not in REFUSAL_CODES:
        raise CliError(why_not(body, reply), reply.exit_code)
    if form != JSON:
        click.echo(f"{id_} stays as it is: {why_not(body, reply)}", err=True)
        for line in offer_lines(offers_in(reply)):
            click.echo(line, err=True)
    return reply.exit_code
