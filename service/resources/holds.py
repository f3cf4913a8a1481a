"""Holds: reserve capacity for a short time; it is released unless accepted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec.structs import replace

from planner.placement import Code
from planner.plan.plan import Plan
from planner.plan.records.reservation_records import Hold
from service.access.user import User
from service.asks import EXAMPLE, ReservationRequest, read_ask
from service.commits.commands import (
    Answer as CommitAnswer,
)
from service.commits.commands import (
    HoldAcceptance,
    HoldEnding,
    HoldPlacing,
    ReservationAnswer,
)
from service.http.kinds import length_up_to
from service.http.kit import Answer, Calls, Count, Instant, doc
from service.http.route import links_from
from service.ownership import require_visible, tenant_of
from service.problems import ProblemDocument
from service.rendering import render_state, respond
from service.resources.reservation_pages import ReservationView
from service.resources.reservations import PLACING, REVISION
from service.response import Response, problem_response
from service.runtime import Runtime

#: Longest hold, ms.
LONGEST_MS: Final = 60_000

#: The most holds of one user for one tenant at a time.
MOST_HOLDS: Final = 10


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
