"""`agenda submit` and `agenda reservations VERB`: a client of a server's reservations."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, cast

import click

from agenda.client import Client, Until
from agenda.errors import REFUSAL_CODES, UnauthenticatedError, WaitTimeoutError
from agenda.records import Reservation
from agenda.retries import Retries
from rdl.errors import Problem, render
from rdl.local_time import UTC_ZONE
from service.cli.completion import complete_state, completing
from service.cli.events import print_events, seconds_in
from service.cli.kit.errors import (
    DONE,
    ERROR,
    REFUSED,
    CliError,
    ExitCode,
    code_of_several,
    reports_errors,
)
from service.cli.kit.options import READABLE_OR_STDIN, complete_agent, finite, from_now, read_text
from service.cli.kit.output import (
    JSON,
    TABLE,
    ListColumn,
    common_zone,
    format_option,
    limit_option,
    listing_options,
    local_text,
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
from service.cli.kit.sentences import plan_bound_text, question_lines
from service.cli.kit.server import Server, ServerReply, as_messages, client_options, entry_path
from service.cli.plan_tables import extent, offer_lines

COLUMNS: Final = (
    "id", "tenant", "queue", "state", "promise", "start", "end", "revision", "priority",
)  # fmt: skip
#: The same as a list: what no terminal of 80 columns holds is wide.
LISTED: Final = tuple(
    ListColumn(name, is_wide=name in ("queue", "promise", "revision", "priority"))
    for name in COLUMNS
)
#: Most different notes of an answer that are printed.
_MOST_NOTES: Final = 5

#: What the part is called that has no name of its own (`rdl.names.PartNames`).
THE_REQUEST: Final = "the request"

ALLOCATION_COLUMNS: Final = ("part", "bundle", "start", "end", "bundles")
SLOT_COLUMNS: Final = ("part", "start", "end", "bundles", "machine")


def title_of(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return the first line of a list: how many, in which states, and how times are read."""
    counted = Counter(str(entry.get("state", "refused")) for entry in entries)
    states = ", ".join(f"{count:,} {state}" for state, count in counted.most_common())
    count = f"{len(entries):,} {'entry' if len(entries) == 1 else 'entries'}"
    return f"{count}: {states}; {zone_line(common_zone(entries))}"


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
        raise CliError("the answer holds no reservation; is --server an Agenda server?")
    start, end = extent(entry) if "atoms" in entry else (None, None)
    times = {"start": start, "end": end}
    if calendar:
        times = {name: instant_text(entry, seconds, zone) for name, seconds in times.items()}
    values = {**entry, **times}
    return [values.get(name) for name in COLUMNS]


