"""The calls around one reservation: ask, read, renegotiate, close, cancel."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from planner.agents import AGENT_NAMES
from planner.placement import Code
from planner.promise import PromiseLevel
from rdl.limits import MOST_PROBLEMS
from service.calls.plan.bound import with_bound
from service.calls.reservations import pages as reservation_pages
from service.calls.reservations import reservations
from service.calls.reservations.holders import with_holders
from service.commits.changes.commands import Ask, Key
from service.commits.screening.ownership import own_filter
from service.http.call import NDJSON, Call
from service.http.fields import (
    Field,
    choice,
    flag,
    identifier,
    integer,
    moment,
    number,
    parse_json,
    read_object,
    schema_of,
    text,
)
from service.http.idempotency import KEY, with_key
from service.http.route import Body, Documented, Header, Route, json_of, links_from
from service.http.schemas import STATES
from service.http.views.reservations.rdl import RDL
from service.problems import ApiError, ApiProblemError, ProblemDocument, malformed_problem, problem
from service.response import JSON, Response

if TYPE_CHECKING:
    from service.runtime import Runtime

_AGENT: Final = replace(
    text(
        "agent", "The agent that places it; the server's default agent when absent.", default=None
    ),
    schema={"type": "string", "enum": list(AGENT_NAMES)},
)

_TENANT: Final = text(
    "tenant",
    "The tenant that asks; the caller's only one, or `default`, when absent.",
    default=None,
)

#: What a request is made of: a workload line (files.md) without `submitted`, and an agent.
ASK: Final[tuple[Field, ...]] = (
    identifier("id", "Unique in the Plan; made by the server when absent.", default=None),
    _TENANT,
    text("queue", "The queue it is reserved under.", default="default"),
    RDL,
    number("weight", "Factor of its value.", 0, 1e9, default=1.0),
    integer(
        "priority",
        "Larger goes first in a batch; where a policy lets it, it displaces what has less.",
        -(10**6),
        10**6,
        default=0,
    ),
    choice(
        "promise",
        "What is promised, where the cluster lets requests choose; else the cluster's level.",
        [level.value for level in PromiseLevel],
        default=None,
    ),
    _AGENT,
)

#: Renegotiation takes what POST takes; what cannot change has to be what it is.
_CHANGE: Final = (
    identifier("id", "That of the path, if given.", default=None),
    text("tenant", "The tenant that it has, if given: it stays.", default=None),
    text("queue", "The queue that it has, if given: it stays.", default=None),
    RDL,
    number("weight", "Factor of its value; unchanged when absent.", 0, 1e9, default=None),
    integer("priority", "Priority; unchanged when absent.", -(10**6), 10**6, default=None),
    choice(
        "promise",
        "As of POST; unchanged when absent.",
        [level.value for level in PromiseLevel],
        default=None,
    ),
    _AGENT,
)

#: Codes of what planning refuses.
PLACING: Final = (
    Code.CAPACITY,
    Code.CAPACITY_OVER_TIME,
    Code.QUOTA,
    Code.WINDOW_LIMIT,
    Code.LEAD_TIME,
    Code.COUNT_LIMIT,
    Code.CONFLICT,
    Code.TIME_LIMIT,
    Code.UNSATISFIABLE,
    Code.BEYOND_HORIZON,
)
_BOUND: Final = flag(
    "bound", "Tell how much more any plan could hold: `plan_bound`, as of GET /v1/plan/bound."
)
_REVISION: Final = {"ETag": "Revision of the reservation."}
_IF_MATCH: Final = Header("If-Match", "The revision that this change is meant for, in quotes.")
_ONE_OR_REFUSAL: Final = {"anyOf": [json_of("Reservation"), json_of("Refusal")]}


@with_key
def _admit(runtime: Runtime, call: Call, key: Key | None) -> Response:
    options = reservations.Options(dry_run=call.query["dry_run"], key=key)
    ask = reservations.read_ask(runtime, call.body, offers=call.query["offers"])
    return reservations.admit(runtime, ask, options)


def _admit_and_tell(runtime: Runtime, call: Call) -> Response:
    """Admit, and tell what else is asked for: who holds what a refusal needed, the Plan's bound."""
    response = _admit(runtime, call)
    if call.query["holders"]:
        response = with_holders(runtime, response, call.user)
    return with_bound(runtime, response) if call.query["bound"] else response


@with_key
def _admit_batch(runtime: Runtime, call: Call, key: Key | None) -> Response:
    query = call.query
    entries = _entries(runtime, call)
    asks, left = [], MOST_PROBLEMS
    for value, pointer in entries:
        ask = _read_one(runtime, value, pointer, query["offers"])
        if isinstance(ask, ProblemDocument):  # the whole answer lists no more than one problem does
            ask = ask.listing(left)
            left -= len(ask.errors)
        asks.append(ask)
    options = reservations.Options(dry_run=query["dry_run"], atomic=query["atomic"], key=key)
    return reservations.admit_batch(runtime, asks, options)


