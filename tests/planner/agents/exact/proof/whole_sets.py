"""What tests of the model of the whole set and of its subsets begin with."""

from __future__ import annotations

import time

from planner.agent import total_requested_value
from planner.agents.exact.budget import Budget, SolveInput
from planner.agents.exact.build import build_problem
from planner.agents.exact.incumbent import LEFT_OUT, Incumbent
from planner.agents.exact.proof.whole_milp import WholeMilp
from planner.request import Request
from planner.view import PlanView

#: Seconds that no run of a test comes near to: they end for another reason.
AGES = 3600.0


def whole_of(
    requests: list[Request], view: PlanView, keep: frozenset[int] = frozenset()
) -> tuple[Incumbent, WholeMilp]:
    """Return an incumbent that knows nothing yet, and the model that is to run in it."""
    problem = build_problem(requests, view, sorted(keep))
    asked = total_requested_value(requests, view.reference)
    incumbent = Incumbent(
        requests, view, [LEFT_OUT] * len(requests), asked, "nobody", must_keep=keep
    )
    until = time.monotonic() + AGES
    budget = Budget(until, None, 0.0, lambda: False, time.monotonic, lambda: None)
    return incumbent, WholeMilp(incumbent, SolveInput(problem, range(len(requests)), 0), budget)
