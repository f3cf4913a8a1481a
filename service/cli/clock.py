"""`agenda clock`: what an operator says of the clock of a server's host, on its database."""

from __future__ import annotations

import click

from service.cli.terminal.errors import reports_errors
from service.cli.terminal.exit_codes import DONE
from service.cli.token import database_option, open_database
from service.clock import SystemClock, instant_of


@click.group()
def clock() -> None:
    """Confirm the clock of a server that does not follow it.

    A clock that goes ahead at once is not followed, since what it ends is over for good. The
    command works on the database of a server, on the server's host.
    """


@clock.command()
@database_option
@reports_errors
def confirm(database: str) -> int:
    """Say that the clock of this host is right: servers of the database follow theirs again."""
    from service.store.database.clock_guard import confirm_clock

    now_ms = SystemClock().now_ms()
    store = open_database(database)
    try:
        confirm_clock(store, now_ms)
    finally:
        store.close()
    click.echo(f"confirmed: it is {instant_of(now_ms).isoformat(timespec='seconds')}", err=True)
    return DONE