def _admit_batch_and_tell(runtime: Runtime, call: Call) -> Response:
    """Admit a batch, and tell the bound of the Plan where that is asked for."""
    response = _admit_batch(runtime, call)
    return with_bound(runtime, response) if call.query["bound"] else response


def _entries(runtime: Runtime, call: Call) -> Iterator[tuple[Any, str]]:
    """Yield each request of a batch and its pointer; NDJSON lines are counted from 0."""
    if call.media == NDJSON:
        values: Any = [line for line in call.body.split(b"\n") if line.strip()]
        prefix = ""
    elif isinstance(call.body, list):
        values, prefix = call.body, ""
    else:
        fields = (Field("reservations", "The requests.", {}, lambda value: value),)
        values, prefix = read_object(fields, call.body, "")["reservations"], "/reservations"
    if not isinstance(values, list) or not values:
        raise malformed_problem(
            [ApiError("a batch is an array of at least one request", pointer=prefix)]
        )
    if len(values) > runtime.config.max_batch:
        most = f"a batch holds at most {runtime.config.max_batch} requests, not {len(values)}"
        raise problem("too_large", most, [ApiError(most, "too_large", pointer=prefix)])
    return ((value, f"{prefix}/{index}") for index, value in enumerate(values))


def _read_one(runtime: Runtime, value: Any, pointer: str, offers: int) -> Ask | ProblemDocument:
    try:
        parsed = parse_json(value, pointer) if isinstance(value, bytes) else value
        return reservations.read_ask(runtime, read_object(ASK, parsed, pointer), pointer, offers)
    except ApiProblemError as error:
        return error.document


def _list(runtime: Runtime, call: Call) -> Response:
    query = call.query
    wanted = reservation_pages.Filter(
        tenant=own_filter(call.user, query["tenant"]),
        tenants=call.user.scope,
        queue=query["queue"],
        state=query["state"],
        start_ms=runtime.resolve(query["from"]),
        end_ms=runtime.resolve(query["to"]),
    )
    page = reservation_pages.page_of(runtime, wanted, query["cursor"], query["limit"])
    return Response(200, page)


def _get(runtime: Runtime, call: Call) -> Response:
    body, revision = reservation_pages.one(runtime, call.path["id"])
    return Response(200, body, {"ETag": f'"{revision}"'})


_REVISION_TAG: Final = re.compile(r"[0-9]{1,15}")

#: Revisions count from 1.
_NO_REVISION: Final = 0


def _revision(call: Call, *, required: bool) -> int | None:
    """Return the revision of If-Match; None for ``*``."""
    tag = call.if_match()
    if tag is None and required:
        error = ApiError('send If-Match: "REVISION", as the ETag says', "revision_required")
        raise problem("revision_required", "a change names the revision it is meant for", [error])
    if tag in (None, "*"):
        return None
    assert tag is not None
    # Any tag names some state; one that is no number is that of no reservation.
    return int(tag) if _REVISION_TAG.fullmatch(tag) else _NO_REVISION


def _put(runtime: Runtime, call: Call) -> Response:
    revision = _revision(call, required=True)
    ask = reservations.read_change(runtime, call.path["id"], call.body)
    return reservations.renegotiate(runtime, ask, revision, dry_run=call.query["dry_run"])


def _delete(runtime: Runtime, call: Call) -> Response:
    return reservations.cancel(runtime, call.path["id"], _revision(call, required=False))


def _close(runtime: Runtime, call: Call) -> Response:
    return reservations.close(runtime, call.path["id"], _revision(call, required=False))


#: Each is answered on its own: what is no request is 400 in its result, not of the call.
_REQUESTS: Final = {
    "type": "array",
    "minItems": 1,
    "items": {
        "anyOf": [
            schema_of(ASK),
            {"description": "Anything else: its own result says what is wrong with it."},
        ]
    },
}

_BATCH_SCHEMA: Final = {
    "anyOf": [
        _REQUESTS,
        {
            "type": "object",
            "properties": {"reservations": _REQUESTS},
            "required": ["reservations"],
            "additionalProperties": False,
        },
    ]
}

#: A request that is taken wherever there is a core.
EXAMPLE: Final = {"rdl": "window(atom(<1 cpu>, 1, 4, 10m, 40m), +0, +6h)", "tenant": "ads"}

#: Where to go on from a reservation in an answer's body.
_NEXT: Final = links_from(
    "$response.body#/id",
    "getReservation",
    "replaceReservation",
    "cancelReservation",
    "closeReservation",
    "explainReservation",
)

