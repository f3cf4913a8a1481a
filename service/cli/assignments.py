"""`agenda assignments`: which component is on which machine of a server."""

from __future__ import annotations

import click

from service.cli.codes import DONE
from service.cli.http import Server, problem_text
from service.cli.output import CSV, JSON, format_option, print_csv, print_json, print_table
from service.cli.reservations import client_options
from service.cli.trouble import Trouble, tells_trouble

_COLUMNS = ("execution", "component", "index", "machine", "since", "covered")


@click.command()
@client_options
@click.option("--execution", help="Only of this application.")
@click.option("--machine", help="Only on this machine, such as plain-3.")
@format_option()
@tells_trouble
def assignments(
    server: str, token: str | None, execution: str | None, machine: str | None, form: str
) -> int:
    """Say which component is on which machine now, and what a reservation covers."""
    query = {"execution": execution, "machine": machine}
    reply = Server(server, token).call("GET", "/v1/assignments", query=query)
    if not reply.ok:
        raise Trouble(problem_text(reply.body))
    rows = [[row[name] for name in _COLUMNS] for row in reply.body["rows"]]
    if form == JSON:
        print_json(reply.body)
    elif form == CSV:
        print_csv(_COLUMNS, rows)
    elif rows:
        print_table(_COLUMNS, rows)
    else:
        click.echo("nothing is assigned")
    if reply.body["below"]:
        click.echo(f"below their entitlement: {', '.join(reply.body['below'])}", err=True)
    return DONE
