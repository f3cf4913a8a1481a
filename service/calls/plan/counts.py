"""How many reservations of each state belong to a time, and how many requests it refused."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from planner.plan.plan import Plan
from planner.plan.table.column_reading import lost_between, scope_column
from planner.reservations.state import NUMBERED_STATES, State
from rdl.durations import rfc3339_text
from service.access.user import User
from service.calls.plan.bars import BarSpan, steps_of_bars

#: States of reservations that may hold less than they held.
_SHORT: Final = (State.DEGRADED, State.FAILED, State.CANCELLED)


def counts(plan: Plan, span: BarSpan, user: User) -> dict[str, Any]:
    """Return counts by state of reservations in a time, and of refusals given then.

    A reservation counts that holds something in the time. One that is degraded, failed or
    cancelled also counts if it held something there until that was lost or released. Only of
    tenants that the user acts for. The caller holds the Plan.

    Raises
    ------
    ApiProblemError
        ``malformed`` for a time that is not planned.
    """
    start, end = steps_of_bars(plan, span)
    table, grid = plan.table, plan.grid
    held = table.holding_between(np.arange(len(table)), start, end)
    held = np.union1d(held, lost_between(table, grid.ms(start), grid.ms(end), _SHORT))
    if not user.sees_all and len(held):
        column = scope_column(table, held, "tenant")
        seen = np.array([user.acts_for(word) for word in column.words], dtype=np.bool_)
        held = held[seen[column.place]]
    found = np.bincount(table.meta["state"][held], minlength=len(NUMBERED_STATES))
    states = {state.value: int(n) for state, n in zip(NUMBERED_STATES, found, strict=True)}
    first, last = grid.ms(start), grid.ms(end)
    states[State.REFUSED.value] = sum(
        first <= one.submitted_ms < last and user.acts_for(one.tenant) for one in plan.refusals
    )
    return {
        "version": plan.version,
        "from": grid.seconds(start),
        "to": grid.seconds(end),
        "from_at": rfc3339_text(grid.instant_at(first)),
        "to_at": rfc3339_text(grid.instant_at(last)),
        "now": grid.seconds(plan.now),
        "states": states,
    }
