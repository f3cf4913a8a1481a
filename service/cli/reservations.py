"""`agenda submit` and `agenda reservations VERB`: a client of a server's reservations."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import click

from agenda.client import Client, Until
from agenda.errors import REFUSAL_CODES, UnauthenticatedError, WaitTimeoutError
from agenda.records import Reservation
from agenda.retries import Retries
from rdl.errors import Problem, render
from rdl.local_time import UTC_ZONE
from service.cli.events import EVENT_OPTIONS, print_events, seconds_in
from service.cli.kit.commands import (
    DRY_RUN,
    Answer,
    dry_run_query,
    given,
    id_of,
    queue_option,
    server_command,
    tenant_option,
)
from service.cli.kit.errors import DONE, ERROR, REFUSED, CliError, ExitCode, code_of_several
from service.cli.kit.options import (
    READABLE_OR_STDIN,
    complete_agent,
    finite,
    from_now,
    question_lines,
    read_text,
)
from service.cli.kit.output import (
    JSON,
    TABLE,
    ListColumn,
    common_zone,
    instant_text,
    limit_option,
    present_layout,
    print_json,
    print_listing,
    print_table,
    print_title,
    printable,
    shown_places,
    table_text,
    terminal_width,
    zone_line,
)
from service.cli.kit.server import (
    Server,
    ServerReply,
    as_messages,
    complete_state,
    completing,
    entry_path,
)
from service.cli.plan_tables import extent, offer_lines
from service.sentences import counted

COLUMNS: Final = (
    "id", "tenant", "queue", "state", "promise", "start", "end", "revision", "priority",
)  # fmt: skip
#: The same as a list: what no terminal of 80 columns holds is wide.
LISTED: Final = tuple(
    ListColumn(name, is_wide=name in ("queue", "promise", "revision", "priority"))
    for name in COLUMNS
)
#: Of a completed reservation whose job in Slurm still runs.
OVER: Final = "over"

#: Most different notes of an answer that are printed.
_MOST_NOTES: Final = 5

#: What the part is called that has no name of its own (`rdl.names.PartNames`).
THE_REQUEST: Final = "the request"

ALLOCATION_COLUMNS: Final = ("part", "bundle", "start", "end", "bundles")
SLOT_COLUMNS: Final = ("part", "start", "end", "bundles", "machine")


def title_of(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return the first line of a list: how many, in which states, and how times are read."""
    by_state = Counter(str(state_of(entry) or "refused") for entry in entries)
    states = ", ".join(f"{count:,} {state}" for state, count in by_state.most_common())
    return (
        f"{counted(len(entries), 'entry', 'entries')}: {states}; {zone_line(common_zone(entries))}"
    )


def state_of(entry: Mapping[str, Any]) -> object:
    """Return the state of a reservation; `OVER` for one whose job still runs."""
    return OVER if entry.get("runs_on") else entry.get("state")


def row_of(
    entry: Mapping[str, Any], *, calendar: bool, zone: str | None = UTC_ZONE
) -> list[object]:
    """Return a reservation or refusal in `COLUMNS`.

    Parameters
    ----------
    calendar
        Times by the clock of a zone, else as seconds from the Plan's origin, which only programs
        know.
    zone
        The zone of all times of the table; None: each has its own, and its offset is written.

    Raises
    ------
    CliError
        If it is neither.
    """
    if "id" not in entry:
        raise CliError("the answer has no reservation; is --server an Agenda server?")
    start, end = extent(entry) if "atoms" in entry else (None, None)
    times = {"start": start, "end": end}
    if calendar:
        times = {name: instant_text(entry, seconds, zone) for name, seconds in times.items()}
    values = {**entry, **times, "state": state_of(entry)}
    return [values.get(name) for name in COLUMNS]


def print_reservations(entries: Sequence[Mapping[str, Any]]) -> None:
    """Print reservations in `COLUMNS`; where a terminal does not hold them, as a list has them.

    Times matter most: they are never cut to make space for other columns.
    """
    zone = common_zone(entries)
    rows = [row_of(entry, calendar=True, zone=zone) for entry in entries]
    width = terminal_width()
    text = table_text(COLUMNS, rows)
    fits = width is None or max(len(line) for line in text.splitlines()) <= width
    places = shown_places(LISTED, present_layout(), all_columns=fits)
    print_title(zone_line(zone))
    print_table(
        [COLUMNS[place] for place in places], [[row[place] for place in places] for row in rows]
    )
    notes = dict.fromkeys(note for entry in entries for note in entry.get("notes", ()))
    for note in list(notes)[:_MOST_NOTES]:
        click.echo(f"note: {note}")


