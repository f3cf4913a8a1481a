"""`agenda assignments`: which component is on which machine of a server."""

from __future__ import annotations

import click

from service.cli.client.server import Server, client_options
from service.cli.forms.local_times import local_text, zone_line
from service.cli.terminal.errors import reports_errors
from service.cli.terminal.exit_codes import DONE
from service.cli.terminal.output import TABLE, listing_options, print_listing

_COLUMNS = ("execution", "component", "index", "machine", "since", "covered")


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
    rows = [[row[name] for name in _COLUMNS] for row in body["rows"]]
    print_listing(body, _COLUMNS, rows, form, "nothing is assigned", title, "rows")
    if body["below"]:
        click.echo(f"below their entitlement: {', '.join(body['below'])}", err=True)
    return DONE
