"""The threads of a solve on two cores.

1. The calling thread searches for plans until the limit.
2. A thread lowers the Lagrangian bound until it stalls.
3. On sets of blocks CP-SAT runs alongside both as long as it makes progress.
4. On other sets, and if CP-SAT has given up, a second search starts once 2 (and 3) have ended.
5. With few requests a MILP of the whole set starts when 2 has ended.

All compiled loops release the interpreter. With a limit of work, search and bound take turns in one
thread, so that equal calls give equal results.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from lp.limits import Monitor, Progress, SolveLimits, WarmStart
from lp.result import SolveStatus
from lp.solver import solve
from planner.agent import is_proven
from planner.agents.exact.annealing import Annealer
from planner.agents.exact.cp_sat import solve_rigid
from planner.agents.exact.incumbent import (
    CHECKS,
    SLICE_S,
    Budget,
    Incumbent,
    ProofAnswer,
    SolveInput,
    fill_slice,
    report_answer,
)
from planner.agents.exact.kernels.bound import evaluate
from planner.agents.exact.lagrangian import LagrangianBound
from planner.agents.exact.overload import OverloadSearch
from planner.agents.exact.prices import ColumnGeneration, starts
from planner.agents.exact.problem import PlanningProblem
from planner.agents.exact.search import SINGLE, RuinRecreate
from planner.agents.milp import rayon
from planner.agents.milp.codec import decode, encode
from planner.agents.milp.columns import Floats, lay_out
from planner.agents.milp.size import ModelSize, predicted_size

#: Number of turns of search and bound with a limit of work.
_TURNS = 20
_MOVES_PER_EVALUATION = 40

#: Evaluations of one start of the prices before the other one continues.
_MOST_ROUNDS = 20

#: Fraction of the time after which CP-SAT gives up if its bound has not started to fall.
_CP_SAT_TRIAL = 0.3

#: Initial seconds before CP-SAT may restart from a better plan; the gap of a plan near the optimum;
#: and the fraction of the gap that a much better plan must have closed.
_CP_SAT_ROUND_S = 3.0
_NEAR = 0.01
_BETTER_START = 0.2


_ready: list[bool] = []

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


def load_loops(problem: PlanningProblem) -> bool:
    """Call every loop once per process on a small problem; return whether this call did so.

    This loads them from numba's cache in under a second, or compiles them, which takes a minute.
    """
    if _ready:
        return False
    search = RuinRecreate(problem, seed=0)
    search.run(0, SINGLE, 0.0)
    search.restore_best()
    OverloadSearch(problem, SINGLE, 0, time.monotonic, lambda: False).load_loops(search)
    flat, _ = starts(problem)
    flat.run(1, 0.0)
    evaluate(problem.forest, problem.room, flat.space, flat.prices)
    ColumnGeneration(problem, flat.prices, problem.room.free.shape[1]).price()
    _ready.append(True)  # last, so that after an error or ^C the next call loads the rest
    return True


def solve_in_parallel(incumbent: Incumbent, solve_input: SolveInput, budget: Budget) -> str:
    """Improve `incumbent` until the budget is exhausted or nothing is left to try.

    Returns
    -------
    str
        Why nothing was left to try, if that ended the solve; else empty.
    """
    workers = _Workers(incumbent, solve_input, budget)
    if budget.moves is not None:
        workers.take_turns(budget.moves)
        return ""
    stop = threading.Event()
    with ThreadPoolExecutor(4, thread_name_prefix="exact") as pool:
        provers = [pool.submit(workers.lower_bound, stop)]
        last = [] if solve_input.prove else [pool.submit(workers.prove_by_milp, provers[0], stop)]
        if solve_input.prove:
            provers.append(pool.submit(workers.prove_by_cp_sat, stop))
        search = pool.submit(workers.search_again, list(provers), stop)
        try:
            workers.search_plans(lambda: all(one.done() for one in provers))
            workers.wait_for_proof([*provers[1:], *last])
        finally:
            stop.set()
        for one in (*provers, *last, search):
            one.result()
    return "" if budget.is_over(incumbent) or not workers.is_exhausted else workers.end_of_proof


class _Workers:
    """The threads of one solve: searches for plans, and proofs that lower the bound."""

    def __init__(self, incumbent: Incumbent, solve_input: SolveInput, budget: Budget) -> None:
        self._incumbent, self._input, self._budget = incumbent, solve_input, budget
        self._annealer = Annealer(incumbent, solve_input, budget)
        self._cp_sat_gave_up = False
        self.end_of_proof = "every way to prove more has ended"

    @property
    def is_exhausted(self) -> bool:
        """Whether the search ended because it finds no better plans."""
        return self._annealer.exhausted

    def search_plans(self, bound_done: Callable[[], bool]) -> None:
        """Search for plans until the budget is exhausted or a tiny set is."""
        self._annealer.search_plans(bound_done)

    def search_again(self, ended: Sequence[Future[None]], stop: threading.Event) -> None:
        """Search for plans with other random numbers once the bound's threads have ended.

        Its first cycle is as warm as the other search's second. It ends before the other search:
        two final checks at the same time would take twice as long.
        """
        wait(ended)
        if stop.is_set() or (self._input.prove and not self._cp_sat_gave_up):
            return
        budget = replace(self._budget, report_progress=lambda: None, stop=stop.is_set)
        budget.reserve(budget.check_s)
        solve_input = replace(self._input, seed=self._input.seed + 1)
        Annealer(self._incumbent, solve_input, budget).search_plans(lambda: True, cycle=1)

    def wait_for_proof(self, provers: Sequence[Future[None]]) -> None:
        """If the search is exhausted, wait until all provers end or the time is over."""
        while self.is_exhausted and not self._budget.is_over(self._incumbent):
            if all(one.done() for one in provers):
                return
            self._budget.report_progress()
            wait(provers, timeout=SLICE_S)

    def lower_bound(self, stop: threading.Event) -> None:
        """Lower the Lagrangian bound until `stop` is set or no more gain is possible."""
        prices = LagrangianBound(self._input.problem, stop.is_set, self._input.fine)
        rounds, budget = 1, self._budget
        seconds: dict[int, float] = {}
        while not (stop.is_set() or prices.over):
            size = prices.size
            if budget.left_s < seconds.get(size, prices.predicted_s):
                return  # an evaluation cannot be interrupted
            before = budget.clock()
            prices.advance(rounds, self._incumbent.value)
            self._incumbent.lower(prices.bound, prices.proof)
            seconds[size] = budget.clock() - before
            rounds = min(_MOST_ROUNDS, fill_slice(rounds, seconds[size]))

    def prove_by_cp_sat(self, stop: threading.Event) -> None:
        """Run CP-SAT until it has a proof, `stop` is set, or its trial makes no progress.

        A running solve cannot accept a new plan. So CP-SAT restarts once the best plan is near the
        optimum, and whenever that plan has become much better, each time after twice as many
        seconds.
        """
        budget, problem, positions = self._budget, self._input.problem, self._input.positions
        trial_began, checked_at, check_s, least = budget.clock(), 0.0, 0.0, problem.total
        trial_s = _CP_SAT_TRIAL * budget.left_s

        def report(answer: ProofAnswer) -> None:
            nonlocal checked_at, check_s, least
            before = budget.clock()
            least = min(least, answer.bound)
            is_due = before - checked_at > CHECKS * check_s
            report_answer(self._incumbent, positions, answer, plan=is_due)
            if is_due:
                checked_at = budget.clock()
                check_s = checked_at - before

        def gives_up() -> bool:
            return least >= problem.total and budget.clock() - trial_began > trial_s

        def solve_once(round_s: float, near: bool) -> bool:
            """Return whether the solve ended because there is a better plan to restart from."""
            began, value, is_renewed = budget.clock(), self._incumbent.value, False

            def must_end() -> bool:
                nonlocal is_renewed
                if budget.clock() - began > round_s and self._incumbent.gap <= _NEAR:
                    missing = self._incumbent.bound - value
                    much = self._incumbent.value - value > _BETTER_START * missing
                    is_renewed = much or not near
                self._cp_sat_gave_up = gives_up()
                return stop.is_set() or is_renewed or self._cp_sat_gave_up

            hint = [self._incumbent.results[position] for position in positions]
            answer = solve_rigid(
                problem, hint, self._input.seed, stop=must_end, report=report, near=near
            )
            report_answer(self._incumbent, positions, answer)
            return is_renewed

        round_s, near = _CP_SAT_ROUND_S, False
        while solve_once(round_s, near) and not stop.is_set():
            round_s, near = 2 * round_s, True

    def prove_by_milp(self, bound: Future[None], stop: threading.Event) -> None:
        """Solve a MILP of the whole set, if it can be built, once the bound has stalled."""
        wait([bound])
        if stop.is_set():
            return
        milp = WholeMilp(self._incumbent, self._input, self._budget)
        self.end_of_proof = milp.refusal or "a model of the whole set proves no more"
        if not milp.refusal:
            milp.prove(lambda: stop.is_set() or self._budget.is_over(self._incumbent))

    def take_turns(self, moves: int) -> None:
        """Spend `moves` in equal parts, and evaluate prices after each part."""
        prices = LagrangianBound(self._input.problem, fine=self._input.fine)
        part = max(1, moves // _TURNS)
        for turn in range(-(-moves // part)):
            if self._budget.is_over(self._incumbent):
                return
            self._annealer.anneal(min(part, moves - turn * part), 0, turn / _TURNS)
            prices.advance(max(1, part // _MOVES_PER_EVALUATION), self._incumbent.value)
            self._incumbent.lower(prices.bound, prices.proof)
            self._budget.report_progress()
        self._annealer.descend(part)


# Few requests are large relative to the free capacity, so the Lagrangian bound keeps a gap at any
# prices, and the search soon finds no better plan. Rayon's model is complete: branch and bound
# closes that gap if there is time. It starts from the best plan so far; a large model is solved in
# a separate process.


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