def reservation_answer(entry: Mapping[str, Any], code: int = DONE) -> Answer:
    """Return one reservation as the answer of a command."""
    return Answer(entry, partial(print_reservations, [entry]), code=code)


def displaced_lines(entry: Mapping[str, Any], *, dry_run: bool) -> list[str]:
    """Return the outcome of the reservations that a request displaces, one line each."""
    begin, end = ("would displace", "would be") if dry_run else ("displaced", "is")
    return [
        f"{begin} {one['id'] or 'a reservation of another tenant'}: it {end} {one['fate']}"
        for one in entry.get("displaced", ())
    ]


def allocation_rows(entry: Mapping[str, Any]) -> list[list[object]]:
    """Return a reservation's allocation in `ALLOCATION_COLUMNS`."""
    zone = common_zone([entry])
    return [
        [
            atom.get("name", THE_REQUEST),
            json.dumps(atom["bundle"]),
            instant_text(entry, start, zone),
            instant_text(entry, end, zone),
            bundles,
        ]
        for atom in entry["atoms"]
        for start, end, bundles in atom["allocation"]
    ]


def slot_rows(entry: Mapping[str, Any]) -> list[list[object]]:
    """Return a reservation's slots in `SLOT_COLUMNS`."""
    zone = common_zone([entry])
    return [
        [
            atom.get("name", THE_REQUEST),
            instant_text(entry, start, zone),
            instant_text(entry, end, zone),
            bundles,
            machine,
        ]
        for atom in entry["atoms"]
        for start, end, bundles, machine in atom.get("slots", ())
    ]


def offers_in(reply: ServerReply) -> Sequence[Mapping[str, Any]]:
    """Return the offers of a refusal, or those searched later."""
    body = reply.body if isinstance(reply.body, dict) else {}
    found: Sequence[Mapping[str, Any]] = (body.get("refusal") or body).get("offers", ())
    return found or body.get("offers", ())


def why_not(asked: Mapping[str, Any], reply: ServerReply) -> str:
    """Return a server's errors of a request, with carets for RDL text."""
    body = reply.body if isinstance(reply.body, dict) else {}
    if body.get("refusal"):
        return f"refused ({body['code']}): {body['detail']}"
    errors, text = body.get("errors") or [], asked.get("rdl")
    if not errors or not isinstance(text, str) or not all(one.get("span") for one in errors):
        return reply.problem()
    found = tuple(
        Problem(one["code"], one["message"], tuple(one["span"]), None, one["fix"]) for one in errors
    )
    return f"{body['title']}\n{render(found, text)}"


PATH: Final = "/v1/reservations"

#: How an offer of a refusal is taken.
_TAKE: Final = "submit it again with"

#: Offers that a refusal carries where nothing is said, and where they are requested.
_OFFERS: Final = 3
_OFFERS_PATH: Final = "/v1/offers"

#: What of a refused request is asked again: an offer is for the same tenant, under the same terms.
_ASKED: Final = ("tenant", "queue", "weight", "priority", "promise")


#: An agent of the server, by name.
AGENT: Final = click.option(
    "--agent",
    shell_complete=complete_agent,
    help="Agent that places the request (agenda plan --help).  [default: the server's]",
)
_FILE: Final = click.argument("file", type=READABLE_OR_STDIN)
_ID: Final = id_of("reservation")


