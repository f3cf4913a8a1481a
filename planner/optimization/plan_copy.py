"""A Plan of one's own in which the next steps are past: what is past does not move."""

from __future__ import annotations

from planner.plan.changes import Advance
from planner.plan.plan import Plan


def frozen(plan: Plan, step: int) -> Plan:
    """Return a copy of a Plan in which all before `step` is past."""
    twin = plan.copy()
    advance_to(twin, step)
    return twin


def advance_to(twin: Plan, step: int) -> None:
    """Make all before `step` past, in place.

    Raises
    ------
    ValueError
        If the step is past the horizon.
    """
    if step > twin.now:
        prepared = twin.prepare([Advance(step)], twin.version)
        if prepared.record is None:
            raise ValueError(prepared.conflicts[0].detail)
        twin.apply(prepared.record)
