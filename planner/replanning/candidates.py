"""Candidates: the reservations of strictly lower priority that requests may displace.

Requests that come in together, all or nothing, are as strong as the weakest of them: each must be
under a policy that lets it displace, and what makes way is of lower priority than all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.cluster.cluster import Cluster
from planner.cluster.policy import DisplacementRule
from planner.placement import Code
from planner.plan.plan import Plan
from planner.replanning.commitment import Commitment, commitment_of
from planner.request import Request
from planner.reservations.state import STATE_NUMBERS, State
from rdl.work_graph import END, START

#: Refusals that room would help.
FOR_ROOM: Final = frozenset({Code.CAPACITY, Code.CAPACITY_OVER_TIME, Code.QUOTA})

#: Most reservations that are looked at for one request: those of the lowest priority.
MOST_LOOKED_AT: Final = 400


def may_displace(plan: Plan, requests: Sequence[Request]) -> bool:
    """Return whether policies let requests displace, and some reservation could make way."""
    return bool(len(_numbers(plan, requests)))


def candidates_of(plan: Plan, requests: Sequence[Request]) -> list[Commitment]:
    """Return the reservations that may be displaced, in the order in which they make way.

    The order is `Commitment.importance`. Degraded reservations, holds, and the reservations that
    the requests are changes of are left alone.
    """
    numbers = _numbers(plan, requests)
    if len(numbers) > MOST_LOOKED_AT:
        meta = plan.table.meta[numbers]
        order = np.lexsort((-numbers, meta["weight"], meta["priority"]))
        numbers = numbers[order[:MOST_LOOKED_AT]]
    found = [commitment_of(plan, number) for number in numbers.tolist()]
    return sorted(found, key=lambda one: one.importance)


def displaced_reason(came: Sequence[tuple[str, str]], tenant: str) -> str:
    """Return why a reservation was displaced, as its tenant may read it.

    A request of another tenant has no name there; of several, those after the first are counted.

    Parameters
    ----------
    came
        Id and tenant of what took its place.
    """
    own = [id_ for id_, theirs in came if theirs == tenant]
    first = own[0] if own else "a request of another tenant"
    more = "" if len(came) == 1 else f" and {len(came) - 1} more of its batch"
    return f"displaced by {first}{more}, of higher priority"


def _rules_for(cluster: Cluster, request: Request) -> list[DisplacementRule]:
    """Return the policies that let a request displace others."""
    return [
        rule
        for rule in cluster.displacement_rules
        if rule.scope.key(request.tenant, request.queue) is not None
    ]


def _numbers(plan: Plan, requests: Sequence[Request]) -> NDArray[np.int64]:
    """Return the reservations of less priority that hold something inside a request's window."""
    table = plan.table
    rules = [_rules_for(plan.cluster, request) for request in requests]
    if not all(rules):
        return np.zeros(0, dtype=np.int64)
    meta = table.meta
    accepted, active = STATE_NUMBERS[State.ACCEPTED], STATE_NUMBERS[State.ACTIVE]
    running = all(any(rule.running for rule in mine) for mine in rules)
    chosen = np.isin(meta["state"], [accepted, active] if running else [accepted])
    chosen &= meta["priority"] < min(request.priority for request in requests)
    chosen &= (meta["atoms"] > 0) & _hold_inside(plan, requests)
    kept = [*table.holds, *(table.number_of(request.id) for request in requests)]
    numbers = np.flatnonzero(chosen)
    return numbers[~np.isin(numbers, [number for number in kept if number is not None])]


def _hold_inside(plan: Plan, requests: Sequence[Request]) -> NDArray[np.bool_]:
    """Return bool[reservations]: which of them hold something inside any of the windows."""
    meta = plan.table.meta
    inside = np.zeros(len(meta), dtype=bool)
    for request in requests:
        vertices = request.graph.vertices
        if len(vertices):
            first, end = max(plan.now, int(vertices[-1, START])), int(vertices[-1, END])
            inside |= (meta["begin"] < end) & (meta["finish"] > first)
    return inside