@server_command(
    None,
    "submit",
    _FILE,
    click.option("--id", help="Id of the reservation.  [default: chosen by the server]"),
    tenant_option(),
    queue_option(),
    click.option("--weight", type=finite, metavar="NUMBER",
                 help="How much the request is worth, as a factor.  [default: 1]"),
    click.option("--priority", type=int,
                 help="Higher priorities are planned first in a batch and, if a policy allows it, "
                 "displace lower ones.  [default: 0]"),
    AGENT,
    click.option("--promise", type=click.Choice(["pooled", "placed"]),
                 help="What is promised: named machines (placed) or totals (pooled).  [default: "
                 "the cluster's level]"),
    DRY_RUN,
    click.option("--bound", is_flag=True,
                 help="Show how much more value any plan of the server's requests could have."),
    click.option("--key", help="Idempotency key: repeated submissions of FILE with it count "
                 "once and get the same answer."),
    click.option("--take", type=click.IntRange(1, 10), metavar="N",
                 help="If the request is refused, submit its offer N instead (see agenda "
                 "offers)."),
    shows_itself=True,
    short_help="Submit requests to a server.",
)  # fmt: skip
def submit(
    file: str,
    server: Server,
    form: str,
    dry_run: bool,
    bound: bool,
    key: str | None,
    take: int | None,
    **options: Any,
) -> int:
    """Submit the request in FILE: RDL text, RDL JSON, or workload lines (one request per line).

    Options supply members that FILE omits. Exits with 3 if a request was refused.
    """
    filled = given(**options)
    bodies = [{**filled, **body} for body in bodies_in(file)]
    if not bodies:
        raise CliError(f"{file}: nothing to submit")
    query = dry_run_query(dry_run, bound="true" if bound else None)
    if take is not None and len(bodies) > 1:
        raise click.UsageError("--take is for one request")
    if len(bodies) == 1:
        replies = [ask_once(server, bodies[0], query, key, take)]
        told = replies[0].body
    else:
        replies, told = post_batch(server, bodies, query, key)
    code = replies_answer(bodies, replies, dry_run=dry_run).show(form, server)
    if bound:
        of_plan = told.get("plan_bound") or {}
        click.echo(f"the Plan: {of_plan.get('sentence', 'no bound is known')}", err=True)
    return code


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
        If there are not that many offers.
    """
    most = None if take is None else max(take, _OFFERS)
    reply = server.once(PATH, body, {**query, "holders": "true", "offers": most}, key)
    if reply.ok or reply.code not in REFUSAL_CODES:
        return reply
    if not offers_in(reply):  # what no plan can hold unchanged is not kept as a refusal
        found = found_offers(server, body, most)
        reply = replace(reply, body={**reply.body, "offers": found["offers"] if found else []})
    if take is None:
        return reply
    offers = offers_in(reply)
    if len(offers) < take:
        there = (
            f"the refusal has {counted(len(offers), 'offer')}" if offers else "there is no offer"
        )
        raise CliError(f"{why_not(body, reply)}\n--take {take}: {there}", reply.exit_code)
    return take_offer(server, offers[take - 1], query, key, take)


def found_offers(
    server: Server, asked: Mapping[str, Any], most: int | None = None
) -> dict[str, Any] | None:
    """Return a server's present view of a request: whether it would be accepted, and its offers.

    The call of `agenda offers` and of the page. Their requests keep the id of `asked`, which is not
    searched with: that may be the one that was refused. None if the server has no time to look.
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
    """Submit an offer with its own idempotency key, and print which one it is."""
    click.echo(f"offer {number}: {offer['sentence']}", err=True)
    own = None if key is None else f"{key}.offer-{number}"
    return server.once(PATH, offer["request"], {**query, "holders": "true"}, own)


