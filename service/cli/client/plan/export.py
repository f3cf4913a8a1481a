"""`agenda export`: the whole Plan of a server as a plan file, read over HTTP like any client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from planner.files import PlanDocument
from planner.files.plan_document import write_plan
from service.cli.client.server import Server, client_options
from service.cli.terminal.errors import as_cli_error, reports_errors
from service.cli.terminal.exit_codes import DONE
from service.cli.terminal.options import WRITABLE

#: What a line of a workload says of a request besides its RDL, where the Plan knows it.
_KEPT: Final = (
    "id", "tenant", "queue", "submitted", "weight", "priority", "promise",
)  # fmt: skip


@click.command()
@click.argument("out", type=WRITABLE)
@click.option(
    "--workload",
    type=WRITABLE,
    help="Also write the requests, accepted and refused, to this file: JSON Lines for agenda plan "
    "and compare.",
)
@click.option(
    "--cluster", type=WRITABLE, help="Also write the cluster to this file: JSON for agenda plan."
)
@client_options
@reports_errors
def export(server: Server, out: Path, workload: Path | None, cluster: Path | None) -> int:
    """Write the server's whole Plan to OUT: a plan file for validate, optimize and plan-diff.

    The state of the Plan is that of one instant, past reservations and refusals included. With
    --workload and --cluster the same day can be planned again from files, by any agent.
    """
    document = PlanDocument.from_json(server.call("GET", "/v1/plan/export").good(), server.url)
    with as_cli_error(str(out)):
        write_plan(document, out)
    if workload is not None:
        with as_cli_error(str(workload)):
            workload.write_text("".join(_lines(document)), encoding="utf-8")
    if cluster is not None:
        with as_cli_error(str(cluster)):
            cluster.write_text(json.dumps(document.cluster, indent=2) + "\n", encoding="utf-8")
    accepted, refused = len(document.reservations), len(document.refusals)
    click.echo(
        f"{out}: version {document.version}, {accepted:,} reservations, {refused:,} refusals",
        err=True,
    )
    return DONE


def _lines(document: PlanDocument) -> Iterator[str]:
    """Yield a line of a workload for each request, in order of submission."""
    known = sorted(
        (*document.reservations, *document.refusals), key=lambda one: float(one["submitted"])
    )
    for one in known:
        line = {name: one[name] for name in _KEPT if name in one} | {"rdl": one["expression"]}
        yield json.dumps(line, ensure_ascii=False) + "\n"


def served_plan(server: Server) -> dict[str, Any]:
    """Return the whole Plan of a server in the form of plan files; nobody planned it in one run.

    Raises
    ------
    CliError
        If the server does not answer.
    """
    document: dict[str, Any] = server.call("GET", "/v1/plan/export").good()
    return {**document, "metrics": document["metrics"] | {"runtime_ms": None}}
