"""Candidates: the reservations of strictly lower priority that a request may displace."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

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


def may_displace(plan: Plan, request: Request) -> bool:
    """Return whether a policy lets a request displace, and some reservation could make way."""
    return bool(len(_numbers(plan, request)))


def candidates_of(plan: Plan, request: Request) -> list[Commitment]:
    """Return the reservations that may be displaced, in the order in which they make way.

    The order is least priority, then least value, then newest. Degraded reservations and holds are
    left alone.
    """
    numbers = _numbers(plan, request)
    if len(numbers) > MOST_LOOKED_AT:
        meta = plan.table.meta[numbers]
        order = np.lexsort((-numbers, meta["weight"], meta["priority"]))
        numbers = numbers[order[:MOST_LOOKED_AT]]
    found = [commitment_of(plan, number) for number in numbers.tolist()]
    return sorted(found, key=lambda one: order_of(plan, one))


def order_of(plan: Plan, commitment: Commitment) -> tuple[int, float, int]:
    """Return the key by which reservations make way, the least first."""
    return priority_of(plan, commitment), commitment.value, -commitment.number


def priority_of(plan: Plan, commitment: Commitment) -> int:
    """Return the priority of a reservation."""
    return int(plan.table.meta[commitment.number]["priority"])


def _numbers(plan: Plan, request: Request) -> NDArray[np.int64]:
    """Return the reservations of less priority that hold something inside a request's window."""
    table, vertices = plan.table, request.graph.vertices
    rules = [
        rule
        for rule in plan.cluster.displacement_rules
        if rule.scope.key(request.tenant, request.queue) is not None
    ]
    if not rules or not len(vertices):
        return np.zeros(0, dtype=np.int64)
    meta = table.meta
    accepted, active = STATE_NUMBERS[State.ACCEPTED], STATE_NUMBERS[State.ACTIVE]
    states = [accepted, active] if any(rule.running for rule in rules) else [accepted]
    first, end = max(plan.now, int(vertices[-1, START])), int(vertices[-1, END])
    chosen = np.isin(meta["state"], states) & (meta["priority"] < request.priority)
    chosen &= (meta["begin"] < end) & (meta["finish"] > first) & (meta["atoms"] > 0)
    numbers = np.flatnonzero(chosen)
    if table.holds:
        numbers = numbers[~np.isin(numbers, list(table.holds))]
    return numbers
