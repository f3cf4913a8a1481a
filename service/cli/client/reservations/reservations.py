"""`agenda submit`, `list`, `show`, `cancel`: a client of a server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import click

from agenda.errors import REFUSAL_CODES
from service.cli.client.completion import complete_state, completing
from service.cli.client.reservations.tables import (
    ALLOCATION_COLUMNS,
    LISTED,
    SLOT_COLUMNS,
    allocation_rows,
    displaced_lines,
    offers_in,
    print_reservations,
    row_of,
    slot_rows,
    title_of,
    why_not,
)
from service.cli.client.server import Server, ServerReply, client_options, entry_path
from service.cli.forms.agents import complete_agent
from service.cli.forms.layout import ListColumn
from service.cli.forms.local_times import common_zone, zone_line
from service.cli.forms.sentences import plan_bound_text, question_lines
from service.cli.forms.table_text import printable
from service.cli.plans.plan_tables import offer_lines
from service.cli.terminal.errors import CliError, reports_errors
from service.cli.terminal.exit_codes import DONE, code_of_several
from service.cli.terminal.options import READABLE_OR_STDIN, finite, from_now, read_text
from service.cli.terminal.output import (
    JSON,
    TABLE,
    format_option,
    limit_option,
    listing_options,
    print_json,
    print_listing,
    print_table,
    print_title,
)

PATH: Final = "/v1/reservations"

#: How an offer of a refusal is taken.
_TAKE: Final = "submit it again with"

#: Offers that a refusal carries where nothing is said, and where they are asked for.
_OFFERS: Final = 3
_OFFERS_PATH: Final = "/v1/offers"

#: What of a refused request is asked again: an offer is for the same tenant, under the same terms.
_ASKED: Final = ("tenant", "queue", "weight", "priority", "promise")


@click.command()
@click.argument("file", type=READABLE_OR_STDIN)
@client_options
@click.option("--id", "id_", help="Id of the reservation.  [default: chosen by the server]")
@click.option("--tenant", shell_complete=completing("tenant"), help="Tenant of the request.")
@click.option("--queue", shell_complete=completing("queue"), help="Queue of the request.")
@click.option(
    "--weight",
    type=finite,
    metavar="NUMBER",
    help="How much the request is worth, as a factor.  [default: 1]",
)
@click.option(
    "--priority",
    type=int,
    help="Larger goes first in a batch; where a policy lets it, it displaces what has less.  "
    "[default: 0]",
)
@click.option(
    "--agent",
    shell_complete=complete_agent,
    help="Agent that places the request (agenda plan --help).  [default: the server's]",
)
@click.option(
    "--promise",
    type=click.Choice(["pooled", "placed"]),
    help="What is promised: named machines (placed) or totals (pooled).  [default: the cluster's "
    "level]",
)
@click.option("--dry-run", is_flag=True, help="Show what the answer would be and change nothing.")
@click.option(
    "--bound", is_flag=True, help="Say how much better any plan of the server's requests could be."
)
@click.option(
    "--key",
    help="Word under which FILE is submitted once, however often this command runs: a retry gets "
    "the same answer.",
)
@click.option(
    "--take",
    type=click.IntRange(1, 10),
    metavar="N",
    help="If the request is refused, submit its offer N instead (see agenda offers).",
)
@format_option(TABLE, JSON)
@reports_errors
def submit(
    file: str,
    server: Server,
    id_: str | None,
    tenant: str | None,
    queue: str | None,
    weight: float | None,
    priority: int | None,
    agent: str | None,
    promise: str | None,
    dry_run: bool,
    bound: bool,
    key: str | None,
    take: int | None,
    form: str,
) -> int:
    """Submit the request in FILE: RDL text, RDL JSON, or workload lines (one request per line).

    Options fill in what FILE leaves out. Exits with 3 if a request was refused.
    """
    options = {
        "id": id_, "tenant": tenant, "queue": queue, "weight": weight, "priority": priority,
        "agent": agent, "promise": promise,
    }  # fmt: skip
    given = {name: value for name, value in options.items() if value is not None}
    bodies = [{**given, **body} for body in bodies_in(file)]
    if not bodies:
        raise CliError(f"{file}: nothing to submit")
    query: dict[str, object] = {
        "dry_run": "true" if dry_run else None,
        "bound": "true" if bound else None,
    }
    if take is not None and len(bodies) > 1:
        raise click.UsageError("--take is for one request")
    if len(bodies) == 1:
        replies = [ask_once(server, bodies[0], query, key, take)]
        told = replies[0].body
    else:
        replies, told = post_batch(server, bodies, query, key)
    _print_replies(bodies, replies, form, dry_run=dry_run)
    if bound:
        click.echo(plan_bound_text(told.get("plan_bound")), err=True)
    return code_of_several(reply.exit_code for reply in replies)


def print_reply(body: Mapping[str, Any], reply: ServerReply, form: str) -> int:
    """Print what was said to one request; return the exit code."""
    _print_replies([body], [reply], form)
    return reply.exit_code


def ask_once(
    server: Server,
    body: Mapping[str, Any],
    query: Mapping[str, object],
    key: str | None,
    take: int | None = None,
) -> ServerReply:
    """Post one request; where it is refused, its offer `take` instead, and say so.

    Under one key the same offer is taken once, however often this is done.

    Raises
    ------
    CliError
        If there are not so many offers.
    """
    most = None if take is None else max(take, _OFFERS)
    reply = server.once(PATH, body, {**query, "holders": "true", "offers": most}, key)
    if reply.ok or reply.code not in REFUSAL_CODES:
        return reply
    if not offers_in(reply):  # what no plan could hold as it stands is not kept as a refusal
        found = found_offers(server, body, most)
        reply = replace(reply, body={**reply.body, "offers": found["offers"] if found else []})
    if take is None:
        return reply
    offers = offers_in(reply)
    if len(offers) < take:
        there = f"there are {len(offers)} offers" if offers else "there is no offer"
        raise CliError(f"{why_not(body, reply)}\n--take {take}: {there}", reply.exit_code)
    return take_offer(server, offers[take - 1], query, key, take)


def found_offers(
    server: Server, asked: Mapping[str, Any], most: int | None = None
) -> dict[str, Any] | None:
    """Return what a server says of a request now: whether it would be accepted, and its offers.

    The call of `agenda offers` and of the page. Their requests keep the id of `asked`, which is not
    searched with: that may be the one that was refused. None where the server has no time to look.
    """
    body = {name: value for name, value in asked.items() if name != "id"}
    reply = server.call("POST", _OFFERS_PATH, {**body, "most": most or _OFFERS})
    if not reply.ok:
        return None
    kept = {"id": asked["id"]} if "id" in asked else {}
    offers = [{**one, "request": {**one["request"], **kept}} for one in reply.body["offers"]]
    return {**reply.body, "offers": offers}


def take_offer(
    server: Server,
    offer: Mapping[str, Any],
    query: Mapping[str, object],
    key: str | None,
    number: int,
) -> ServerReply:
    """Post what an offer says, under a key of its own, and say which it is."""
    click.echo(f"offer {number}: {offer['sentence']}", err=True)
    own = None if key is None else f"{key}.offer-{number}"
    return server.once(PATH, offer["request"], {**query, "holders": "true"}, own)


def post_batch(
    server: Server,
    bodies: Sequence[Mapping[str, Any]],
    query: Mapping[str, object],
    key: str | None = None,
) -> tuple[list[ServerReply], Mapping[str, Any]]:
    """Post requests as one batch, each on its own; return what was said to each, and the answer.

    Raises
    ------
    CliError
        If the batch as a whole was not taken.
    """
    done = server.once(f"{PATH}:batch", list(bodies), query, key).good()
    return [ServerReply(line["status"], line["body"]) for line in done["results"]], done


#: What a workload line says and a request to a server does not.
_OF_FILES: Final = ("submitted", "recorded")


def bodies_in(file: str) -> Iterator[dict[str, Any]]:
    """Yield request bodies: one of RDL, or one a workload line (without what only files have)."""
    text = read_text(file)
    numbered = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not numbered:
        return
    parsed = [_object(line) for _, line in numbered] if text.lstrip().startswith("{") else []
    if not any(line is not None and "rdl" in line for line in parsed):
        source = _object(text) or text
        for asked in question_lines(source):
            click.echo(asked, err=True)
        yield {"rdl": source}
        return
    for (number, _), line in zip(numbered, parsed, strict=True):
        if line is None or "rdl" not in line:
            where = f"{file}: line {number}"
            raise CliError(f'{where} is not a workload line; write {{"rdl": ...}} on each line')
        yield {name: value for name, value in line.items() if name not in _OF_FILES}


def _object(text: str) -> dict[str, Any] | None:
    from rdl.codecs.strict_json import JsonTextError, read_json

    try:
        value = read_json(text)
    except JsonTextError:
        return None
    return value if isinstance(value, dict) else None


def _print_replies(
    bodies: Sequence[Mapping[str, Any]],
    replies: Sequence[ServerReply],
    form: str,
    *,
    dry_run: bool = False,
) -> None:
    if form == JSON:
        values = [reply.body for reply in replies]
        print_json(values[0] if len(values) == 1 else values)
        return
    kept = [reply.body for reply in replies if reply.ok]
    if kept:
        print_reservations(kept)
        for line in (line for entry in kept for line in displaced_lines(entry, dry_run=dry_run)):
            click.echo(line)
    for number, (body, reply) in enumerate(zip(bodies, replies, strict=True), start=1):
        if not reply.ok:
            unnamed = f"request {number}: " if len(bodies) > 1 else ""
            name = f"{body['id']}: " if "id" in body else unnamed
            click.echo(f"{name}{why_not(body, reply)}", err=True)
            for line in offer_lines(offers_in(reply), _TAKE):
                click.echo(line, err=True)


@click.command("list")
@client_options
@click.option(
    "--tenant", shell_complete=completing("tenant"), help="Only reservations of this tenant."
)
@click.option(
    "--queue", shell_complete=completing("queue"), help="Only reservations of this queue."
)
@click.option(
    "--state",
    shell_complete=complete_state,
    help="Only reservations in this state, such as accepted or refused.",
)
@click.option(
    "--from",
    "start",
    callback=from_now,
    help="Only reservations that hold something at or after this time: 2h or +2h from now, or "
    "RFC 3339.",
)
@click.option(
    "--to",
    "end",
    callback=from_now,
    help="Only reservations that hold something before this time.",
)
@limit_option
@listing_options()
@reports_errors
def list_(
    server: Server,
    tenant: str | None,
    queue: str | None,
    state: str | None,
    start: str | None,
    end: str | None,
    limit: int,
    form: str,
) -> int:
    """List reservations and refusals of a server."""
    query = {"tenant": tenant, "queue": queue, "state": state, "from": start, "to": end}
    entries = list_reservations(server, query, limit)
    zone = common_zone(entries)
    rows = [row_of(entry, calendar=form == TABLE, zone=zone) for entry in entries]
    rows = [[*row, entry.get("code")] for row, entry in zip(rows, entries, strict=True)]
    columns = (*LISTED, ListColumn("code", is_wide=state != "refused"))
    print_listing(entries, columns, rows, form, "no reservations", title_of(entries))
    return DONE


def list_reservations(
    server: Server, query: Mapping[str, object], limit: int | None = None
) -> list[dict[str, Any]]:
    """Return the reservations that a server lists; see `Server.list_all`."""
    return server.list_all(PATH, "reservations", query, limit)


@click.command()
@click.argument("id_", metavar="ID", shell_complete=completing("reservation"))
@client_options
@format_option(TABLE, JSON)
@reports_errors
def show(id_: str, server: Server, form: str) -> int:
    """Show one reservation and its allocation, or why it was refused; -o json adds its history."""
    body = _with_present_offers(server, server.call("GET", entry_path(PATH, id_)).good())
    if form == JSON:
        print_json(body)
        return DONE
    print_reservations([body])
    submitted = body.get("written", body["expression"]).replace("\r\n", "\n")
    click.echo("\n" + printable(submitted, kept="\n\t"))
    if "written" in body:
        click.echo(f"canonical: {body['expression']}")
    if "code" in body:
        why = server.call("GET", f"{entry_path(PATH, id_)}/explanation").good()
        now = f"; now {why['held_by']}" if why.get("held_by") else ""
        click.echo(f"\nrefused ({body['code']}): {body['detail']}{now}")
        if body["accepted_now"]:
            click.echo("it would be accepted now: submit it again")
        for line in offer_lines(body["offers"], f"agenda offers --id {id_}"):
            click.echo(line)
        return DONE
    if "degradation" in body:
        click.echo(f"\ndegraded: {body['degradation']['reason']}")
        for line in offer_lines(body["degradation"]["offers"]):
            click.echo(line)
    rows = allocation_rows(body)
    if rows:
        click.echo()
        print_title(f"what it holds, {zone_line(common_zone([body]))}; bundles: how many at once")
        print_table(ALLOCATION_COLUMNS, rows)
    slots = slot_rows(body)
    if slots:
        click.echo()
        print_title(f"on which machines, {zone_line(common_zone([body]))}")
        print_table(SLOT_COLUMNS, slots)
    for note in body["notes"]:
        click.echo(f"note: {note}")
    return DONE


def refused_request(kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body that asks again for what was refused, without its id."""
    asked = {name: kept[name] for name in _ASKED if kept.get(name) is not None}
    return {**asked, "rdl": kept["expression"]}