def post_batch(
    server: Server,
    bodies: Sequence[Mapping[str, Any]],
    query: Mapping[str, object],
    key: str | None = None,
) -> tuple[list[ServerReply], Mapping[str, Any]]:
    """Post independent requests as one batch; return the result of each, and the answer.

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
    """Yield request bodies: one of RDL, or one for each workload line (without members that only
    files have)."""
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


def one_body(file: str, why: str, *, with_id: bool = False) -> dict[str, Any]:
    """Return the body of the one request in a file.

    Parameters
    ----------
    why
        Text of the error for a file with another number of requests.
    with_id
        Whether an id that the file says is kept.

    Raises
    ------
    CliError
        If there is not one request.
    """
    bodies = list(bodies_in(file))
    if len(bodies) != 1:
        raise CliError(f"{file}: {counted(len(bodies), 'request')}; {why}")
    return {name: value for name, value in bodies[0].items() if with_id or name != "id"}


def _object(text: str) -> dict[str, Any] | None:
    from rdl.codecs.strict_json import JsonTextError, read_json

    try:
        value = read_json(text)
    except JsonTextError:
        return None
    return value if isinstance(value, dict) else None


def replies_answer(
    bodies: Sequence[Mapping[str, Any]], replies: Sequence[ServerReply], *, dry_run: bool = False
) -> Answer:
    """Return the results of requests as the answer of a command."""
    values = [reply.body for reply in replies]
    code = code_of_several(reply.exit_code for reply in replies)
    text = partial(_print_replies, bodies, replies, dry_run=dry_run)
    return Answer(values[0] if len(values) == 1 else values, text, code=code)


def _print_replies(
    bodies: Sequence[Mapping[str, Any]], replies: Sequence[ServerReply], *, dry_run: bool
) -> None:
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


@server_command(
    None,
    "list",
    tenant_option("Only reservations of this tenant."),
    queue_option("Only reservations of this queue."),
    click.option("--state", shell_complete=complete_state,
                 help="Only reservations in this state, such as accepted or refused."),
    click.option("--from", "start", callback=from_now,
                 help="Only reservations with an allocation at or after this time: 2h or +2h from "
                 "now, a date, or RFC 3339."),
    click.option("--to", "end", callback=from_now,
                 help="Only reservations with an allocation before this time."),
    limit_option,
    lists=True,
    shows_itself=True,
)  # fmt: skip
def list_(
    server: Server,
    form: str,
    start: str | None,
    end: str | None,
    limit: int,
    **filters: str | None,
) -> None:
    """List reservations and refusals of a server."""
    span = {"from": server.instant(start), "to": server.instant(end)}
    entries = list_reservations(server, {**filters, **span}, limit)
    zone = common_zone(entries)
    rows = [row_of(entry, calendar=form == TABLE, zone=zone) for entry in entries]
    rows = [[*row, entry.get("code")] for row, entry in zip(rows, entries, strict=True)]
    columns = (*LISTED, ListColumn("code", is_wide=filters["state"] != "refused"))
    print_listing(entries, columns, rows, form, "no reservations", title_of(entries))


def list_reservations(
    server: Server, query: Mapping[str, object], limit: int | None = None
) -> list[dict[str, Any]]:
    """Return the reservations that a server lists; see `Server.list_all`."""
    return server.list_all(PATH, "reservations", query, limit)


@server_command(
    None,
    "show",
    _ID,
    short_help="Show one reservation and its allocation, or the reason for a refusal.",
)
def show(id_: str, server: Server) -> Answer:
    """Show one reservation and its allocation, or why it was refused; -o json adds its history."""
    body = _with_present_offers(server, server.call("GET", entry_path(PATH, id_)).good())
    return Answer(body, partial(_print_reservation, server, body))


def _print_reservation(server: Server, body: Mapping[str, Any]) -> None:
    print_reservations([body])
    submitted = body.get("written", body["expression"]).replace("\r\n", "\n")
    click.echo("\n" + printable(submitted, kept="\n\t"))
    if "written" in body:
        click.echo(f"canonical: {body['expression']}")
    if "code" in body:
        why = server.call("GET", f"{entry_path(PATH, body['id'])}/explanation").good()
        now = f"; now {why['held_by']}" if why.get("held_by") else ""
        click.echo(f"\nrefused ({body['code']}): {body['detail']}{now}")
        if body["accepted_now"]:
            click.echo("it would be accepted now: submit it again")
        for line in offer_lines(body["offers"], f"agenda offers --id {body['id']}"):
            click.echo(line)
        return
    if "degradation" in body:
        what = "degraded" if body["state"] == "degraded" else "closed while degraded"
        click.echo(f"\n{what}: {body['degradation']['reason']}")
        for line in offer_lines(body["degradation"]["offers"]):
            click.echo(line)
    rows = allocation_rows(body)
    if rows:
        click.echo()
        print_title(f"allocation, {zone_line(common_zone([body]))}; bundles: number at a time")
        print_table(ALLOCATION_COLUMNS, rows)
    slots = slot_rows(body)
    if slots:
        click.echo()
        print_title(f"machines, {zone_line(common_zone([body]))}")
        print_table(SLOT_COLUMNS, slots)
    for note in body["notes"]:
        click.echo(f"note: {note}")
    last = (body.get("history") or [{}])[-1]
    if last.get("detail") and "degradation" not in body:
        click.echo(f"\n{last['what']} at {last['at_at']}: {last['detail']}")


def refused_request(kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body that repeats a refused request, without its id."""
    asked = {name: kept[name] for name in _ASKED if kept.get(name) is not None}
    return {**asked, "rdl": kept["expression"]}


