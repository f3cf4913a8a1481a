"""`hybrid`: greedy placing for the many, a search for the few (Rayon 6.3.1 left it open).

What was found (docs/results/exact.md, docs/decisions/0009): to give the hardest few to a solver
first and GREE-L the rest loses to placing all greedily in an order of one's own, and solving anew
a refused request with all around it finds nothing that a search over all does not. So greedy
agents place all, in any order, and `exact`'s search goes on from there. Of many requests the bound
is that of buckets of steps: it takes some seconds, and then a core is free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from planner.agent import Limits, MustKeep, SolverAgent, SolverReport
from planner.agents.exact.agent import EXACT
from planner.placement import PlacementResult
from planner.request import Request
from planner.view import PlanView


@dataclass(frozen=True, slots=True)
class HybridAgent(SolverAgent):
    """Greedy agents and the exact planner's search, behind the agents' contract.

    Attributes
    ----------
    few
        Requests up to which the set is `exact`'s, whose finer bound then costs little.
    """

    name: str = "hybrid"
    few: int = 1000

    def solve(
        self,
        requests: Sequence[Request],
        view: PlanView,
        limits: Limits,
        must_keep: MustKeep | None = None,
    ) -> tuple[list[PlacementResult], SolverReport]:
        """Return the plan and its report; see `planner.agent.SolverAgent`.

        Raises
        ------
        planner.agents.exact.incumbent.BoundError
            If a bound lies below a plan that was checked: a fault, never to be hidden.
        """
        solver = replace(EXACT, fine=len(requests) <= self.few)
        return solver.solve(requests, view, limits, must_keep)


#: The agent that users name.
HYBRID = HybridAgent()
