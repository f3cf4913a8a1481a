"""Explanations: the reason for a reservation's place, or the reservations that caused a refusal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Annotated, Any, Final

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from planner.agent import Limits
from planner.agents import agent_named
from planner.capacity.snapshot import PlanSnapshot
from planner.explain import time_text
from planner.placement import Binding
from planner.plan.column_reading import ids_of, row_columns
from planner.plan.plan import Plan
from planner.request import Request
from planner.reservations.reservation import (
    Refusal,
    Reservation,
    amount_to_json,
    binding_to_json,
)
from planner.reservations.state import State
from rdl.compile.compiler import compile_source
from rdl.compound import parts_of
from rdl.durations import rfc3339_text
from rdl.errors import RdlError
from rdl.local_time import zone_of_text
from rdl.names import part_name
from rdl.time_grid import TimeGrid
from rdl.work_graph import MIN_HEIGHT
from service.access.user import User
from service.commits.screening import context_of
from service.http.kit import Answer, Calls, Count, Instant, doc, one_of
from service.ownership import require_visible
from service.response import Response
from service.runtime import Runtime
from service.sentences import counted
from service.windows import Window, window_of

#: Most tenants that a sentence names.
_TOLD: Final = 3

#: Most ids that are named of one tenant; the largest holders first.
_NAMED: Final = 20

#: Agents whose places are shown alongside the one that was taken; each answers in a millisecond.
_BESIDE: Final = ("earliest", "gree", "gree-l", "headroom", "aligned")


class HolderView(Answer):
    tenant: Annotated[str | None, doc("Null: all others that you may not see.")]
    count: Annotated[Count, doc("Reservations.")]
    amount: Annotated[float | str | None, doc("Of the resource.")]
    reservations: Annotated[
        list[str] | None,
        doc("The largest of them, at most 20; null if you may not see them."),
    ]


class TakenOption(Answer):
    path: str
    taken: Count
    options: Count


class AlternativePlace(Answer):
    agent: str
    begin: float
    finish: float
    taken: Annotated[bool, doc("Whether this agent placed the reservation.")]


class Explanation(Answer, kw_only=True):
    id: str
    version: Count
    state: str
    detail: Annotated[str, doc("Why, in a sentence.")]
    code: Annotated[str | UnsetType, doc("Of a refusal.")] = UNSET
    agent: Annotated[str | UnsetType, doc("The agent that placed it.")] = UNSET
    window: list[float] | UnsetType | None = UNSET
    begin: float | UnsetType = UNSET
    finish: float | UnsetType = UNSET
    slack: Annotated[
        dict[str, float] | UnsetType,
        doc("Seconds of the window before it begins and after it ends."),
    ] = UNSET
    bound: Annotated[
        str | UnsetType,
        one_of(("window", "capacity", "choice")),
        doc(
            "What prevents an earlier start: its window, the present allocations of others, or "
            "only its agent's preference."
        ),
    ] = UNSET
    binding: Annotated[
        dict[str, Any] | None, doc("The limiting resource, place and time, as in a refusal.")
    ]
    at_at: Instant | None
    holders: Annotated[
        list[HolderView], doc("The reservations that use the limiting resource at that time.")
    ]
    held_by: Annotated[str | UnsetType, doc("The same as text; empty if there are none.")] = UNSET
    options: Annotated[
        list[TakenOption] | UnsetType,
        doc("For each evaluated `any`: the chosen option, and the number of options."),
    ] = UNSET
    alternatives: Annotated[
        list[AlternativePlace] | UnsetType,
        doc(
            "Places that fast agents would choose now if it were not in the Plan; empty after its "
            "start."
        ),
    ] = UNSET


@dataclass(frozen=True, slots=True)
class _Placement:
    """A reservation with its request, compiled again.

    `view` is the Plan without it; None if it has begun or is over.
    """

    reservation: Reservation
    request: Request | None
    begin: int
    finish: int
    view: PlanSnapshot | None


calls = Calls()


@calls.get(
    "/v1/reservations/{id}/explanation",
    "The explanation, computed from the current Plan.",
    fails=("not_found",),
)
def explain_reservation(runtime: Runtime, id_: str, user: User) -> Explanation:
    """Explain the place of a reservation, or which reservations use the capacity that a refused
    request needed."""
    with runtime.reading() as plan:
        reservation, refusal = plan.reservation(id_), plan.refusal(id_)
        known = reservation or refusal
        require_visible(user, None if known is None else known.tenant, f"reservation {id_!r}")
        if reservation is None:
            assert refusal is not None
            return _explain_refusal(plan, refusal, user)
        placement = _placement_of(plan, reservation)
        body = _explain_place(plan, placement, user)
        grid = plan.grid
    body.alternatives = _alternatives(placement, grid)
    return body


def _explain_refusal(plan: Plan, refusal: Refusal, user: User) -> Explanation:
    binding, grid = refusal.binding, plan.grid
    at = None if binding is None else binding.at
    asked = None if binding is None else binding.resource
    holders = [] if at is None else holders_at(plan, at, asked, user)
    return Explanation(
        id=refusal.id,
        version=plan.version,
        state=State.REFUSED.value,
        detail=refusal.detail,
        code=refusal.code.value,
        binding=None if binding is None else binding_to_json(binding, grid),
        at_at=None if at is None else _at(at, grid),
        holders=holders,
        held_by="" if binding is None or binding.policy else held_by(holders),
    )


def _placement_of(plan: Plan, reservation: Reservation) -> _Placement:
    number = plan.table.number_of(reservation.id)
    assert number is not None
    holding = plan.table.holding(number)
    try:
        graph = compile_source(reservation.expression, context_of(plan, reservation.submitted_ms))
    except RdlError:  # the cluster has changed, and could not be requested this any more
        return _Placement(reservation, None, holding.begin, holding.finish, None)
    request = Request(
        reservation.id,
        reservation.tenant,
        reservation.queue,
        reservation.submitted_ms,
        reservation.weight,
        reservation.priority,
        graph,
        reservation.promise,
    )
    waits = reservation.state is State.ACCEPTED and holding.begin > plan.now
    view = plan.view_without([reservation.id]) if waits else None
    return _Placement(reservation, request, holding.begin, holding.finish, view)


def _explain_place(plan: Plan, placement: _Placement, user: User) -> Explanation:
    one, grid = placement.reservation, plan.grid
    window = None if placement.request is None else window_of(placement.request.graph)
    earliest = max(0 if window is None else window[0], grid.ceil(one.submitted_ms))
    stood = _in_the_way(plan, placement, earliest)
    bound = "window" if placement.begin <= earliest else "choice" if stood is None else "capacity"
    end = grid.seconds(min(placement.finish, grid.horizon))
    at, resource = (None, None) if stood is None else (stood.at, stood.resource)
    holders = [] if at is None else holders_at(plan, at, resource, user)
    return Explanation(
        id=one.id,
        version=plan.version,
        state=one.state.value,
        detail=_sentence(placement, stood, bound, grid) + _last_told(one),
        agent=one.agent,
        window=None if window is None else [grid.seconds(step) for step in window],
        begin=grid.seconds(placement.begin),
        finish=end,
        slack=_slack(placement, window, earliest, grid),
        bound=bound,
        binding=None if stood is None else binding_to_json(stood, grid),
        at_at=None if stood is None or stood.at is None else _at(stood.at, grid),
        holders=holders,
        held_by=held_by(holders),
        options=_options(placement),
    )


def _in_the_way(plan: Plan, placement: _Placement, earliest: int) -> Binding | None:
    """Return what prevents an earlier start of its first atom in the current Plan; None: nothing.

    It is the last step before its begin at which there is no free capacity for the least height.
    """
    first, request = max(plan.ledger.first, earliest), placement.request
    begin = min(placement.begin, plan.grid.horizon)
    if begin <= first or request is None:
        return None
    atoms = [atom for atom in placement.reservation.atoms if len(atom.rows)]
    if not atoms:
        return None
    atom = min(atoms, key=lambda one: int(one.rows[0, 0]) + one.shifts[0])
    least = _least_height(request, atom.path)
    found: tuple[int, Binding] | None = None
    for row, resource in enumerate(plan.cluster.resources):
        needed = atom.bundle.get(resource, 0) * least
        free = plan.ledger.free[row, first - plan.ledger.first : begin - plan.ledger.first]
        short = np.flatnonzero(free < needed)
        if len(short) and (found is None or first + int(short[-1]) > found[0]):
            step, left = first + int(short[-1]), int(free[short[-1]])
            name = part_name(request.graph.expression, atom.path)
            binding = Binding(atom.path, "capacity", step, resource, needed, left, name=name)
            found = step, binding
    return None if found is None else found[1]


def _least_height(request: Request, path: str) -> int:
    graph = request.graph
    plain = path.replace("@*", "@0")
    for vertex in graph.atoms.tolist():
        for own, member in parts_of(graph, vertex):
            if own in (path, plain):
                return int(graph.vertices[vertex, MIN_HEIGHT]) * member.count
    return 1


def _sentence(placement: _Placement, stood: Binding | None, bound: str, grid: TimeGrid) -> str:
    zone = zone_of_text(placement.reservation.expression)
    begin = time_text(placement.begin, grid, zone)
    if bound == "window":
        return f"it begins at {begin}, the earliest time in its window"
    if stood is None or stood.at is None:
        agent = placement.reservation.agent
        return f"it begins at {begin}: there is room earlier too, and {agent} prefers this place"
    at = time_text(stood.at, grid, zone)
    return (
        f"it begins at {begin}: at {at} there is too little {stood.resource} for its least height"
    )


def _last_told(one: Reservation) -> str:
    """Return the last event of a reservation, if its history has a text."""
    last = one.history[-1] if one.history else None
    return f"; {last.what}: {last.detail}" if last is not None and last.detail else ""


def _slack(
    placement: _Placement, window: Window | None, earliest: int, grid: TimeGrid
) -> dict[str, Any]:
    """Return the seconds of its window before it begins and after it ends."""
    if window is None:
        return {"before": None, "after": None}
    after = max(0, window[1] - min(placement.finish, window[1]))
    before = max(0, placement.begin - earliest)
    return {"before": grid.seconds(before), "after": grid.seconds(after)}


def _options(placement: _Placement) -> list[TakenOption]:
    """Return for each `any` that was reached which option was taken, and of how many."""
    request = placement.request
    if request is None:
        return []
    graph = request.graph
    counts: dict[str, int] = {}
    for _, path, _ in graph.options:
        counts[path] = counts.get(path, 0) + 1
    return [
        TakenOption(path=path, taken=taken, options=counts.get(path, 1))
        for path, taken in placement.reservation.choices
    ]


def _alternatives(placement: _Placement, grid: TimeGrid) -> list[AlternativePlace]:
    """Return the places that other agents would choose in the Plan without it, if it has not
    begun."""
    view, request = placement.view, placement.request
    if view is None or request is None:
        return []
    found = []
    for name in _BESIDE:
        result = agent_named(name).plan([request], view, Limits())[0]
        if not result.placed:
            continue
        rows = [rows for _, rows in result.atoms() if len(rows)]
        begin = min((int(one[0, 0]) for one in rows), default=placement.begin)
        finish = max((int(one[-1, 1]) for one in rows), default=placement.begin)
        found.append(
            AlternativePlace(
                agent=name,
                begin=grid.seconds(begin),
                finish=grid.seconds(finish),
                taken=name == placement.reservation.agent,
            )
        )
    return found


def _at(step: int, grid: TimeGrid) -> str:
    return rfc3339_text(grid.instant_at(grid.ms(step)))


def holders_at(plan: Plan, step: int, resource: str | None, user: User) -> list[HolderView]:
    """Return who holds a resource at a step, tenants that hold most first.

    Tenants that the user does not act for are one entry without a name. Without a resource,
    bundles are counted.
    """
    table = plan.table
    held = table.holding_between(np.arange(len(table)), step, step + 1)
    columns = row_columns(table, held)
    here = (columns.rows[:, 0] <= step) & (columns.rows[:, 1] > step)
    sizes = [1 if resource is None else bundle.get(resource, 0) for bundle in columns.bundles]
    size = np.array(sizes, dtype=np.int64)[columns.kind[here]] if here.any() else np.zeros(0)
    amounts: dict[int, int] = {}
    for number, amount in zip(
        columns.number[here].tolist(), (columns.rows[here, 2] * size).tolist(), strict=True
    ):
        if amount > 0:
            amounts[number] = amounts.get(number, 0) + int(amount)
    tenants: dict[str | None, list[int]] = {}
    for number in sorted(amounts, key=lambda one: (-amounts[one], one)):
        tenant = table.scope(number)[0]
        tenants.setdefault(tenant if user.acts_for(tenant) else None, []).append(number)
    entries = [
        (sum(amounts[n] for n in numbers), tenant, numbers) for tenant, numbers in tenants.items()
    ]
    entries.sort(key=lambda one: (one[1] is None, -one[0]))
    return [_holder(plan, tenant, numbers, total, resource) for total, tenant, numbers in entries]


def _holder(
    plan: Plan, tenant: str | None, numbers: list[int], total: int, resource: str | None
) -> HolderView:
    named = np.array(numbers[:_NAMED], dtype=np.int64)
    return HolderView(
        tenant=tenant,
        count=len(numbers),
        amount=total if resource is None else amount_to_json(resource, total),
        reservations=None if tenant is None else ids_of(plan.table, named),
    )


def held_by(holders: Sequence[HolderView]) -> str:
    """Return who holds a resource as people say it: ``held by ml (2 reservations)``; or nothing."""
    if not holders:
        return ""
    said = [
        f"{'others' if one.tenant is None else one.tenant} ({counted(one.count, 'reservation')})"
        for one in holders[:_TOLD]
    ]
    rest = sum(one.count for one in holders[_TOLD:])
    more = [counted(rest, "more reservation")] if rest else []
    return f"held by {', '.join([*said, *more])}"


def holders_of_binding(
    runtime: Runtime, binding: Mapping[str, Any] | None, user: User
) -> list[HolderView]:
    """Return the reservations that use the limiting resource of a binding; empty for a policy.

    A policy leaves less than the free capacity, so the users of the resource are not the cause.
    """
    if binding is None or binding["at"] is None or binding["policy"] is not None:
        return []
    with runtime.reading() as plan:
        step = plan.grid.floor(round(1000 * binding["at"]))
        return holders_at(plan, step, binding["resource"], user)


def with_holders(runtime: Runtime, response: Response, user: User) -> Response:
    """Add the reservations that use the needed capacity to a refusal; return other responses
    unchanged."""
    if response.status < HTTPStatus.BAD_REQUEST:
        return response
    body = msgspec.json.decode(response.payload())
    refusal = body.get("refusal")
    if refusal is None:
        return response
    told = told_holders(runtime, refusal["binding"], user)
    body["refusal"] = refusal | told
    if told["held_by"]:
        said = body["detail"]
        body["detail"] = f"{said}; {told['held_by']}"
        for error in body["errors"]:
            if error["message"] == said:
                error["message"] = body["detail"]
    return replace(response, body=body)


def told_holders(runtime: Runtime, binding: Mapping[str, Any] | None, user: User) -> dict[str, Any]:
    """Return the members of an answer that name the users of the scarce resource."""
    holders = holders_of_binding(runtime, binding, user)
    return {"holders": holders, "held_by": held_by(holders)}
