"""`agenda offers` and `agenda holds`: show acceptable requests, and hold capacity for a minute."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from agenda.errors import REFUSAL_CODES
from service.cli.kit.commands import (
    Answer,
    Listing,
    Table,
    given,
    id_of,
    queue_option,
    server_command,
    tenant_option,
)
from service.cli.kit.errors import DONE, REFUSED, CliError
from service.cli.kit.options import READABLE, READABLE_OR_STDIN, agent_name
from service.cli.kit.output import local_text, print_title
from service.cli.kit.server import Server, entry_path
from service.cli.plan_tables import offer_lines
from service.cli.reservations import (
    AGENT,
    PATH,
    one_body,
    print_reservations,
    refused_request,
    replies_answer,
    reservation_answer,
    take_offer,
    why_not,
)

if TYPE_CHECKING:
    from planner.files import WorkloadLine

_MOST = 10


@server_command(
    None,
    "offers",
    click.argument("file", type=READABLE_OR_STDIN, required=False),
    click.option("--id", "id_", help="Id of a refused request, instead of FILE."),
    click.option("--cluster", type=READABLE, help="Use this cluster file instead of a server."),
    click.option(
        "--workload", type=READABLE, help="With --cluster: a workload to plan before the request."
    ),
    tenant_option(),
    queue_option(),
    click.option("--agent", type=agent_name, metavar="AGENT",
                 help="Agent that places the request."),
    click.option("--most", type=click.IntRange(1, _MOST), default=3, show_default=True,
                 metavar="N", help="Look for at most N offers."),
    click.option("--take", type=click.IntRange(1, _MOST), metavar="N",
                 help="Submit offer N; with --id the reservation has that id."),
    click.option("--key", help="With --take: idempotency key for the submission."),
)  # fmt: skip
def offers(
    file: str | None,
    server: Server,
    id_: str | None,
    cluster: Path | None,
    workload: Path | None,
    take: int | None,
    key: str | None,
    most: int,
    **options: str | None,
) -> Answer:
    """Show whether the request in FILE would be accepted; if not, the reason and offers.

    FILE is RDL text, RDL JSON or one workload line; --id names a refused request of the server, or
    with --cluster a request of the workload. Nothing is changed, unless --take submits an offer.
    Exits with 3 if the request is refused and there is no offer.
    """
    if (file is None) == (id_ is None):
        raise click.UsageError("give either FILE or --id")
    if workload is not None and cluster is None:
        raise click.UsageError("--workload needs --cluster")
    if take is not None and cluster is not None:
        raise click.UsageError("--take submits to a server; omit --cluster")
    if key is not None and take is None:
        raise click.UsageError("--key needs --take")
    if cluster is not None:
        answer = _ask_files(cluster, workload, file, id_, most, options)
    else:
        body = _one_body(file) if file is not None else _refused_body(server, str(id_))
        body |= given(**options, most=max(most, take or 0))
        answer = server.call("POST", "/v1/offers", body).good()
    if take is not None:
        return _take(server, answer, take, key, id_)
    code = DONE if answer["accepted"] or answer["offers"] else REFUSED
    how = "ask again with" if cluster is None else ""
    return Answer(answer, partial(_print_offers, answer, how), code=code)


def _one_body(file: str) -> dict[str, Any]:
    """Return the request in FILE without its id, which may be that of a refused request."""
    return one_body(file, "offers are for a single request: select it with --id")


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
    most: int,
    options: Mapping[str, str | None],
) -> dict[str, Any]:
    """Plan the workload without the request, then submit the request in addition."""
    from planner.agents import DEFAULT_AGENT, agent_named
    from planner.files import read_cluster, read_workload
    from planner.offer_search import OfferSearch
    from planner.plan.batch.admission import screen
    from planner.plan.records.changes import UncompiledRequest
    from planner.request import header_of
    from planner.workload.compile import compile_workload
    from planner.workload.plan import plan_from_nothing
    from rdl.compile.source import read_source
    from rdl.text.formatter import format_expression
    from service.cli.workload_input import is_dated, with_calendar

    raw = b"" if workload is None else workload.read_bytes()
    described = with_calendar(read_cluster(cluster), raw)
    typed = None if file is None else _line_in(file)
    if typed is not None and is_dated(typed.source):
        described = described.with_origin(datetime.now(UTC))
    lines = [] if workload is None else list(read_workload(workload, described.origin))
    line = _line_of(lines, str(id_), workload) if typed is None else typed
    lines = [one for one in lines if one is not line]
    agent = agent_named(options["agent"] or DEFAULT_AGENT)
    plan = plan_from_nothing(described, compile_workload(lines, described), agent).plan
    expression = read_source(line.source)
    owner = given(tenant=options["tenant"], queue=options["queue"])
    line = replace(line, **owner)
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
    server: Server, answer: Mapping[str, Any], number: int, key: str | None, id_: str | None
) -> Answer:
    """Submit one of the offers, and show its reservation."""
    if answer["accepted"]:
        raise CliError("it is accepted as it is: submit it")
    found = answer["offers"]
    if len(found) < number:
        there = f"there are {len(found)}" if found else "there is none"
        raise CliError(f"{_refused_text(answer)}\n--take {number}: of offers {there}", REFUSED)
    offer = found[number - 1]
    request = offer["request"] if id_ is None else {**offer["request"], "id": id_}
    reply = take_offer(server, {**offer, "request": request}, {}, key, number)
    return replies_answer([request], [reply])


def _refused_text(answer: Mapping[str, Any]) -> str:
    refusal = answer["refusal"]
    holders = f"; {refusal['held_by']}" if refusal.get("held_by") else ""
    return f"refused ({refusal['code']}): {refusal['detail']}{holders}"


def _print_offers(answer: Mapping[str, Any], take: str) -> None:
    if answer["accepted"]:
        click.echo("accepted as it is")
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
_LISTED: Final = Table("id holder until", "until")
_ID: Final = id_of("hold")


@click.group()
def holds() -> None:
    """Keep capacity on a server for up to a minute, then accept it or release it.

    A hold that is not accepted in time is released.
    """


@server_command(
    holds,
    "create",
    click.argument("file", type=READABLE_OR_STDIN),
    click.option("--time", default="60s", show_default=True,
                 help="Hold the capacity for this long, at most 60s."),
    click.option("--id", help="Id of the hold.  [default: chosen by the server]"),
    tenant_option(),
    queue_option(),
    AGENT,
)  # fmt: skip
def create(file: str, server: Server, time: str, **options: str | None) -> Answer | int:
    """Place the request in FILE and keep its capacity for a while.

    FILE is RDL text, RDL JSON or one workload line. Exits with 3 if there is no free capacity; such
    a refusal is not kept.
    """
    body = {
        **given(**options),
        **one_body(file, "a hold is for one request", with_id=True),
        "time": time,
    }
    reply = server.call("POST", _HOLDS, body)
    if not reply.ok and reply.code in REFUSAL_CODES:
        click.echo(why_not(body, reply), err=True)
        return REFUSED
    return _hold_answer(reply.good())


@server_command(holds, "list", lists=True)
def list_(server: Server) -> Listing:
    """List the holds of your tenants, earliest expiry first."""
    body = server.call("GET", _HOLDS).good()
    found = body["holds"]
    return Listing(body, found, _LISTED, f"{len(found):,} held", "there are no holds")


@server_command(holds, "show", _ID)
def show(id_: str, server: Server) -> Answer:
    """Show the hold ID and the capacity that it keeps."""
    return _hold_answer(server.call("GET", entry_path(_HOLDS, id_)).good())


@server_command(holds, "accept", _ID)
def accept(id_: str, server: Server) -> Answer:
    """Make a reservation of the hold ID, at the times and on the machines that it keeps."""
    return reservation_answer(server.call("POST", f"{entry_path(_HOLDS, id_)}/accept").good())


@server_command(holds, "release", _ID)
def release(id_: str, server: Server) -> Answer:
    """Release the hold ID; its reservation is cancelled."""
    return reservation_answer(server.call("DELETE", entry_path(_HOLDS, id_)).good())


def _hold_answer(body: Mapping[str, Any]) -> Answer:
    return Answer(body, partial(_print_hold, body))


def _print_hold(body: Mapping[str, Any]) -> None:
    zone = body["reservation"].get("zone", "UTC")
    until = local_text(body["until_at"], 0, zone)
    print_title(f"held until {until} ({zone}) for {body['holder']}")
    print_reservations([body["reservation"]])