def _with_present_offers(server: Server, kept: dict[str, Any]) -> dict[str, Any]:
    """Return a server's stored refusal, with offers that are valid now.

    The offers of a refusal are searched again, and `accepted_now` says whether none is needed;
    those of a degraded reservation are tried, and offers that no longer fit are omitted.
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


@server_command(
    None,
    "cancel",
    _ID,
    click.option("--revision", type=click.IntRange(min=1),
                 help="Cancel only if the reservation is still at this revision."),
)  # fmt: skip
def cancel(id_: str, server: Server, revision: int | None) -> Answer:
    """Cancel a reservation: its future is released, its past is kept."""
    headers = {} if revision is None else {"If-Match": f'"{revision}"'}
    return reservation_answer(server.call("DELETE", entry_path(PATH, id_), headers=headers).good())


@server_command(
    None,
    "update",
    _ID,
    _FILE,
    click.option("--revision", type=click.IntRange(min=1),
                 help="Change the reservation only if it is still at this revision."),
    click.option("--weight", type=finite, metavar="NUMBER",
                 help="Factor of the request's value."),
    click.option("--priority", type=int,
                 help="If a policy allows it, the request displaces those of lower priority."),
    click.option("--agent", help="Agent that places the request.  [default: the server's]"),
    DRY_RUN,
    shows_itself=True,
)  # fmt: skip
def update(
    id_: str,
    file: str,
    server: Server,
    form: str,
    revision: int | None,
    dry_run: bool,
    **options: Any,
) -> int:
    """Replace the request of the reservation ID by that in FILE.

    FILE is RDL text, RDL JSON or one workload line. If it has no place, the reservation is
    unchanged, and the exit code is 3.
    """
    body = {**given(**options), **one_body(file, "one request replaces one reservation")}
    headers = {"If-Match": "*" if revision is None else f'"{revision}"'}
    reply = server.call("PUT", entry_path(PATH, id_), body, dry_run_query(dry_run), headers)
    if form == JSON:
        print_json(reply.body)
    elif reply.ok or reply.code in REFUSAL_CODES:
        _print_update(id_, body, reply, dry_run=dry_run)
    if not reply.ok and reply.code not in REFUSAL_CODES:
        raise CliError(why_not(body, reply), reply.exit_code)
    return reply.exit_code


def _print_update(id_: str, body: Mapping[str, Any], reply: ServerReply, *, dry_run: bool) -> None:
    """Print the new state of a reservation, or why it is unchanged."""
    if reply.ok:
        print_reservations([reply.body])
        for line in displaced_lines(reply.body, dry_run=dry_run):
            click.echo(line)
        return
    click.echo(f"{id_} is unchanged: {why_not(body, reply)}", err=True)
    for line in offer_lines(offers_in(reply)):
        click.echo(line, err=True)


#: States in which a reservation cannot give what it promised.
_LOST = frozenset({"cancelled", "failed"})


@server_command(
    None,
    "wait",
    _ID,
    click.option("--until", type=click.Choice(("begun", "ended")), default="ended",
                 show_default=True, help="State or event to wait for."),
    click.option("--timeout", metavar="TIME", help="Stop waiting after this time, such as 2h."),
)  # fmt: skip
def wait(id_: str, server: Server, until: Until, timeout: str | None) -> Answer:
    """Wait until the reservation ID has begun or ended, and show it.

    Exits with 1 if it was cancelled, has failed, or the time is over; with 3 if it was refused. A
    server that is unavailable for a while is waited for.
    """
    found = _waited(server, id_, until, seconds_in(timeout, "--timeout"))
    lost = ERROR if found.state in _LOST else DONE
    return reservation_answer(found.raw, REFUSED if found.state == "refused" else lost)


def _waited(server: Server, id_: str, until: Until, timeout_s: float | None) -> Reservation:
    # An id or a server that is not there is an error at once.
    server.call("GET", entry_path(PATH, id_)).good()
    client = Client(server.url, server.token, retries=Retries())
    with as_messages():
        try:
            return client.wait(id_, until, timeout_s=timeout_s)
        except UnauthenticatedError as error:
            raise CliError(server.no_entry(error.body), ExitCode.NOT_ALLOWED) from error
        except WaitTimeoutError as error:
            raise CliError(str(error)) from error


@server_command(
    None,
    "watch",
    click.argument("id_", metavar="ID", required=False, shell_complete=completing("reservation")),
    tenant_option("Only reservations of this tenant."),
    *EVENT_OPTIONS,
    shows_itself=True,
)
def watch(id_: str | None, server: Server, form: str, wait: str | None, **options: Any) -> None:
    """Print the events of the reservation ID, or of all, one line each, until stopped.

    If the server is unavailable for a while, no event is missed or printed twice.
    """
    print_events(server, form, wait, reservation=id_, **options)


@click.group()
def reservations() -> None:
    """Ask for reservations of a server, follow, change and cancel them.

    `agenda submit` is short for `agenda reservations submit`.
    """


for _verb in (list_, show, submit, update, cancel, wait, watch):
    reservations.add_command(_verb)
