"""`agenda validate`: the independent judge on a plan file, or on what a server has committed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from service.cli.client.server import Server, client_options
from service.cli.plans.validate import print_verdict, read_object, requests_of
from service.cli.terminal.errors import CliError, reports_errors
from service.cli.terminal.options import READABLE
from service.cli.terminal.output import JSON, TABLE, format_option


@click.command()
@click.argument("plan", type=READABLE, required=False)
@click.option("--audit", is_flag=True, help="Check the live Plan of a server, not a file.")
@click.option(
    "--workload",
    type=READABLE,
    help="Also check that each answer is to a request of this workload.",
)
@client_options
@format_option(TABLE, JSON)
@reports_errors
def validate(
    plan: Path | None, audit: bool, workload: Path | None, server: Server, form: str
) -> int:
    """Check PLAN independently: capacity, machines, expressions, policies, states and ids.

    Shares no code with the planner. Prints the first violation and exits with 1 if there is one;
    -o json prints all of them. What can be shown neither right nor wrong is a doubt: it is
    printed too, and the Plan is valid.

    With --audit it checks what a server has committed, the whole Plan of one instant: the server
    wants the role of an operator for it, and does none of the work but reading.
    """
    if audit == (plan is not None):
        raise click.UsageError("give a PLAN file, or --audit for the Plan of a server")
    document = live_plan(server) if plan is None else read_object(plan)
    lines = None if workload is None else requests_of(workload, document)
    return print_verdict(document, str(plan or server.url), lines, form)


def live_plan(server: Server) -> dict[str, Any]:
    """Return the whole Plan of a server as it stands at one instant.

    Raises
    ------
    CliError
        If it does not answer, or not with a Plan.
    """
    document = server.call("GET", "/v1/plan/export").good()
    if not isinstance(document, dict) or "reservations" not in document:
        raise CliError(f"{server.url} gives no Plan; is it an Agenda server?")
    return document
