"""Offers, and holds: capacity reserved for a short time, and released unless accepted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from planner.agents import agent_named
from planner.offer_search import OfferSearch
from planner.placement import Code, PlacementResult
from planner.plan.batch.admission import screen
from planner.plan.plan import Plan
from planner.plan.records.changes import UncompiledRequest
from planner.plan.records.reservation_records import Hold
from planner.request import Request
from rdl.compile.source import read_source
from rdl.errors import RdlError
from rdl.text.formatter import format_expression
from service.access.user import User
from service.asks import EXAMPLE, ReservationRequest, agent_of, complete_request, level_of, read_ask
from service.commits.answers import seconds_of_search
from service.commits.commands import (
    Answer as CommitAnswer,
)
from service.commits.commands import (
    HoldAcceptance,
    HoldEnding,
    HoldPlacing,
    ReservationAnswer,
    with_requests,
)
from service.http.kinds import integer, length_up_to
from service.http.kit import Answer, Calls, Count, Instant, doc, one_of
from service.http.route import links_from
from service.ownership import require_visible, tenant_of
from service.problems import ApiError, ProblemDocument, malformed_problem, problem_of_rdl
from service.rendering import render_state, respond
from service.resources.explanation import told_holders
from service.resources.reservation_pages import (
    HELD_BY,
    HOLDERS,
    BindingView,
    OfferView,
    ReservationView,
)
from service.resources.reservations import PLACING, REVISION
from service.response import Response, problem_response
from service.runtime import Runtime

#: Longest hold, ms.
LONGEST_MS: Final = 60_000

#: The most holds of one user for one tenant at a time.
MOST_HOLDS: Final = 10

#: Time limit of the search in one call, seconds.
_SECONDS: Final = 5.0

#: Fields of a request that the requests of its offers keep.
_TAKEN: Final = ("id", "tenant", "queue", "weight", "priority", "promise")
_CODES: Final = tuple(str(code) for code in Code)


class HoldRequest(ReservationRequest):
    time: Annotated[
        int,
        length_up_to(LONGEST_MS, "30s", f"{LONGEST_MS // 1000} s", [30, "45s"]),
        doc("Duration of the hold."),
    ] = LONGEST_MS


class HoldEntry(Answer):
    id: Annotated[str, doc("Id of the hold and of its reservation.")]
    holder: Annotated[str, doc("Holder: the id of its user.")]
    until: Annotated[float, doc("Seconds from the origin.")]
    until_at: Instant


class HoldView(HoldEntry):
    version: Count
    reservation: ReservationView


class HoldList(Answer):
    version: Count
    holds: list[HoldEntry]


calls = Calls()


@calls.post(
    "/v1/holds",
    "The capacity is held durably and counts against quotas.",
    status=201,
    fails=(
        Code.MALFORMED,
        *PLACING,
        Code.DUPLICATE_ID,
        "forbidden",
        "too_many",
        "unavailable",
        "clock_unconfirmed",
        "plan_ahead",
    ),
    headers={"Location": "Path of the hold."},
    links=links_from("$response.body#/id", "getHold", "acceptHold", "releaseHold"),
    examples={"half a minute": {**EXAMPLE, "time": 30}},
)
def create_hold(runtime: Runtime, user: User, body: HoldRequest) -> Annotated[Response, HoldView]:
    """Place a request and hold its capacity for up to 60 s; a refusal is not stored."""
    tenant = tenant_of(user, body.tenant, "")
    ask = read_ask(runtime, replace(body, tenant=tenant))
    hold = Hold(runtime.now_ms() + body.time, user.name)

    def render(answers: Sequence[CommitAnswer]) -> Response:
        answer = answers[0]
        if isinstance(answer, ProblemDocument):
            return problem_response(answer)
        assert isinstance(answer, ReservationAnswer)
        id_ = answer.reservation.id
        shown = _shown(runtime, id_, hold, answer.version, answer.to_json())
        return Response(201, msgspec.json.encode(shown), {"Location": f"/v1/holds/{id_}"})

    return respond(runtime.planner, HoldPlacing(ask, hold, MOST_HOLDS), render)


@calls.get("/v1/holds", "The holds.")
def list_holds(runtime: Runtime, user: User) -> HoldList:
    """The holds of your tenants, earliest expiry first."""
    with runtime.reading() as plan:
        table = plan.table
        held = [
            (plan.table.header(number)["id"], hold)
            for number, hold in table.holds.items()
            if user.acts_for(table.scope(number)[0])
        ]
        version = plan.version
    held.sort(key=lambda one: (one[1].until_ms, one[0]))
    return HoldList(version=version, holds=[_entry(runtime, id_, hold) for id_, hold in held])


@calls.get("/v1/holds/{id}", "The hold.", fails=("not_found",))
def get_hold(runtime: Runtime, id_: str, user: User) -> HoldView:
    """One hold, with the allocation of its reservation."""
    with runtime.reading() as plan:
        hold = _hold_of(plan, id_)
        reservation = None if hold is None else plan.reservation(id_)
        tenant = None if reservation is None else reservation.tenant
        require_visible(user, tenant, f"hold {id_!r}")
        assert hold is not None and reservation is not None  # noqa: PT018 - it is visible
        told = {**reservation.to_json(plan.grid), "version": plan.version}
        return _shown(runtime, id_, hold, plan.version, told)


@calls.post(
    "/v1/holds/{id}/accept",
    "The reservation is promised.",
    fails=(
        "not_found",
        "wrong_state",
        Code.CONFLICT,
        "unavailable",
        "clock_unconfirmed",
        "plan_ahead",
    ),
    headers=REVISION,
)
def accept_hold(runtime: Runtime, id_: str, user: User) -> Annotated[Response, ReservationView]:
    """Accept a hold, which becomes a normal reservation."""
    _require(runtime, id_, user)
    runtime.require_dispatcher()
    return respond(runtime.planner, HoldAcceptance(id_), render_state)


@calls.delete(
    "/v1/holds/{id}",
    "The reservation is cancelled.",
    fails=("not_found", "wrong_state", Code.CONFLICT, "unavailable"),
    headers=REVISION,
)
def release_hold(runtime: Runtime, id_: str, user: User) -> Annotated[Response, ReservationView]:
    """Release a hold; its reservation is cancelled."""
    _require(runtime, id_, user)
    return respond(runtime.planner, HoldEnding(id_, "its holder released it"), render_state)


def _entry(runtime: Runtime, id_: str, hold: Hold) -> HoldEntry:
    until_at = runtime.calendar(hold.until_ms)
    return HoldEntry(id=id_, holder=hold.holder, until=hold.until, until_at=until_at)


def _shown(runtime: Runtime, id_: str, hold: Hold, version: int, reservation: Any) -> HoldView:
    entry = msgspec.structs.asdict(_entry(runtime, id_, hold))
    return HoldView(**entry, version=version, reservation=reservation)


def _hold_of(plan: Plan, id_: str) -> Hold | None:
    number = plan.table.number_of(id_)
    return None if number is None else plan.table.holds.get(number)


def _require(runtime: Runtime, id_: str, user: User) -> None:
    """Answer ``not_found`` for a hold of a tenant for which the user does not act."""
    with runtime.reading() as plan:
        number = plan.table.number_of(id_)
        tenant = None if number is None else plan.table.scope(number)[0]
    require_visible(user, tenant, f"hold {id_!r}")


class OfferRequest(ReservationRequest):
    most: Annotated[int, integer(1, 10), doc("Maximum number of offers.")] = 3


class OfferRefusal(Answer):
    code: Annotated[str, one_of(_CODES)]
    detail: str
    binding: Annotated[BindingView | None, doc("The limit that was binding.")]
    holders: Annotated[list[dict[str, Any]] | UnsetType, HOLDERS] = UNSET
    held_by: Annotated[str | UnsetType, HELD_BY] = UNSET


class Offers(Answer):
    version: Count
    accepted: Annotated[bool, doc("Whether the request is accepted as it is.")]
    refusal: Annotated[OfferRefusal | None, doc("Reason why it is not accepted.")]
    offers: list[OfferView]


@calls.post(
    "/v1/offers",
    "The offers, the least change first.",
    fails=(Code.MALFORMED,),
    examples={"a stage": EXAMPLE},
)
def find_offers(runtime: Runtime, user: User, body: OfferRequest) -> Annotated[Response, Offers]:
    """Return whether a request would be accepted; if not, the reason and offers.

    Searched on a snapshot; an offer sent back in the same version of the Plan is accepted. A
    request that no plan could satisfy is answered with offers nevertheless.
    """
    tenant = tenant_of(user, body.tenant, "")
    agent = agent_named(agent_of(runtime, body.agent, ""))
    with runtime.reading() as plan:
        search = OfferSearch.of(plan, seconds_of_search(_SECONDS), (level_of(body),))

    def screening(request: Request) -> PlacementResult | None:
        with runtime.reading() as plan:
            return screen(plan, request)

    try:
        expression = complete_request(runtime, read_source(body.rdl)).expression
        asked = UncompiledRequest(
            body.id or runtime.new_id(),
            tenant,
            body.queue,
            runtime.now_ms(),
            body.weight,
            body.priority,
            format_expression(expression),
            level_of(body),
        )
        with runtime.planner.deciding(agent.name) as limits:
            answer = search.answer(asked, expression, agent, body.most, screening, limits)
    except RdlError as error:
        raise problem_of_rdl(error, "/rdl") from error
    refusal = answer["refusal"]
    if refusal is not None:
        refusal |= told_holders(runtime, refusal["binding"], user)
    if refusal is not None and refusal["code"] == Code.MALFORMED:
        # A request that compiles but is malformed has an invalid queue or promise level.
        field = "promise" if refusal["binding"] is not None else "queue"
        raise malformed_problem([ApiError(refusal["detail"], pointer=f"/{field}")])
    fields = {name: getattr(body, name) for name in _TAKEN}
    fields = {name: one for name, one in fields.items() if one not in (None, False)}
    fields["tenant"] = tenant
    return Response(200, {**answer, "offers": with_requests(answer["offers"], fields)})