def print_reservations(entries: Sequence[Mapping[str, Any]]) -> None:
    """Print reservations in `COLUMNS`; where a terminal does not hold them, as a list has them.

    Times are what the answer is about: they are not cut for the sake of other columns.
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


def displaced_lines(entry: Mapping[str, Any], *, dry_run: bool) -> list[str]:
    """Return what becomes of the reservations that a request displaces, one line each."""
    begin, end = ("would displace", "would be") if dry_run else ("displaced", "is")
    return [
        f"{begin} {one['id'] or 'a reservation of another tenant'}: it {end} {one['fate']}"
        for one in entry.get("displaced", ())
    ]


def allocation_rows(entry: Mapping[str, Any]) -> list[list[object]]:
    """Return what a reservation holds in `ALLOCATION_COLUMNS`."""
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
    """Return what a reservation holds of which machine in `SLOT_COLUMNS`."""
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


def instant_text(entry: Mapping[str, Any], seconds: float | None, zone: str | None) -> Any:
    """Return a time of an entry by the clock of a zone; None is the entry's own, with its offset.

    It stays seconds where the server told no calendar.
    """
    if seconds is None or "submitted_at" not in entry:
        return seconds
    later = seconds - entry["submitted"]
    own = entry.get("zone", UTC_ZONE) if zone is None else zone
    return local_text(entry["submitted_at"], later, own, with_offset=zone is None)


def offers_in(reply: ServerReply) -> Sequence[Mapping[str, Any]]:
    """Return the offers that came with a refusal, or that were looked for after it."""
    body = reply.body if isinstance(reply.body, dict) else {}
    found: Sequence[Mapping[str, Any]] = (body.get("refusal") or body).get("offers", ())
    return found or body.get("offers", ())


def why_not(asked: Mapping[str, Any], reply: ServerReply) -> str:
    """Return what a server said against a request, with carets where it was RDL text."""
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


@click.command()
@click.argument("id_", metavar="ID", shell_complete=completing("reservation"))
@click.argument("file", type=READABLE_OR_STDIN)
@client_options
@click.option(
    "--revision",
    type=click.IntRange(min=1),
    help="Change it only if it is still at this revision.",
)
@click.option(
    "--weight", type=finite, metavar="NUMBER", help="Factor of what the request is worth."
)
@click.option("--priority", type=int, help="Where a policy lets it, it displaces what has less.")
@click.option("--agent", help="Agent that places the request.  [default: the server's]")
@click.option("--dry-run", is_flag=True, help="Show what the answer would be and change nothing.")
@format_option(TABLE, JSON)
@reports_errors
def update(
    id_: str,
    file: str,
    server: Server,
    revision: int | None,
    weight: float | None,
    priority: int | None,
    agent: str | None,
    dry_run: bool,
    form: str,
) -> int:
    """Ask for the request in FILE instead of what the reservation ID holds.

    FILE is RDL text, RDL JSON or one workload line. If it has no place, the reservation stays as it
    is, and the exit code is 3.
    """
    options = {"weight": weight, "priority": priority, "agent": agent}
    given = {name: value for name, value in options.items() if value is not None}
    body = {**given, **_asked(file)}
    headers = {"If-Match": "*" if revision is None else f'"{revision}"'}
    query = {"dry_run": "true" if dry_run else None}
    reply = server.call("PUT", entry_path(PATH, id_), body, query, headers)
    if form == JSON:
        print_json(reply.body)
    elif reply.ok:
        print_reservations([reply.body])
        for line in displaced_lines(reply.body, dry_run=dry_run):
            click.echo(line)
    return DONE if reply.ok else _tell_refusal(id_, body, reply, form)


def _asked(file: str) -> dict[str, Any]:
    """Return the request of FILE; whose it is and where cannot change."""
    bodies = list(bodies_in(file))
    if len(bodies) != 1:
        raise CliError(f"{file}: {len(bodies)} requests; one takes the place of one")
    return {name: value for name, value in bodies[0].items() if name != "id"}


def _tell_refusal(id_: str, body: dict[str, Any], reply: ServerReply, form: str) -> int:
    """Tell why a reservation stays as it is; return the exit code of a refusal.

    Raises
    ------
    CliError
        If it is none.
    """
    problem = reply.body if isinstance(reply.body, dict) else {}
    if problem.get("code") not in REFUSAL_CODES:
        raise CliError(why_not(body, reply), reply.exit_code)
    if form != JSON:
        click.echo(f"{id_} stays as it is: {why_not(body, reply)}", err=True)
        for line in offer_lines(offers_in(reply)):
            click.echo(line, err=True)
    return reply.exit_code


#: States in which a reservation cannot give what it promised.
_LOST = frozenset({"cancelled", "failed"})


@click.command()
@click.argument("id_", metavar="ID", shell_complete=completing("reservation"))
@client_options
@click.option(
    "--until",
    type=click.Choice(("begun", "ended")),
    default="ended",
    show_default=True,
    help="What is waited for.",
)
@click.option("--timeout", metavar="TIME", help="Give up after this time, such as 2h.")
@format_option(TABLE, JSON)
@reports_errors
def wait(id_: str, server: Server, until: str, timeout: str | None, form: str) -> int:
    """Wait until the reservation ID has begun or ended, and show it.

    Exits with 1 if it was cancelled, has failed, or the time is over; with 3 if it was refused. A
    server that is away for a while is waited for.
    """
    found = _waited(server, id_, cast("Until", until), seconds_in(timeout, "--timeout"))
    if form == JSON:
        print_json(found.raw)
    else:
        print_reservations([found.raw])
    if found.state == "refused":
        return REFUSED
    return ERROR if found.state in _LOST else DONE


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


@click.command()
@click.argument("id_", metavar="ID", required=False, shell_complete=completing("reservation"))
@client_options
@click.option(
    "--tenant", shell_complete=completing("tenant"), help="Only reservations of this tenant."
)
@click.option("--kind", "kinds", multiple=True, help="Only this kind; may be repeated.")
@click.option("--after", help="Begin after this version of the Plan or event.  [default: now]")
@click.option("--wait", metavar="TIME", help="Stop after this time, such as 10m.  [default: never]")
@format_option(TABLE, JSON)
@reports_errors
def watch(
    id_: str | None,
    server: Server,
    tenant: str | None,
    kinds: tuple[str, ...],
    after: str | None,
    wait: str | None,
    form: str,
) -> int:
    """Print what happens to the reservation ID, or to all, one line an event, until stopped.

    Where the server is away for a while, nothing is missed or printed twice.
    """
    options = {"reservation": id_, "tenant": tenant, "kinds": ",".join(kinds), "after": after}
    query = {name: value for name, value in options.items() if value}
    print_events(server, query, seconds_in(wait, "--wait"), form)
    return DONE


@click.group()
def reservations() -> None:
    """Ask for reservations of a server, follow, change and cancel them.

    `agenda submit` is short for `agenda reservations submit`.
    """


for _verb in (list_, show, submit, update, cancel, wait, watch):
    reservations.add_command(_verb)
