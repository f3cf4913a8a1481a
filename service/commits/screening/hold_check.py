"""Whether a hold may be made, kept or given back."""

from __future__ import annotations

from planner.plan.plan import Plan
from service.problems import ProblemDocument


def crowded_problem(plan: Plan, holder: str, most: int) -> ProblemDocument | None:
    """Return why a user may not hold anything more now, or None."""
    mine = sum(one.holder == holder for one in plan.table.holds.values())
    if mine < most:
        return None
    detail = "as many offers are held or asked for you as may be; accept one, or give one back"
    return ProblemDocument("too_many", detail, headers={"Retry-After": "10"})


def not_held_problem(plan: Plan, id_: str) -> ProblemDocument | None:
    """Return why there is nothing to keep or to give back under an id, or None."""
    number = plan.table.number_of(id_)
    if number is not None and number in plan.table.holds:
        return None
    if number is None:
        return ProblemDocument("not_found", f"there is no hold {id_!r}")
    state = plan.table.state(number).value
    detail = f"nothing is held under {id_!r} any more: the reservation is {state}"
    return ProblemDocument("wrong_state", detail)
