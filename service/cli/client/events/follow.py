"""`agenda reservations wait|watch`: until something has become of a reservation, or as it does."""

from __future__ import annotations

from typing import cast

import click

from agenda.client import Client, Until
from agenda.errors import UnauthenticatedError, WaitTimeoutError
from agenda.records import Reservation
from agenda.retries import Retries
from service.cli.client.completion import completing
from service.cli.client.events.watch import print_events, seconds_in
from service.cli.client.reservations.reservations import PATH
from service.cli.client.reservations.tables import print_reservations
from service.cli.client.server import Server, as_messages, client_options, entry_path
from service.cli.terminal.errors import CliError, reports_errors
from service.cli.terminal.exit_codes import DONE, ERROR, REFUSED, ExitCode
from service.cli.terminal.output import JSON, TABLE, format_option, print_json

#: States in which a reservation cannot give what it promised.
_LOST = frozenset({"cancelled", "failed"})


@click.command()
@click.argument("id_", metavar="ID", shell_complete=completing("reservation"))
@client_options
@click.option(
    "--until",
    type=click.Choice(("begun", "ended")),
    default="ended",
    show_default=True,
    help="What is waited for.",
)
@click.option("--timeout", metavar="TIME", help="Give up after this time, such as 2h.")
@format_option(TABLE, JSON)
@reports_errors
def wait(id_: str, server: Server, until: str, timeout: str | None, form: str) -> int:
    """Wait until the reservation ID has begun or ended, and show it.

    Exits with 1 if it was cancelled, has failed, or the time is over; with 3 if it was refused. A
    server that is away for a while is waited for.
    """
    found = _waited(server, id_, cast("Until", until), seconds_in(timeout, "--timeout"))
    if form == JSON:
        print_json(found.raw)
    else:
        print_reservations([found.raw])
    if found.state == "refused":
        return REFUSED
    return ERROR if found.state in _LOST else DONE


def _waited(server: Server, id_: str, until: Until, timeout_s: float | None) -> Reservation:
    # An id or a server that is not there is an error at once.
    server.call("GET", entry_path(PATH, id_)).good()
    client = Client(server.url, server.token, retries=Retries())
    with as_messages():
        try:
            return client.wait(id_, until, timeout_s=timeout_s)
        except UnauthenticatedError as error:
            raise CliError(server.no_entry(error.body), ExitCode.NOT_ALLOWED) from error
        except WaitTimeoutError as error:
            raise CliError(str(error)) from error


@click.command()
@click.argument("id_", metavar="ID", required=False, shell_complete=completing("reservation"))
@client_options
@click.option(
    "--tenant", shell_complete=completing("tenant"), help="Only reservations of this tenant."
)
@click.option("--kind", "kinds", multiple=True, help="Only this kind; may be repeated.")
@click.option("--after", help="Begin after this version of the Plan or event.  [default: now]")
@click.option("--wait", metavar="TIME", help="Stop after this time, such as 10m.  [default: never]")
@format_option(TABLE, JSON)
@reports_errors
def watch(
    id_: str | None,
    server: Server,
    tenant: str | None,
    kinds: tuple[str, ...],
    after: str | None,
    wait: str | None,
    form: str,
) -> int:
    """Print what happens to the reservation ID, or to all, one line an event, until stopped.

    Where the server is away for a while, nothing is missed or printed twice.
    """
    options = {"reservation": id_, "tenant": tenant, "kinds": ",".join(kinds), "after": after}
    query = {name: value for name, value in options.items() if value}
    print_events(server, query, seconds_in(wait, "--wait"), form)
    return DONE
