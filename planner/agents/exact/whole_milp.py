"""A MILP of the whole set alongside the search, for few requests: it proves what prices do not.

They are large relative to the free capacity, so the bound of prices keeps a gap whatever the prices
are, and a search soon finds nothing more. Rayon's model is complete: branch and bound closes that
gap if there is time. It starts from the best plan so far; a large model has a process of its own.
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

#: What its plans and bounds are called.
MILP: Final = "milp"

#: Requests up to which it is tried; with more, searches gain more from the cores.
FEW_REQUESTS: Final = 30

#: Coefficients that a second of what is left may be asked to solve (docs/exact.md, section 6).
ENTRIES_A_SECOND: Final = 50_000

#: Coefficients up to which the solver works in this process: to start another takes a second.
_AT_HAND: Final = 20_000

#: Bytes that its model and solver may take.
MOST_MEMORY: Final = 2 << 30

#: Gap at which it is proven, and what is added to its bounds for the solver's tolerances; both
#: together are less than what `is_proven` forgives.
_PROVEN: Final = 2e-7
_ROUNDING: Final = 5e-7

#: Part of what is left that the solver may take: its process has to start, and to hand over.
_SHARE: Final = 0.97


@dataclass
class WholeMilp:
    """One set of requests as a MILP.

    Attributes
    ----------
    incumbent
        Takes every better plan and bound.
    """

    incumbent: Incumbent
    solve_input: SolveInput
    budget: Budget

    @cached_property
    def size(self) -> ModelSize:
        """Size of its model, predicted before anything is built."""
        return predicted_size(
            lay_out(list(self.solve_input.problem.requests), self.incumbent.view),
            self.incumbent.view,
        )

    @property
    def refusal(self) -> str:
        """Why its model is not built, or nothing if it is worth building."""
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
        """Solve it until it is proven, the time is over, or `stop` says so."""
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
            self.incumbent.lower(-math.inf, MILP)  # what must be there cannot be
        elif answer.status.has_values:
            self._offer(answer.values, built)
            self._lower(answer.bound / built.scale)

    def _report(self, progress: Progress, built: rayon.RayonModel) -> None:
        if progress.values is not None:
            self._offer(progress.values, built)
        self._lower(progress.bound / built.scale)

    def _lower(self, bound: float) -> None:
        """Take a bound over; one below a checked plan is the solver's error and proves nothing."""
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
