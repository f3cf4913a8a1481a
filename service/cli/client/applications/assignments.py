"""`agenda assignments`: which component is on which machine of a server."""

from __future__ import annotations

import click

from service.cli.client.server import Server, client_options
from service.cli.terminal.errors import reports_errors
from service.cli.terminal.exit_codes import DONE
from service.cli.terminal.output import TABLE, format_option, moved_text, print_listing

_COLUMNS = ("execution", "component", "index", "machine", "since", "covered")


@click.command()
@client_options
@click.option("--execution", help="Only components of this application.")
@click.option("--machine", help="Only components on this machine, such as plain-3.")
@format_option()
@reports_errors
def assignments(server: Server, execution: str | None, machine: str | None, form: str) -> int:
    """Show which component is on which machine now, and whether a reservation covers it."""
    query = {"execution": execution, "machine": machine}
    body = server.call("GET", "/v1/assignments", query=query).good()
    if form == TABLE:
        for row in body["rows"]:
            row["since"] = moved_text(body["at_calendar"], row["since"] - body["at"])
    rows = [[row[name] for name in _COLUMNS] for row in body["rows"]]
    print_listing(body, _COLUMNS, rows, form, "nothing is assigned")
    if body["below"]:
        click.echo(f"below their entitlement: {', '.join(body['below'])}", err=True)
    return DONE
