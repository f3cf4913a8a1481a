"""`agenda export`: the whole Plan of a server as a plan file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from planner.files import PlanDocument
from planner.files.plan_document import write_plan
from service.cli.client.server import Server, client_options
from service.cli.terminal.errors import as_cli_error, reports_errors
from service.cli.terminal.exit_codes import DONE
from service.cli.terminal.options import WRITABLE

#: What a line of a workload says of a request, besides its RDL.
_ASKED: Final = ("id", "tenant", "queue", "submitted", "weight", "priority")


@click.command()
@click.argument("out", type=WRITABLE)
@click.option("--workload", type=WRITABLE, help="Also write the requests to this file, as they "
              "came, accepted or refused: for plan and compare.")  # fmt: skip
@client_options
@reports_errors
def export(server: Server, out: Path, workload: Path | None) -> int:
    """Write the server's whole Plan to OUT: a plan file for validate, optimize and plan-diff.

    The state of the Plan is that of one instant, past reservations and refusals included. With
    --workload and `agenda cluster show -o json` what was asked of a server can be planned again.
    """
    document = PlanDocument.from_json(server.call("GET", "/v1/plan/export").good(), server.url)
    with as_cli_error(str(out)):
        write_plan(document, out)
    if workload is not None:
        with as_cli_error(str(workload)):
            workload.write_text("".join(_lines(document)), encoding="utf-8")
    accepted, refused = len(document.reservations), len(document.refusals)
    click.echo(
        f"{out}: version {document.version}, {accepted:,} reservations, {refused:,} refusals",
        err=True,
    )
    return DONE


def _lines(document: PlanDocument) -> Iterator[str]:
    """Yield the line of a workload for each request, in order of submission."""
    asked = [*document.reservations, *document.refusals]
    for entry in sorted(asked, key=lambda one: float(one["submitted"])):
        line = {name: entry[name] for name in _ASKED}
        yield json.dumps({**line, "rdl": entry["expression"]}, ensure_ascii=False) + "\n"
