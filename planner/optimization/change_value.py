"""What a change of an optimisation is good for: value, room on machines, or nothing.

A file of its own because the choice of what still fits and the search for other places both ask.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from planner.capacity.shortage import takings_of
from planner.metrics import count_falls
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Change, Degrade, Update
from planner.replanning.commitment import commitment_of
from planner.replanning.draft_plan import exceeds_machines, shortage_of
from planner.reservations.holding import holding_of
from planner.reservations.reservation import Holding
from planner.reservations.state import State
from planner.value import prices_of, value_of

#: Value or cost that counts as none.
SAME: Final = 1e-9


def value_of_change(plan: Plan, change: Change) -> float:
    """Return the value of what a change admits or restores, less than 0 for a loss, else 0."""
    if isinstance(change, Admit) or (isinstance(change, Update) and _is_degraded(plan, change)):
        return value_of(change.request, change.result.choices, plan.cluster.reference)
    number = plan.table.number_of(change.id) if isinstance(change, Degrade) else None
    return 0.0 if number is None else -commitment_of(plan, number).value


def priority_of_change(plan: Plan, change: Change) -> int:
    """Return the priority of what a change admits, restores or degrades."""
    if isinstance(change, Admit | Update):
        return change.request.priority
    number = plan.table.number_of(change.id) if isinstance(change, Degrade) else None
    return 0 if number is None else int(plan.table.meta[number]["priority"])


def is_short(plan: Plan, changes: Sequence[Change]) -> bool:
    """Return whether machines are short of what a Plan, or a reservation to be changed, holds."""
    changed = (one for one in changes if isinstance(one, Update | Degrade))
    return bool(shortage_of(plan.ledger).counts) or any(_unfit(plan, one) for one in changed)


def is_useless(plan: Plan, change: Change) -> bool:
    """Return whether a change is of no use by itself, unless machines are short where it leaves.

    That is a move after which the reservation has falls no less and costs no less, or a loss;
    but neither where the reservation holds more than machines can.
    """
    if isinstance(change, Degrade):
        return not _unfit(plan, change)
    if not isinstance(change, Update) or _is_degraded(plan, change) or _unfit(plan, change):
        return False
    number = plan.table.number_of(change.id)
    assert number is not None
    before = _figures(plan, plan.table.holding(number))
    after = _figures(plan, holding_of(change.request, change.result))
    return after[0] >= before[0] and after[1] >= before[1] - SAME


def _is_degraded(plan: Plan, change: Update) -> bool:
    number = plan.table.number_of(change.id)
    return number is not None and plan.table.state(number) is State.DEGRADED


def _unfit(plan: Plan, change: Update | Degrade) -> bool:
    """Return whether an atom of the reservation holds more bundles than the machines can."""
    number = plan.table.number_of(change.id)
    if number is None:
        return False
    held = plan.table.holding(number)
    return exceeds_machines(plan.ledger, takings_of(held, plan.ledger, *plan.table.scope(number)))


def _figures(plan: Plan, held: Holding) -> tuple[int, float]:
    """Return falls (bundles) and cost of a holding."""
    rows = [(one.bundle, rows) for one in held.atoms for _, rows in one.occurrences() if len(rows)]
    prices = prices_of(plan.cluster, plan.grid)
    cost = 0.0 if prices is None else prices.cost(rows, plan.cluster.nominal)
    return count_falls(one for _, one in rows)[0], cost
