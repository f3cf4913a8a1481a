"""`agenda export`: the whole Plan of a server as a plan file, read over HTTP like any client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from planner.files import PlanDocument
from planner.files.plan_document import write_plan
from service.cli.client.server import Server, client_options
from service.cli.terminal.errors import as_cli_error, reports_errors
from service.cli.terminal.exit_codes import DONE
from service.cli.terminal.options import WRITABLE


@click.command()
@click.argument("out", type=WRITABLE)
@client_options
@reports_errors
def export(server: Server, out: Path) -> int:
    """Write the server's whole Plan to OUT: a plan file for validate, optimize and plan-diff.

    The state of the Plan is that of one instant, past reservations and refusals included.
    """
    document = PlanDocument.from_json(server.call("GET", "/v1/plan/export").good(), server.url)
    with as_cli_error(str(out)):
        write_plan(document, out)
    accepted, refused = len(document.reservations), len(document.refusals)
    click.echo(
        f"{out}: version {document.version}, {accepted:,} reservations, {refused:,} refusals",
        err=True,
    )
    return DONE


def served_plan(server: Server) -> dict[str, Any]:
    """Return the whole Plan of a server in the form of plan files; nobody planned it in one run.

    Raises
    ------
    CliError
        If the server does not answer.
    """
    document: dict[str, Any] = server.call("GET", "/v1/plan/export").good()
    return {**document, "metrics": document["metrics"] | {"runtime_ms": None}}