def _with_present_offers(server: Server, kept: dict[str, Any]) -> dict[str, Any]:
    """Return what a server keeps of a request, with the offers that hold now.

    Of a refusal they are looked for anew, and `accepted_now` says whether none is needed; those of
    a reservation that lost something are tried, and what does not fit any more is left out.
    """
    if "code" in kept:
        found = found_offers(server, {**refused_request(kept), "id": kept["id"]})
        now = {"accepted": False, "offers": []} if found is None else found
        return {**kept, "offers": now["offers"], "accepted_now": now["accepted"]}
    if "degradation" not in kept:
        return kept
    path, query = entry_path(PATH, kept["id"]), {"dry_run": "true"}

    def holds(offer: Mapping[str, Any]) -> bool:
        body = {"rdl": offer["expression"]}
        return server.call("PUT", path, body, query, {"If-Match": "*"}).ok

    offers = [one for one in kept["degradation"]["offers"] if holds(one)]
    return {**kept, "degradation": {**kept["degradation"], "offers": offers}}


@click.command()
@click.argument("id_", metavar="ID", shell_complete=completing("reservation"))
@client_options
@click.option(
    "--revision",
    type=click.IntRange(min=1),
    help="Cancel only if the reservation is still at this revision.",
)
@format_option(TABLE, JSON)
@reports_errors
def cancel(id_: str, server: Server, revision: int | None, form: str) -> int:
    """Cancel a reservation: its future is given back, its past is kept."""
    headers = {} if revision is None else {"If-Match": f'"{revision}"'}
    body = server.call("DELETE", entry_path(PATH, id_), headers=headers).good()
    if form == JSON:
        print_json(body)
    else:
        print_reservations([body])
    return DONE
