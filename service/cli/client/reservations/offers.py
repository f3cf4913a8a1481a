"""`agenda offers`: what would be accepted instead, asked of a server or of files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from service.cli.client.reservations.reservations import PATH, bodies_in
from service.cli.client.server import Server, client_options, entry_path
from service.cli.terminal.errors import CliError, reports_errors
from service.cli.terminal.exit_codes import DONE, REFUSED
from service.cli.terminal.options import READABLE, READABLE_OR_STDIN, agent_name
from service.cli.terminal.output import JSON, TABLE, format_option, print_json, print_table

if TYPE_CHECKING:
    from planner.files import WorkloadLine

_MOST = 10


@click.command()
@click.argument("file", type=READABLE_OR_STDIN, required=False)
@client_options
@click.option("--id", "id_", help="Id of a refused request, instead of FILE.")
@click.option("--cluster", type=READABLE, help="Use this cluster file instead of a server.")
@click.option(
    "--workload", type=READABLE, help="With --cluster: a workload to plan before the request."
)
@click.option("--tenant", help="Tenant of the request.")
@click.option("--queue", help="Queue of the request.")
@click.option("--agent", type=agent_name, metavar="AGENT", help="Agent that places the request.")
@click.option("--most", type=click.IntRange(1, _MOST), default=3, show_default=True,
              help="Look for at most so many offers.")  # fmt: skip
@format_option(TABLE, JSON)
@reports_errors
def offers(
    file: str | None,
    server: Server,
    id_: str | None,
    cluster: Path | None,
    workload: Path | None,
    tenant: str | None,
    queue: str | None,
    agent: str | None,
    most: int,
    form: str,
) -> int:
    """Show whether the request in FILE would be accepted, why not, and what would be instead.

    FILE is RDL text, RDL JSON or one workload line; --id names a refused request of the server, or
    with --cluster a request of the workload. Nothing is changed. Exits with 3 if the request is
    refused and there is no offer.
    """
    if (file is None) == (id_ is None):
        raise click.UsageError("give either FILE or --id")
    if workload is not None and cluster is None:
        raise click.UsageError("--workload goes with --cluster")
    if cluster is not None:
        answer = _ask_files(cluster, workload, file, id_, tenant, queue, agent, most)
    else:
        body = _one_body(file) if file is not None else _refused_body(server, str(id_))
        options = {"tenant": tenant, "queue": queue, "agent": agent, "most": most}
        body |= {name: value for name, value in options.items() if value is not None}
        answer = server.call("POST", "/v1/offers", body).good()
    if form == JSON:
        print_json(answer)
    else:
        _print_offers(answer)
    return DONE if answer["accepted"] or answer["offers"] else REFUSED


def _one_body(file: str) -> dict[str, Any]:
    """Return what FILE asks for, without an id: that may be the one that was refused."""
    bodies = list(bodies_in(file))
    if len(bodies) != 1:
        raise CliError(
            f"{file}: {len(bodies)} requests; offers are for a single one: name it with --id"
        )
    return {name: value for name, value in bodies[0].items() if name != "id"}


def _refused_body(server: Server, id_: str) -> dict[str, Any]:
    kept: Mapping[str, Any] = server.call("GET", entry_path(PATH, id_)).good()
    if kept["state"] != "refused":
        raise CliError(f"{id_} is {kept['state']}, not refused")
    asked = {name: kept[name] for name in ("tenant", "queue", "weight", "priority")}
    return {**asked, "rdl": kept["expression"]}


def _ask_files(
    cluster: Path,
    workload: Path | None,
    file: str | None,
    id_: str | None,
    tenant: str | None,
    queue: str | None,
    agent_name: str | None,
    most: int,
) -> dict[str, Any]:
    """Plan the workload without the request, then ask for the request beside it."""
    from planner.agents import DEFAULT_AGENT, agent_named
    from planner.files import read_cluster, read_workload
    from planner.offers.search import OfferSearch
    from planner.plan.batch.admission import screen
    from planner.plan.records.changes import UncompiledRequest
    from planner.request import header_of
    from planner.workload.compile import compile_workload
    from planner.workload.plan import plan_from_nothing
    from rdl.compile.source import read_source
    from rdl.text.formatter import format_expression

    described = read_cluster(cluster)
    lines = [] if workload is None else list(read_workload(workload, described.origin))
    line = _line_in(file) if file is not None else _line_of(lines, str(id_), workload)
    lines = [one for one in lines if one is not line]
    agent = agent_named(agent_name or DEFAULT_AGENT)
    plan = plan_from_nothing(described, compile_workload(lines, described), agent).plan
    expression = read_source(line.source)
    line = replace(
        line,
        tenant=line.tenant if tenant is None else tenant,
        queue=line.queue if queue is None else queue,
    )
    asked = UncompiledRequest(**header_of(line), expression=format_expression(expression))
    search = OfferSearch.of(plan, levels=(line.promise,))
    return search.answer(asked, expression, agent, most, lambda one: screen(plan, one))


def _line_of(lines: list[WorkloadLine], id_: str, workload: Path | None) -> WorkloadLine:
    for line in lines:
        if line.id == id_:
            return line
    raise CliError(f"there is no request {id_!r} in {workload or 'any --workload'}")


def _line_in(file: str) -> WorkloadLine:
    from planner.files import WorkloadLine

    body = _one_body(file)
    names = ("tenant", "queue", "weight", "priority")
    known = {name: body[name] for name in names if name in body}
    return WorkloadLine("", body["rdl"], **known)


def _print_offers(answer: Mapping[str, Any]) -> None:
    if answer["accepted"]:
        click.echo("accepted as it stands")
        return
    refusal = answer["refusal"]
    click.echo(f"refused ({refusal['code']}): {refusal['detail']}")
    if not answer["offers"]:
        click.echo(
            "no later deadline, earlier start, smaller size or other option was found that fits"
        )
        return
    rows = [
        (*(offer["change"][name] for name in ("kind", "asked", "offered", "share")),
         offer["expression"])
        for offer in answer["offers"]
    ]  # fmt: skip
    click.echo()
    print_table(("change", "asked", "offered", "share", "request"), rows)
