"""Prove a set of few requests by CP-SAT on the whole of it, beside the MILP and the searches."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from planner.agent import is_proven
from planner.agents.exact.budget import Budget, SolveInput
from planner.agents.exact.incumbent import CP_SAT, Incumbent
from planner.agents.exact.proof.whole_cp import WholeCp
from planner.agents.milp import rayon
from planner.agents.milp.codec import decode
from planner.agents.milp.rows import Floats

_LOG = logging.getLogger(__name__)

#: Requests, and coefficients of Rayon's model, up to which it works. With more it
#: proved nothing in time (docs/results/exact.md).
FEW_REQUESTS: Final = 20
MOST_ENTRIES: Final = 30_000

_POLL_S: Final = 0.05

#: What is added to its bounds for the rounding of worths (`whole_cp`); less than `is_proven`
#: forgives.
_ROUNDING: Final = 2e-7


@dataclass
class WholeCpProof:
    """One set of requests that CP-SAT is to prove.

    Attributes
    ----------
    incumbent
        Takes every better plan and bound.
    """

    incumbent: Incumbent
    solve_input: SolveInput
    budget: Budget
    _found: Floats | None = None
    _bound: float = math.inf

    def prove(self, stop: Callable[[], bool]) -> None:
        """Work until it is proven, the time is over, or `stop` says so."""
        from ortools.sat.python import cp_model

        problem = self.solve_input.problem
        kept = np.flatnonzero(problem.forest.keep > 0).tolist()
        built = rayon.build(list(problem.requests), self.incumbent.view, must_keep=kept)
        whole = WholeCp(built)
        whole.add_hint([self.incumbent.results[at] for at in self.solve_input.positions])
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = self.solve_input.seed
        if math.isfinite(self.budget.left_s):
            solver.parameters.max_time_in_seconds = max(0.01, self.budget.left_s)
        status = self._status(cp_model, solver, whole, stop)
        if status == cp_model.INFEASIBLE and self.incumbent.must_keep:
            self.incumbent.lower(-math.inf, CP_SAT)  # what must be there cannot be
            return
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            self._offer(whole.values_of(solver.value), whole)
            self._lower(solver.best_objective_bound * whole.unit)

    def _status(self, cp: Any, solver: Any, whole: WholeCp, stop: Callable[[], bool]) -> Any:
        """Return how the solve ended; hand over what it finds on the way, and hear a stop."""
        proof = self

        class WholeCpWatch(cp.CpSolverSolutionCallback):  # type: ignore[misc]
            def on_solution_callback(self) -> None:
                proof._found = whole.values_of(self.value)

        def lower(bound: float) -> None:
            proof._bound = min(proof._bound, bound)

        solver.best_bound_callback = lower
        with ThreadPoolExecutor(1, thread_name_prefix="whole-cp") as pool:
            answer = pool.submit(solver.solve, whole.model, WholeCpWatch())
            try:
                while not answer.done():
                    if stop():
                        solver.stop_search()
                    time.sleep(_POLL_S)
                    self._report(whole)
            finally:
                solver.stop_search()
            return answer.result()

    def _report(self, whole: WholeCp) -> None:
        found, self._found = self._found, None
        if found is not None:
            self._offer(found, whole)
        if math.isfinite(self._bound):
            self._lower(self._bound * whole.unit)

    def _lower(self, bound: float) -> None:
        """Take a bound over; one below a checked plan is the solver's error and proves nothing."""
        bound += _ROUNDING * abs(bound)
        if self.incumbent.whole and not is_proven(
            bound, self.incumbent.value, self.incumbent.requested_value
        ):
            _LOG.warning("a bound of cp-sat, %r, lies below a checked plan: left out", bound)
            return
        self.incumbent.lower(bound, CP_SAT)

    def _offer(self, values: Floats, whole: WholeCp) -> None:
        results = list(self.incumbent.results)
        found = decode(values, whole.built)
        for position, result in zip(self.solve_input.positions, found, strict=True):
            results[position] = result
        self.incumbent.offer(results, CP_SAT)
