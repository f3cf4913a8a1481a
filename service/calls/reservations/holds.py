"""Hold an offer for a short while: the room is kept, and given back unless somebody accepts it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from planner.plan.plan import Plan
from planner.plan.records.holds import Hold
from service.access.user import User
from service.calls.reservations.reservations import read_ask
from service.commits.answers.responses import render_state
from service.commits.changes.commands import (
    Answer,
    HoldAcceptance,
    HoldEnding,
    HoldPlacing,
    ReservationAnswer,
)
from service.commits.screening.ownership import require_visible, tenant_of
from service.problems import ProblemDocument
from service.response import Response, problem_response

if TYPE_CHECKING:
    from service.runtime import Runtime

#: Longest time for which something is held, ms.
LONGEST_MS: Final = 60_000

#: Most that one user holds at once for one tenant.
MOST_HOLDS: Final = 10


def take(runtime: Runtime, values: Mapping[str, Any], user: User) -> Response:
    """Place a request and keep its room for a short while; 201, or why there is no room.

    Raises
    ------
    ApiProblemError
        ``forbidden`` for a tenant that the user does not act for, or as `read_ask`.
    """
    tenant = tenant_of(user, values["tenant"], "")
    ask = read_ask(runtime, {**values, "tenant": tenant})
    hold = Hold(runtime.now_ms() + values["time"], user.name)

    def render(answers: Sequence[Answer]) -> Response:
        answer = answers[0]
        if isinstance(answer, ProblemDocument):
            return problem_response(answer)
        assert isinstance(answer, ReservationAnswer)
        body = _json_of(runtime, answer.reservation.id, hold)
        body |= {"version": answer.version, "reservation": answer.to_json()}
        headers = {"Location": f"/v1/holds/{answer.reservation.id}"}
        return Response(201, msgspec.json.encode(body), headers)

    return runtime.planner.respond(HoldPlacing(ask, hold, MOST_HOLDS), render)


def accept(runtime: Runtime, id_: str, user: User) -> Response:
    """Keep what is held: a reservation like others from now on."""
    _require(runtime, id_, user)
    return runtime.planner.respond(HoldAcceptance(id_), render_state)


def give_back(runtime: Runtime, id_: str, user: User) -> Response:
    """Give back what is held; its reservation is cancelled."""
    _require(runtime, id_, user)
    command = HoldEnding(id_, "its holder gave it back")
    return runtime.planner.respond(command, render_state)


def one(runtime: Runtime, id_: str, user: User) -> dict[str, Any]:
    """Return what is held under an id.

    Raises
    ------
    ApiProblemError
        ``not_found``, also for one whose time is over.
    """
    with runtime.reading() as plan:
        hold = _hold_of(plan, id_)
        reservation = None if hold is None else plan.reservation(id_)
        tenant = None if reservation is None else reservation.tenant
        require_visible(user, tenant, f"hold {id_!r}")
        assert hold is not None and reservation is not None  # noqa: PT018 - it is visible
        told = {**reservation.to_json(plan.grid), "version": plan.version}
        return _json_of(runtime, id_, hold) | {"version": plan.version, "reservation": told}


def page(runtime: Runtime, user: User) -> dict[str, Any]:
    """Return what is held of the tenants that a user acts for, in order of ends."""
    with runtime.reading() as plan:
        table = plan.table
        held = [
            (plan.table.header(number)["id"], hold)
            for number, hold in table.holds.items()
            if user.acts_for(table.scope(number)[0])
        ]
        version = plan.version
    held.sort(key=lambda one: (one[1].until_ms, one[0]))
    return {"version": version, "holds": [_json_of(runtime, id_, hold) for id_, hold in held]}


def _json_of(runtime: Runtime, id_: str, hold: Hold) -> dict[str, Any]:
    return {
        "id": id_,
        "holder": hold.holder,
        "until": hold.until,
        "until_at": runtime.calendar(hold.until_ms),
    }


def _hold_of(plan: Plan, id_: str) -> Hold | None:
    number = plan.table.number_of(id_)
    return None if number is None else plan.table.holds.get(number)


def _require(runtime: Runtime, id_: str, user: User) -> None:
    """Refuse for a tenant that the user does not act for as if there were nothing."""
    with runtime.reading() as plan:
        number = plan.table.number_of(id_)
        tenant = None if number is None else plan.table.scope(number)[0]
    require_visible(user, tenant, f"hold {id_!r}")
