"""Prove a set of few requests by its subsets: the best one that can be placed is the optimum.

A master programme chooses the subset of most value that nothing known rules out. Prices refute it
if they can, and give a row that refutes many others. Else CP-SAT is asked whether it can be placed.
If it can, it is the best plan; if not, a smaller subset that cannot either is ruled out with all
that holds it, and what could be placed on the way is a plan. What CP-SAT leaves open in its time is
set aside and asked again, for longer each time, in turn with a MILP of the steps, which only finds
places: until then the bound is its value. Several threads can work on one proof: each asks about a
subset of its own.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from planner.agents.exact.budget import Budget, SolveInput
from planner.agents.exact.incumbent import LEFT_OUT, Incumbent
from planner.agents.exact.problem import F64, V_END, V_KIND, V_START
from planner.agents.exact.subsets.answer import SubsetAnswer, SubsetVerdict
from planner.agents.exact.subsets.check import SubsetCheck, check_of, places_by_steps
from planner.agents.exact.subsets.levels import LevelBook, level_book
from planner.agents.exact.subsets.master import SubsetMaster
from planner.agents.exact.subsets.prices import LevelPrices
from planner.agents.exact.subsets.solver_group import SolverGroup
from planner.agents.exact.subsets.step_check import StepCheck
from planner.view import PlanView
from rdl.work_graph import ATOM

_LOG = logging.getLogger(__name__)

#: What its plans and bounds are called.
SUBSETS: Final = "subsets"

#: Requests up to which it works, and variables x_jt: its model takes half a second to build.
FEW_REQUESTS: Final = 20
MOST_ATOM_STEPS: Final = 10_000

#: Seconds of the processor for the first question about a subset, and how many times more each
#: time it is asked again.
_FIRST_S: Final = 2.5
_MORE: Final = 3.0

#: Seconds for the first question to the MILP of steps, which comes once CP-SAT has left a subset
#: open and from then on in turn with it.
_STEPS_S: Final = 15.0

#: Seconds of a question that makes a core smaller, as a multiple of what the refutation took, and
#: beside it.
_CORE_SHARE: Final = 1.0
_CORE_S: Final = 0.05

#: Requests that are taken out of a core in vain, one after the other, before it is left as it is.
_PATIENCE: Final = 3

#: Part of the last question in what is known of how much of the processor the thread has, and most
#: seconds of the clock for one of the processor.
_NEWEST: Final = 0.3
_SLOWEST: Final = 8.0

#: What is added to its bounds for rounding; less than `is_proven` forgives.
_ROUNDING: Final = 2e-7

#: Seconds that a thread waits while others ask about all that is left.
_IDLE_S: Final = 0.02


class _CheckError(Exception):
    """A plan of CP-SAT did not pass the check, so its model cannot be trusted."""


@dataclass(slots=True)
class _OpenSubset:
    """A subset that nobody knows of yet.

    Attributes
    ----------
    asked
        How often it was asked about.
    busy
        Whether a thread asks about it now.
    """

    subset: list[int]
    value: float
    asked: int = 0
    busy: bool = False


def book_of(solve_input: SolveInput, view: PlanView) -> LevelBook | None:
    """Return the levels of a set that the proof by subsets is for, or None."""
    problem = solve_input.problem
    rows = problem.forest.vertices[problem.forest.vertices[:, V_KIND] == ATOM]
    steps = int((rows[:, V_END] - rows[:, V_START]).clip(0).sum())
    if len(problem.requests) > FEW_REQUESTS or steps > MOST_ATOM_STEPS:
        return None
    return level_book(problem.requests, view.reference)


@dataclass(slots=True)
class SubsetProof:
    """One set of requests whose best subset is to be found.

    Attributes
    ----------
    incumbent
        Takes every better plan and bound.
    book
        Levels of the requests (`book_of`).
    prices
        float64[row, column] of the problem to begin with, if any.
    rows
        How many rows were found.
    cores, possible, open
        Subsets that cannot be placed, that can, and that nobody knows of yet.
    """

    incumbent: Incumbent
    solve_input: SolveInput
    budget: Budget
    book: LevelBook
    prices: F64 | None = None
    rows: int = 0
    cores: list[list[int]] = field(default_factory=list)
    possible: list[list[int]] = field(default_factory=list)
    open: list[_OpenSubset] = field(default_factory=list)
    _slowness: float = 1.0
    _is_idle: bool = False
    _solvers: SolverGroup = field(default_factory=SolverGroup)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _again_s: float = 0.0
    _new_s: float = 0.0
    _must_keep: frozenset[int] = field(init=False)
    _master: SubsetMaster = field(init=False)
    _prices: LevelPrices = field(init=False)
    _check: SubsetCheck = field(init=False)
    _steps: StepCheck | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        """Lay out the master, with the rows of a flat price and of the prices given."""
        problem, view = self.solve_input.problem, self.incumbent.view
        seed = self.solve_input.seed
        self._must_keep = frozenset(np.flatnonzero(problem.forest.keep > 0).tolist())
        self._master = SubsetMaster(self.book, self._must_keep, seed, self._solvers)
        self._prices = LevelPrices(self.book, view)
        self._check = check_of(problem, view, self.book, seed, self._solvers)
        if places_by_steps(problem, view):
            self._steps = StepCheck(problem, self.book, seed, self._solvers)
        for prices in (np.ones(self._prices.shape), self.prices):
            if prices is not None and prices.shape == self._prices.shape and prices.any():
                self._master.add_row(self._prices.row(prices))

    def prove(self, stop: Callable[[], bool]) -> None:
        """Work until it is proven, the time is over, or `stop` says so; threads may share it."""
        try:
            while not (stop() or self._must_end()):
                one = self._next()
                if one is not None:
                    self._ask(one)
                elif self._is_idle:
                    time.sleep(_IDLE_S)
        except TimeoutError:
            return
        except _CheckError:
            _LOG.warning("the proof by subsets ends: its model and the check differ", exc_info=True)
        finally:
            self.interrupt()  # the other threads too: they would wait for what it leaves

    def interrupt(self) -> None:
        """End all threads, and what CP-SAT does in them; call it again until they have ended."""
        self._solvers.stop()

    def _must_end(self) -> bool:
        return self._solvers.is_over or self.budget.is_over(self.incumbent)

    @property
    def _above(self) -> float:
        """Value above which a subset counts."""
        incumbent = self.incumbent
        return incumbent.value * (1 + _ROUNDING / 2) if incumbent.whole else -1.0

    def _next(self) -> _OpenSubset | None:
        """Return the subset to ask about next, or None where there is none now."""
        with self._lock:
            self._is_idle = False
            self.open = [one for one in self.open if one.busy or one.value > self._above]
            waiting = [one for one in self.open if not one.busy]
            if waiting and self._again_s < self._new_s:
                return self._choose(waiting)
            best = self._master.best(self._above, self.budget.left_s)
            values = [one.value for one in self.open] + ([] if best is None else [best[1]])
            if values:
                self._lower(max(self._above, *values))
            else:
                self._lower(self._above if self.incumbent.whole else -math.inf)
                self.interrupt()
                return None
            if best is None:
                return self._choose(waiting)
            row = self._prices.refute(best[0], self._must_end)
            if row is not None:
                self.rows += 1
                self._master.add_row(row)
                return None
            self._master.add_core(best[0])  # what holds it is worth more, and was looked at before
            one = _OpenSubset(*best, busy=True)
            self.open.append(one)
            return one

    def _choose(self, waiting: list[_OpenSubset]) -> _OpenSubset | None:
        """Return the most valuable of those that wait, for this thread; None where others ask."""
        if not waiting:
            self._is_idle = True
            return None
        one = max(waiting, key=lambda each: each.value)
        one.busy = True
        return one

    def _ask(self, one: _OpenSubset) -> None:
        """Ask about a subset and learn from the answer."""
        began, again = time.monotonic(), one.asked > 0
        answer = self._answer(one)
        one.asked += 1
        core: list[int] = []
        if answer.verdict is SubsetVerdict.IMPOSSIBLE:
            core = self._smaller(one.subset, _CORE_SHARE * answer.spent_s + _CORE_S)
        with self._lock:
            one.busy = False
            if answer.verdict is SubsetVerdict.PLACED:
                self.open.remove(one)
            elif core:
                self.cores.append(core)
                self._master.add_core(core)
                holds = self.book.holds
                self.open = [o for o in self.open if o.busy or not holds(o.subset, core)]
            if again:
                self._again_s += time.monotonic() - began
            else:
                self._new_s += time.monotonic() - began

    def _answer(self, one: _OpenSubset) -> SubsetAnswer:
        """Ask CP-SAT, or in turn with it the MILP of steps where there is one."""
        if self._steps is None:
            return self._place(one.subset, _FIRST_S * _MORE**one.asked)
        longer = _MORE ** (one.asked // 2)
        if one.asked % 2 == 0:
            return self._place(one.subset, _FIRST_S * longer)
        return self._place_by_steps(self._steps, one.subset, _STEPS_S * longer)

    def _place_by_steps(
        self, steps: StepCheck, subset: Sequence[int], time_s: float
    ) -> SubsetAnswer:
        """Ask the MILP of steps about a subset; a plan that it finds is offered."""
        left_s = self.budget.left_s
        if left_s <= 0 or self._must_end():
            raise TimeoutError
        return self._learn(subset, steps.place(subset, min(time_s * self._slowness, left_s)))

    def _place(self, subset: Sequence[int], time_s: float) -> SubsetAnswer:
        """Ask CP-SAT about a subset; a plan that it finds is offered.

        Raises
        ------
        TimeoutError
            If no time is left or all must end.
        _CheckError
            If its plan does not pass the check.
        """
        left_s = self.budget.left_s
        if left_s <= 0 or self._must_end():
            raise TimeoutError
        began = time.monotonic()
        answer = self._check.place(subset, min(time_s * self._slowness, left_s))
        if answer.spent_s > 0:
            slowness = (time.monotonic() - began) / answer.spent_s
            self._slowness += _NEWEST * (min(_SLOWEST, max(1.0, slowness)) - self._slowness)
        return self._learn(subset, answer)

    def _learn(self, subset: Sequence[int], answer: SubsetAnswer) -> SubsetAnswer:
        """Keep what was placed, and its plan where that is worth more."""
        if answer.verdict is SubsetVerdict.PLACED:
            with self._lock:
                self.possible.append(list(subset))
                self._take(subset, answer)
        return answer

    def _take(self, subset: Sequence[int], answer: SubsetAnswer) -> None:
        """Offer the plan of a subset that is placed, where it is worth more."""
        value = self.book.value(subset)
        held = {self.book.levels[level].request for level in subset}
        if value <= self._above or not held >= self._must_keep:
            return
        self._offer(answer)
        if self.incumbent.value < value * (1 - _ROUNDING):
            raise _CheckError(f"a plan of {value!r} did not pass the check")

    def _smaller(self, subset: list[int], time_s: float) -> list[int]:
        """Return a part of a subset that cannot be placed either, at lower levels if possible."""
        core = [self.book.lowest(level) for level in subset]
        if core != subset and not self._is_impossible(core, time_s):
            core = self._at_lowest(subset, time_s)
        weights, failures = self._prices.last.costs, 0
        core.sort(key=lambda one: float(weights[one]))
        many = len(core) // 2
        while many > 1:  # the lightest half at once, a quarter, and so on
            if self._is_impossible(core[many:], time_s):
                core = core[many:]
            many = min(many, len(core)) // 2
        for level in list(core):
            without = [one for one in core if one != level]
            # Placed, it is a better plan; where the MILP of steps finds those, cores come first.
            better = self._steps is None and self.book.value(without) > self._above
            if not without or (failures >= _PATIENCE and not better):
                continue
            if self._is_impossible(without, time_s):
                core, failures = without, 0
            else:
                failures += 1
        return core

    def _at_lowest(self, core: list[int], time_s: float) -> list[int]:
        """Return the same requests, each at its lowest level if they cannot be placed so either."""
        for place, level in enumerate(core):
            last = self.book.lowest(level)
            lower = [*core[:place], last, *core[place + 1 :]]
            if last != level and self._is_impossible(lower, time_s):
                core = lower
        return core

    def _is_impossible(self, subset: Sequence[int], time_s: float) -> bool:
        """Return whether it is proven within some seconds that a subset cannot be placed."""
        if any(self.book.holds(one, subset) for one in self.possible):
            return False
        return self._place(subset, time_s).verdict is SubsetVerdict.IMPOSSIBLE

    def _lower(self, bound: float) -> None:
        """Take a bound over.

        Raises
        ------
        BoundError
            If a checked plan is worth more: a row, a core or an answer was false.
        """
        # A bound holds for all plans: a subset that it does not count is worth at most `_above`
        # (part of the bound, and only rises), cannot be placed, or was placed and its plan offered.
        # So a better plan that another thread finds meanwhile has a subset that the bound counts.
        rounding = _ROUNDING * abs(bound) if math.isfinite(bound) else 0.0
        self.incumbent.lower(bound + rounding, SUBSETS)

    def _offer(self, answer: SubsetAnswer) -> None:
        assert answer.results is not None
        results = list(self.incumbent.results)
        for position, result in zip(self.solve_input.positions, answer.results, strict=True):
            results[position] = result or LEFT_OUT
        self.incumbent.offer(results, SUBSETS)