ROUTES: Final = (
    Route(
        "POST",
        "/v1/reservations",
        "createReservation",
        "Ask for a reservation; 201 means it is promised and on disk.",
        _admit_and_tell,
        {
            201: Documented(
                "The reservation is promised and on disk.",
                json_of("Reservation"),
                {**_REVISION, "Location": "Path of the reservation."},
                links=_NEXT,
            ),
            200: Documented(
                "The reservation would be promised (dry_run), or was promised to this very request "
                "before.",
                json_of("Reservation"),
            ),
        },
        problems=(
            Code.MALFORMED,
            *PLACING,
            Code.DUPLICATE_ID,
            "idempotency_mismatch",
            "unavailable",
            "clock_unconfirmed",
            "plan_ahead",
        ),
        query=(
            flag("dry_run", "Answer what would happen, and change nothing."),
            integer("offers", "Largest number of offers that a refusal carries.", 0, 10, default=3),
            flag("holders", "Let a refusal name who holds what it needed."),
            _BOUND,
        ),
        headers=KEY,
        body=Body(schema_of(ASK), ASK, examples={"a stage": EXAMPLE}),
    ),
    Route(
        "POST",
        "/v1/reservations:batch",
        "createReservations",
        "Ask for many reservations, each on its own or all or nothing.",
        _admit_batch_and_tell,
        {
            200: Documented(
                "Each on its own: one result for each request, in order.", json_of("Batch")
            ),
            201: Documented("All are promised (atomic).", json_of("Batch")),
        },
        problems=(
            Code.MALFORMED,
            *PLACING,
            Code.DUPLICATE_ID,
            "idempotency_mismatch",
            "unavailable",
            "clock_unconfirmed",
            "plan_ahead",
        ),
        query=(
            flag("atomic", "All or nothing; a refusal then carries no offers and is not kept."),
            flag("dry_run", "Answer what would happen, and change nothing."),
            integer(
                "offers", "Largest number of offers that each refusal carries.", 0, 10, default=0
            ),
            _BOUND,
        ),
        headers=KEY,
        body=Body(_BATCH_SCHEMA, None, (JSON, NDJSON), {"two stages": [EXAMPLE, EXAMPLE]}),
    ),
    Route(
        "GET",
        "/v1/reservations",
        "listReservations",
        "Reservations and refusals, oldest first, a page at a time; the archive too where `state` "
        "is one in which they have ended.",
        _list,
        {200: Documented("A page of reservations and refusals.", json_of("Page"))},
        problems=(Code.MALFORMED,),
        query=(
            text("tenant", "Only of this tenant.", default=None),
            text("queue", "Only of this queue.", default=None),
            choice("state", "Only in this state.", STATES, default=None),
            moment("from", "Only reservations that hold something at or after this time."),
            moment("to", "Only reservations that hold something before this time."),
            Field(
                "cursor",
                "The `next` of the page before.",
                {"type": "string", "pattern": f"^{reservation_pages.CURSOR.pattern}$"},
                reservation_pages.read_cursor,
                reservation_pages.PageCursor(),
            ),
            integer("limit", "Largest number of entries.", 1, 1000, default=100),
        ),
    ),
    Route(
        "GET",
        "/v1/reservations/{id}",
        "getReservation",
        "One reservation with its allocation and history, or one refusal.",
        _get,
        {200: Documented("The reservation, or the refusal.", _ONE_OR_REFUSAL, _REVISION)},
        problems=("not_found",),
    ),
    Route(
        "PUT",
        "/v1/reservations/{id}",
        "replaceReservation",
        "Renegotiate: swap the request, or leave everything as it was. What has run stays done.",
        _put,
        {
            200: Documented(
                "The reservation now holds what the new request asks for.",
                json_of("Reservation"),
                _REVISION,
            )
        },
        problems=(
            Code.MALFORMED,
            "not_found",
            *PLACING,
            "wrong_state",
            "stale_revision",
            "revision_required",
            Code.PAST_CHANGED,
            "unavailable",
            "clock_unconfirmed",
            "plan_ahead",
        ),
        query=(flag("dry_run", "Answer what would happen, and change nothing."),),
        headers=(replace(_IF_MATCH, required=True),),
        body=Body(schema_of(_CHANGE), _CHANGE, examples={"another": {"rdl": EXAMPLE["rdl"]}}),
    ),
    Route(
        "DELETE",
        "/v1/reservations/{id}",
        "cancelReservation",
        "Cancel a reservation: its future is released, its past kept.",
        _delete,
        {200: Documented("The reservation is cancelled.", json_of("Reservation"), _REVISION)},
        problems=("not_found", "wrong_state", "stale_revision", "unavailable"),
        headers=(_IF_MATCH,),
    ),
    Route(
        "POST",
        "/v1/reservations/{id}/close",
        "closeReservation",
        "Close a reservation whose work is done: the rest of it is released.",
        _close,
        {200: Documented("The reservation is completed.", json_of("Reservation"), _REVISION)},
        problems=("not_found", "wrong_state", "stale_revision", "unavailable"),
        headers=(_IF_MATCH,),
    ),
)
