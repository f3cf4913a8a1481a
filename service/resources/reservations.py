"""Reservations: request one or many, renegotiate, cancel and close them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Final, TypeAlias

from msgspec import UNSET, UnsetType

from planner.placement import Code
from rdl.limits import MOST_PROBLEMS
from service.access.user import User
from service.asks import EXAMPLE, ReservationChange, ReservationRequest, read_ask, read_change
from service.commits.commands import (
    Admission,
    Ask,
    Cancellation,
    Closure,
    Key,
    Renegotiation,
)
from service.http.call import NDJSON, Call
from service.http.fields import Field, parse_json, read_object, schema_of
from service.http.kinds import Flag, integer
from service.http.kit import Answer, Calls, Input, Once, OpenAnswer, doc, fields_of, maker_of
from service.http.route import Header, links_from
from service.problems import ApiError, ApiProblemError, ProblemDocument, malformed_problem, problem
from service.rendering import (
    atomic_render,
    batch_render,
    combine,
    render_created,
    render_state,
    respond,
)
from service.resources.bound import with_bound
from service.resources.explanation import with_holders
from service.resources.reservation_pages import PlanBoundBeside, ReservationView
from service.response import JSON, Response, problem_response
from service.runtime import Runtime

#: Codes of refusals by the planner.
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
#: Codes of a server that accepts no changes now.
_NOT_NOW: Final = ("unavailable", "clock_unconfirmed", "plan_ahead")

REVISION: Final = {"ETag": "Revision of the reservation."}
_IF_MATCH: Final = "The revision to change, in quotes."
IfRevision: TypeAlias = Annotated[str | None, Header("If-Match", _IF_MATCH)]
NeededRevision: TypeAlias = Annotated[str | None, Header("If-Match", _IF_MATCH, required=True)]

DryRun: TypeAlias = Annotated[Flag, doc("Return what would happen without changing anything.")]
Bound: TypeAlias = Annotated[
    Flag, doc("Add `plan_bound`, the upper bound on the value of any plan (GET /v1/plan/bound).")
]

_ASK: Final = fields_of(ReservationRequest)
_ask_of: Final = maker_of(ReservationRequest)
_BATCH: Final = (Field("reservations", "The requests.", {}, lambda value: value),)

#: Each request has its own result: an invalid one is 400 in its result, not for the whole call.
_REQUESTS: Final = {
    "type": "array",
    "minItems": 1,
    "items": {
        "anyOf": [
            schema_of(_ASK),
            {"description": "The call failed; the result has the problem."},
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


class AdmissionQuery(Input):
    dry_run: DryRun = False
    offers: Annotated[int, integer(0, 10), doc("Maximum number of offers in a refusal.")] = 3
    holders: Annotated[
        Flag, doc("Add to a refusal the reservations that use the needed capacity.")
    ] = False
    bound: Bound = False


class BatchQuery(Input):
    atomic: Annotated[
        Flag, doc("All or nothing; a refusal then has no offers and is not stored.")
    ] = False
    dry_run: DryRun = False
    offers: Annotated[int, integer(0, 10), doc("Maximum number of offers in each refusal.")] = 0
    bound: Bound = False


class BatchResult(Answer):
    status: int
    body: dict[str, Any]


class BatchView(OpenAnswer):
    version: Annotated[
        int | None,
        doc("Version of the Plan with the accepted requests; null if none was accepted."),
    ]
    results: list[BatchResult]
    plan_bound: PlanBoundBeside | UnsetType = UNSET


calls = Calls()


@calls.post(
    "/v1/reservations",
    "The reservation is promised and on disk.",
    status=201,
    also={
        200: "The reservation would be promised (dry_run), or already exists for the same request."
    },
    fails=(Code.MALFORMED, *PLACING, Code.DUPLICATE_ID, "idempotency_mismatch", *_NOT_NOW),
    headers={**REVISION, "Location": "Path of the reservation."},
    links=links_from(
        "$response.body#/id",
        "getReservation",
        "replaceReservation",
        "cancelReservation",
        "closeReservation",
        "explainReservation",
    ),
    examples={"a stage": EXAMPLE},
)
def create_reservation(
    runtime: Runtime, user: User, body: ReservationRequest, once: Once, query: AdmissionQuery
) -> Annotated[Response, ReservationView]:
    """Request a reservation; 201 means it is promised and on disk."""

    def admit(key: Key | None) -> Response:
        command = Admission((read_ask(runtime, body, offers=query.offers),))
        if query.dry_run:
            return render_state(runtime.planner.rehearse(command))
        runtime.require_dispatcher()
        return respond(runtime.planner, command, render_created, key)

    response = once(admit)
    if query.holders:
        response = with_holders(runtime, response, user)
    return with_bound(runtime, response) if query.bound else response


@calls.post(
    "/v1/reservations:batch",
    "One result for each request, in order.",
    also={201: "All are promised (atomic)."},
    fails=(Code.MALFORMED, *PLACING, Code.DUPLICATE_ID, "idempotency_mismatch", *_NOT_NOW),
    examples={"two stages": [EXAMPLE, EXAMPLE]},
    reads=(JSON, NDJSON),
)
def create_reservations(
    runtime: Runtime,
    call: Call,
    body: Annotated[Any, _BATCH_SCHEMA],
    once: Once,
    query: BatchQuery,
) -> Annotated[Response, BatchView]:
    """Request many reservations, independently or all or nothing."""

    def admit(key: Key | None) -> Response:
        asks = _asks(runtime, body, query.offers, is_lines=call.media == NDJSON)
        good = tuple(ask for ask in asks if isinstance(ask, Ask))
        bad = [ask for ask in asks if isinstance(ask, ProblemDocument)]
        if query.atomic and bad:
            return problem_response(combine(bad))
        render = atomic_render(dry_run=query.dry_run) if query.atomic else batch_render(asks)
        if not good:
            return render(())
        command = Admission(good, query.atomic)
        if query.dry_run:
            return render(runtime.planner.rehearse(command))
        runtime.require_dispatcher()
        return respond(runtime.planner, command, render, key)

    response = once(admit)
    return with_bound(runtime, response) if query.bound else response


@calls.put(
    "/v1/reservations/{id}",
    "The reservation has the allocation of the new request.",
    fails=(
        Code.MALFORMED,
        "not_found",
        *PLACING,
        "wrong_state",
        "stale_revision",
        "revision_required",
        Code.PAST_CHANGED,
        *_NOT_NOW,
    ),
    headers=REVISION,
    examples={"another": {"rdl": EXAMPLE["rdl"]}},
)
def replace_reservation(
    runtime: Runtime,
    id_: str,
    body: ReservationChange,
    tag: NeededRevision,
    *,
    dry_run: DryRun = False,
) -> Annotated[Response, ReservationView]:
    """Renegotiate: replace the request, or leave everything unchanged. Completed work still
    counts."""
    if tag is None:
        error = ApiError('send If-Match: "REVISION", as the ETag says', "revision_required")
        raise problem(
            "revision_required", "a change must state the revision that it replaces", [error]
        )
    command = Renegotiation(read_change(runtime, id_, body), _revision(tag))
    if dry_run:
        return render_state(runtime.planner.rehearse(command))
    runtime.require_dispatcher()
    return respond(runtime.planner, command, render_state)


@calls.delete(
    "/v1/reservations/{id}",
    "The reservation is cancelled.",
    fails=("not_found", "wrong_state", "stale_revision", "unavailable"),
    headers=REVISION,
)
def cancel_reservation(
    runtime: Runtime, id_: str, tag: IfRevision
) -> Annotated[Response, ReservationView]:
    """Cancel a reservation: future capacity is released, the past allocation is kept."""
    return respond(runtime.planner, Cancellation(id_, _revision(tag)), render_state)


@calls.post(
    "/v1/reservations/{id}/close",
    "The reservation is completed.",
    fails=("not_found", "wrong_state", "stale_revision", "unavailable"),
    headers=REVISION,
)
def close_reservation(
    runtime: Runtime, id_: str, tag: IfRevision
) -> Annotated[Response, ReservationView]:
    """Close a reservation whose work is done: its remaining capacity is released."""
    return respond(runtime.planner, Closure(id_, _revision(tag)), render_state)


_REVISION_TAG: Final = re.compile(r"[0-9]{1,15}")

#: Revisions count from 1.
_NO_REVISION: Final = 0


def _revision(tag: str | None) -> int | None:
    """Return the revision of If-Match; None for ``*``, or if it is absent."""
    if tag in (None, "*"):
        return None
    assert tag is not None
    # A tag that is not a number belongs to no revision of a reservation.
    return int(tag) if _REVISION_TAG.fullmatch(tag) else _NO_REVISION


def _asks(
    runtime: Runtime, body: Any, offers: int, *, is_lines: bool
) -> list[Ask | ProblemDocument]:
    """Return each request of a batch, or the problem with it."""
    asks: list[Ask | ProblemDocument] = []
    left = MOST_PROBLEMS
    for value, pointer in _entries(runtime, body, is_lines=is_lines):
        ask = _read_one(runtime, value, pointer, offers)
        if isinstance(ask, ProblemDocument):  # limit the errors of the whole answer
            ask = ask.listing(left)
            left -= len(ask.errors)
        asks.append(ask)
    return asks


def _entries(runtime: Runtime, body: Any, *, is_lines: bool) -> Iterator[tuple[Any, str]]:
    """Yield each request of a batch and its pointer; NDJSON lines are numbered from 0."""
    if is_lines:
        values: Any = [line for line in body.split(b"\n") if line.strip()]
        prefix = ""
    elif isinstance(body, list):
        values, prefix = body, ""
    else:
        values, prefix = read_object(_BATCH, body, "")["reservations"], "/reservations"
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
        return read_ask(runtime, _ask_of(read_object(_ASK, parsed, pointer)), pointer, offers)
    except ApiProblemError as error:
        return error.document
