"""`agenda offers` and `agenda holds`: what would be accepted, and what is kept for a minute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from agenda.errors import REFUSAL_CODES
from service.cli.completion import completing
from service.cli.kit.errors import DONE, REFUSED, CliError, reports_errors
from service.cli.kit.groups import LazyCommand, LazyGroup
from service.cli.kit.options import READABLE, READABLE_OR_STDIN, agent_name, complete_agent
from service.cli.kit.output import (
    JSON,
    TABLE,
    ListColumn,
    format_option,
    listing_options,
    local_text,
    print_json,
    print_listing,
    print_title,
    zone_line,
)
from service.cli.kit.server import Server, client_options, entry_path
from service.cli.plan_tables import offer_lines
from service.cli.reservations import (
    PATH,
    bodies_in,
    print_reply,
    print_reservations,
    refused_request,
    take_offer,
    why_not,
)

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
@click.option("--tenant", shell_complete=completing("tenant"), help="Tenant of the request.")
@click.option("--queue", shell_complete=completing("queue"), help="Queue of the request.")
@click.option("--agent", type=agent_name, metavar="AGENT", help="Agent that places the request.")
@click.option("--most", type=click.IntRange(1, _MOST), default=3, show_default=True,
              metavar="N", help="Look for at most N offers.")  # fmt: skip
@click.option(
    "--take",
    type=click.IntRange(1, _MOST),
    metavar="N",
    help="Submit offer N; with --id the reservation has that id.",
)
@click.option("--key", help="With --take: word under which the offer is taken once.")
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
    take: int | None,
    key: str | None,
    form: str,
) -> int:
    """Show whether the request in FILE would be accepted, why not, and what would be instead.

    FILE is RDL text, RDL JSON or one workload line; --id names a refused request of the server, or
    with --cluster a request of the workload. Nothing is changed, unless --take submits an offer.
    Exits with 3 if the request is refused and there is no offer.
    """
    if (file is None) == (id_ is None):
        raise click.UsageError("give either FILE or --id")
    if workload is not None and cluster is None:
        raise click.UsageError("--workload goes with --cluster")
    if take is not None and cluster is not None:
        raise click.UsageError("--take submits to a server; leave --cluster out")
    if key is not None and take is None:
        raise click.UsageError("--key goes with --take")
    if cluster is not None:
        answer = _ask_files(cluster, workload, file, id_, tenant, queue, agent, most)
    else:
        body = _one_body(file) if file is not None else _refused_body(server, str(id_))
        found = max(most, take or 0)
        options = {"tenant": tenant, "queue": queue, "agent": agent, "most": found}
        body |= {name: value for name, value in options.items() if value is not None}
        answer = server.call("POST", "/v1/offers", body).good()
    if take is not None:
        return _take(server, answer, take, key, id_, form)
    if form == JSON:
        print_json(answer)
    else:
        _print_offers(answer, "ask again with" if cluster is None else "")
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
    return refused_request(kept)


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
    from service.cli.plan import is_dated, with_calendar

    raw = b"" if workload is None else workload.read_bytes()
    described = with_calendar(read_cluster(cluster), raw)
    given = None if file is None else _line_in(file)
    if given is not None and is_dated(given.source):
        described = described.with_origin(datetime.now(UTC))
    lines = [] if workload is None else list(read_workload(workload, described.origin))
    line = _line_of(lines, str(id_), workload) if given is None else given
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


def _take(
    server: Server,
    answer: Mapping[str, Any],
    number: int,
    key: str | None,
    id_: str | None,
    form: str,
) -> int:
    """Submit one of the offers, and print the reservation that it became."""
    if answer["accepted"]:
        raise CliError("it is accepted as it stands: submit it")
    found = answer["offers"]
    if len(found) < number:
        there = f"there are {len(found)}" if found else "there is none"
        raise CliError(f"{_refused_text(answer)}\n--take {number}: of offers {there}", REFUSED)
    offer = found[number - 1]
    request = offer["request"] if id_ is None else {**offer["request"], "id": id_}
    reply = take_offer(server, {**offer, "request": request}, {}, key, number)
    return print_reply(request, reply, form)


def _refused_text(answer: Mapping[str, Any]) -> str:
    refusal = answer["refusal"]
    holders = f"; {refusal['held_by']}" if refusal.get("held_by") else ""
    return f"refused ({refusal['code']}): {refusal['detail']}{holders}"


def _print_offers(answer: Mapping[str, Any], take: str) -> None:
    if answer["accepted"]:
        click.echo("accepted as it stands")
        return
    click.echo(_refused_text(answer))
    if not answer["offers"]:
        click.echo(
            "no later deadline, earlier start, smaller size or other option was found that fits"
        )
        return
    for line in offer_lines(answer["offers"], take):
        click.echo(line)


_HOLDS: Final = "/v1/holds"
_LISTED: Final = (ListColumn("id"), ListColumn("holder"), ListColumn("until"))
_ID: Final = click.argument("id_", metavar="ID", shell_complete=completing("hold"))
_HERE: Final = "service.cli.offers"

_VERBS: Final = (
    LazyCommand("create", f"{_HERE}:create", "Place a request and keep its room for a while."),
    LazyCommand("list", f"{_HERE}:list_", "List what is held, the first to end first."),
    LazyCommand("show", f"{_HERE}:show", "Show a hold and the room that it keeps."),
    LazyCommand("accept", f"{_HERE}:accept", "Make a reservation of a hold."),
    LazyCommand("release", f"{_HERE}:release", "Give back what is held."),
)


@click.group(cls=LazyGroup, parts=_VERBS)
def holds() -> None:
    """Keep room on a server for up to a minute, then accept it or give it back.

    Room that nobody accepts is given back when its time is over.
    """


@click.command()
@click.argument("file", type=READABLE_OR_STDIN)
@client_options
@click.option(
    "--time", "time_", default="60s", show_default=True, help="Keep the room so long, at most 60s."
)
@click.option("--id", "id_", help="Id of the hold.  [default: chosen by the server]")
@click.option("--tenant", shell_complete=completing("tenant"), help="Tenant of the request.")
@click.option("--queue", shell_complete=completing("queue"), help="Queue of the request.")
@click.option(
    "--agent",
    shell_complete=complete_agent,
    help="Agent that places the request (agenda plan --help).  [default: the server's]",
)
@format_option(TABLE, JSON)
@reports_errors
def create(
    file: str,
    server: Server,
    time_: str,
    id_: str | None,
    tenant: str | None,
    queue: str | None,
    agent: str | None,
    form: str,
) -> int:
    """Place the request in FILE and keep its room for a while.

    FILE is RDL text, RDL JSON or one workload line. Exits with 3 if there is no room; such a
    refusal is not kept.
    """
    bodies = list(bodies_in(file))
    if len(bodies) != 1:
        raise CliError(f"{file}: {len(bodies)} requests; a hold is for one")
    options = {"id": id_, "tenant": tenant, "queue": queue, "agent": agent}
    given = {name: value for name, value in options.items() if value is not None}
    body = {**given, **bodies[0], "time": time_}
    reply = server.call("POST", _HOLDS, body)
    if not reply.ok and reply.code in REFUSAL_CODES:
        click.echo(why_not(body, reply), err=True)
        return REFUSED
    return _print_hold(reply.good(), form)


@click.command("list")
@client_options
@listing_options()
@reports_errors
def list_(server: Server, form: str) -> int:
    """List what is held for your tenants, the first to end first."""
    body = server.call("GET", _HOLDS).good()
    zone = server.zone() if form == TABLE else None
    rows = [
        [one["id"], one["holder"], local_text(one["until_at"], 0, zone) if zone else one["until"]]
        for one in body["holds"]
    ]
    title = f"{len(rows):,} held; {zone_line(zone)}"
    print_listing(body, _LISTED, rows, form, "nothing is held", title)
    return DONE


@click.command()
@_ID
@client_options
@format_option(TABLE, JSON)
@reports_errors
def show(id_: str, server: Server, form: str) -> int:
    """Show the hold ID and the room that it keeps."""
    return _print_hold(server.call("GET", entry_path(_HOLDS, id_)).good(), form)


@click.command()
@_ID
@client_options
@format_option(TABLE, JSON)
@reports_errors
def accept(id_: str, server: Server, form: str) -> int:
    """Make a reservation of the hold ID, at the times and on the machines that it keeps."""
    return _print_reservation(server.call("POST", f"{entry_path(_HOLDS, id_)}/accept").good(), form)


@click.command()
@_ID
@client_options
@format_option(TABLE, JSON)
@reports_errors
def release(id_: str, server: Server, form: str) -> int:
    """Give back what the hold ID keeps; its reservation is cancelled."""
    return _print_reservation(server.call("DELETE", entry_path(_HOLDS, id_)).good(), form)


def _print_reservation(body: Mapping[str, Any], form: str) -> int:
    if form == JSON:
        print_json(body)
    else:
        print_reservations([body])
    return DONE


def _print_hold(body: Mapping[str, Any], form: str) -> int:
    if form == JSON:
        print_json(body)
        return DONE
    zone = body["reservation"].get("zone", "UTC")
    until = local_text(body["until_at"], 0, zone)
    print_title(f"held until {until} ({zone}) for {body['holder']}")
    print_reservations([body["reservation"]])
    return DONE
