"""A MILP of the whole set alongside the search, for few requests: it proves what prices cannot.

Few requests are large relative to the free capacity, so the Lagrangian bound keeps a gap at any
prices, and the search soon finds no better plan. Rayon's model is complete: branch and bound closes
that gap if there is time. It starts from the best plan so far; a large model is solved in a
separate process.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from lp.limits import Monitor, Progress, SolveLimits, WarmStart
from lp.result import SolveStatus
from lp.solver import solve
from planner.agent import is_proven
from planner.agents.exact.incumbent import Budget, Incumbent, SolveInput
from planner.agents.milp import rayon
from planner.agents.milp.codec import decode, encode
from planner.agents.milp.columns import lay_out
from planner.agents.milp.rows import Floats
from planner.agents.milp.size import ModelSize, predicted_size

_LOG = logging.getLogger(__name__)

#: Name of the MILP as a source of plans and bounds.
MILP: Final = "milp"

#: Maximum number of requests for the MILP; with more, searches make better use of the cores.
FEW_REQUESTS: Final = 30

#: Maximum coefficients per second of remaining time (docs/exact.md, section 6).
ENTRIES_A_SECOND: Final = 50_000

#: Maximum coefficients for solving in this process: starting another one takes a second.
_AT_HAND: Final = 20_000

#: Maximum bytes of its model and solver.
MOST_MEMORY: Final = 2 << 30

#: Gap at which it is proven, and the margin added to its bounds for the solver's tolerances; their
#: sum is less than the tolerance of `is_proven`.
_PROVEN: Final = 2e-7
_ROUNDING: Final = 5e-7

#: Fraction of the remaining time for the solver: its process must start and return its result.
_SHARE: Final = 0.97


@dataclass
class WholeMilp:
    """One set of requests as a MILP.

    Attributes
    ----------
    incumbent
        Receives every better plan and bound.
    """

    incumbent: Incumbent
    solve_input: SolveInput
    budget: Budget

    @cached_property
    def size(self) -> ModelSize:
        """Predicted size of the model, before it is built."""
        return predicted_size(
            lay_out(list(self.solve_input.problem.requests), self.incumbent.view),
            self.incumbent.view,
        )

    @property
    def refusal(self) -> str:
        """Why the model is not built; empty if it is worth building."""
        requests = len(self.solve_input.positions)
        if requests > FEW_REQUESTS:
            return f"{requests:,} requests are too many for a model of the whole set"
        entries = self.size.entries
        many = f"a model of the whole set has {entries:,} coefficients, too many for the"
        if self.size.memory > MOST_MEMORY:
            return f"{many} memory that it may take"
        if entries > ENTRIES_A_SECOND * self.budget.left_s:
            return f"{many} time that is left"
        return ""

    def prove(self, stop: Callable[[], bool]) -> None:
        """Solve the model until it is proven, the time is over, or `stop` returns True."""
        problem = self.solve_input.problem
        kept = np.flatnonzero(problem.forest.keep > 0).tolist()
        built = rayon.build(list(problem.requests), self.incumbent.view, must_keep=kept)
        hint = [self.incumbent.results[position] for position in self.solve_input.positions]
        limits = SolveLimits(
            time_s=max(0.01, _SHARE * self.budget.left_s),
            gap_rel=max(_PROVEN, self.budget.gap),
            threads=1,
            seed=self.solve_input.seed,
            watchdog=self.size.entries > _AT_HAND,
        )
        monitor = Monitor(lambda progress: self._report(progress, built), stop)
        answer = solve(built.model, limits, start=WarmStart(encode(hint, built)), monitor=monitor)
        if answer.status is SolveStatus.INFEASIBLE and self.incumbent.must_keep:
            self.incumbent.lower(-math.inf, MILP)  # the required requests cannot all be placed
        elif answer.status.has_values:
            self._offer(answer.values, built)
            self._lower(answer.bound / built.scale)

    def _report(self, progress: Progress, built: rayon.RayonModel) -> None:
        if progress.values is not None:
            self._offer(progress.values, built)
        self._lower(progress.bound / built.scale)

    def _lower(self, bound: float) -> None:
        """Apply a bound; one below a checked plan is a solver error and proves nothing."""
        if not math.isfinite(bound):
            return
        bound += _ROUNDING * abs(bound)
        if self.incumbent.whole and not is_proven(
            bound, self.incumbent.value, self.incumbent.requested_value
        ):
            _LOG.warning("a bound of milp, %r, lies below a checked plan: left out", bound)
            return
        self.incumbent.lower(bound, MILP)

    def _offer(self, values: Floats, built: rayon.RayonModel) -> None:
        results = list(self.incumbent.results)
        for position, result in zip(self.solve_input.positions, decode(values, built), strict=True):
            results[position] = result
        self.incumbent.offer(results, MILP)
