"""Why a reservation stands where it does, and who holds what a refused request needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from planner.agent import Limits
from planner.agents import agent_named
from planner.capacity.snapshot import PlanSnapshot
from planner.explain import time_text
from planner.placement import Binding
from planner.plan.plan import Plan
from planner.request import Request
from planner.reservations.reservation import Refusal, Reservation, binding_to_json
from planner.reservations.state import State
from rdl.compile.compiler import compile_source
from rdl.durations import rfc3339_text
from rdl.errors import RdlError
from rdl.local_time import zone_of_text
from rdl.names import part_name
from rdl.time_grid import TimeGrid
from rdl.work_graph import MIN_HEIGHT
from service.access.user import User
from service.calls.reservations.holders import held_by, holders_at
from service.commits.changes.pending import context_of
from service.commits.screening.ownership import require_visible
from service.windows import Window, window_of

if TYPE_CHECKING:
    from service.runtime import Runtime

#: Agents whose places are shown beside the one that was taken; each answers in a millisecond.
_BESIDE: Final = ("earliest", "gree", "gree-l", "headroom", "aligned")


@dataclass(frozen=True, slots=True)
class _Placement:
    """A reservation with its request, compiled again.

    `view` is the Plan without it; None where it has begun or is over.
    """

    reservation: Reservation
    request: Request | None
    begin: int
    finish: int
    view: PlanSnapshot | None


def explanation(runtime: Runtime, id_: str, user: User) -> dict[str, Any]:
    """Return why a reservation stands where it does, or why a request was refused.

    Raises
    ------
    ApiProblemError
        ``not_found``, also for what is of tenants that the user does not act for.
    """
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
    return body | {"alternatives": _alternatives(placement, grid)}


def _explain_refusal(plan: Plan, refusal: Refusal, user: User) -> dict[str, Any]:
    binding, grid = refusal.binding, plan.grid
    at = None if binding is None else binding.at
    asked = None if binding is None else binding.resource
    holders = [] if at is None else holders_at(plan, at, asked, user)
    return {
        "id": refusal.id,
        "version": plan.version,
        "state": State.REFUSED.value,
        "detail": refusal.detail,
        "code": refusal.code.value,
        "binding": None if binding is None else binding_to_json(binding, grid),
        "at_at": None if at is None else _at(at, grid),
        "holders": holders,
        "held_by": "" if binding is None or binding.policy else held_by(holders),
    }


def _placement_of(plan: Plan, reservation: Reservation) -> _Placement:
    number = plan.table.number_of(reservation.id)
    assert number is not None
    holding = plan.table.holding(number)
    try:
        graph = compile_source(reservation.expression, context_of(plan, reservation.submitted_ms))
    except RdlError:  # the cluster has changed, and could not be asked for this any more
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


def _explain_place(plan: Plan, placement: _Placement, user: User) -> dict[str, Any]:
    one, grid = placement.reservation, plan.grid
    window = None if placement.request is None else window_of(placement.request.graph)
    earliest = max(0 if window is None else window[0], grid.ceil(one.submitted_ms))
    stood = _in_the_way(plan, placement, earliest)
    bound = "window" if placement.begin <= earliest else "choice" if stood is None else "capacity"
    end = grid.seconds(min(placement.finish, grid.horizon))
    at, resource = (None, None) if stood is None else (stood.at, stood.resource)
    holders = [] if at is None else holders_at(plan, at, resource, user)
    return {
        "id": one.id,
        "version": plan.version,
        "state": one.state.value,
        "detail": _sentence(placement, stood, bound, grid),
        "agent": one.agent,
        "window": None if window is None else [grid.seconds(step) for step in window],
        "begin": grid.seconds(placement.begin),
        "finish": end,
        "slack": _slack(placement, window, earliest, grid),
        "bound": bound,
        "binding": None if stood is None else binding_to_json(stood, grid),
        "at_at": None if stood is None or stood.at is None else _at(stood.at, grid),
        "holders": holders,
        "held_by": held_by(holders),
        "options": _options(placement),
    }


def _in_the_way(plan: Plan, placement: _Placement, earliest: int) -> Binding | None:
    """Return what keeps its first atom from beginning earlier, as the Plan is now; None: nothing.

    It is the last step before its begin at which there is no room for the least height.
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
        if graph.paths[vertex] in (path, plain):
            return int(graph.vertices[vertex, MIN_HEIGHT])
    return 1


def _sentence(placement: _Placement, stood: Binding | None, bound: str, grid: TimeGrid) -> str:
    zone = zone_of_text(placement.reservation.expression)
    begin = time_text(placement.begin, grid, zone)
    if bound == "window":
        return f"it begins at {begin}: no earlier instant lies in its window"
    if stood is None or stood.at is None:
        agent = placement.reservation.agent
        return f"it begins at {begin}: there is room earlier too, and {agent} prefers this place"
    at = time_text(stood.at, grid, zone)
    return (
        f"it begins at {begin}: at {at} there is too little {stood.resource} for its least height"
    )


def _slack(
    placement: _Placement, window: Window | None, earliest: int, grid: TimeGrid
) -> dict[str, Any]:
    """Return the seconds of its window before it begins and after it ends."""
    if window is None:
        return {"before": None, "after": None}
    after = max(0, window[1] - min(placement.finish, window[1]))
    before = max(0, placement.begin - earliest)
    return {"before": grid.seconds(before), "after": grid.seconds(after)}


def _options(placement: _Placement) -> list[dict[str, Any]]:
    """Return for each `any` that was reached which option was taken, and of how many."""
    request = placement.request
    if request is None:
        return []
    graph = request.graph
    counts: dict[str, int] = {}
    for _, path, _ in graph.options:
        counts[path] = counts.get(path, 0) + 1
    return [
        {"path": path, "taken": taken, "options": counts.get(path, 1)}
        for path, taken in placement.reservation.choices
    ]


def _alternatives(placement: _Placement, grid: TimeGrid) -> list[dict[str, Any]]:
    """Return where other agents would put it on the Plan without it; of what has not begun."""
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
            {
                "agent": name,
                "begin": grid.seconds(begin),
                "finish": grid.seconds(finish),
                "taken": name == placement.reservation.agent,
            }
        )
    return found


def _at(step: int, grid: TimeGrid) -> str:
    return rfc3339_text(grid.instant_at(grid.ms(step)))
