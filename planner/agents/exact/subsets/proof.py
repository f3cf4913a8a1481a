"""Prove a set of few requests by its subsets: the best one that can be placed is the optimum.

A master programme chooses the subset of most value that nothing known rules out. Prices refute it
if they can, and give a row that refutes many others. Else CP-SAT is asked whether it can be placed.
If it can, it is the best plan; if not, a smaller subset that cannot either is ruled out with all
that holds it. What CP-SAT leaves open in its time is set aside and asked again when nothing better
is left: until then the bound is its value.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from planner.agent import is_proven
from planner.agents.exact.budget import Budget, SolveInput
from planner.agents.exact.incumbent import Incumbent
from planner.agents.exact.problem import F64
from planner.agents.exact.subsets.check import SubsetCheck, Verdict
from planner.agents.exact.subsets.levels import LevelBook, level_book
from planner.agents.exact.subsets.master import SubsetMaster
from planner.agents.exact.subsets.prices import LevelPrices
from planner.agents.milp.codec import decode
from planner.agents.milp.rows import Floats

_LOG = logging.getLogger(__name__)

#: What its plans and bounds are called.
SUBSETS: Final = "subsets"

#: Deterministic seconds of CP-SAT for the first question, how many times more the next time, and
#: for each question that makes a core smaller, as a multiple of what the refutation took.
_FIRST_WORK: Final = 0.5
_MORE: Final = 4.0
_CORE_WORK: Final = 1.0

#: What is added to its bounds for rounding; less than `is_proven` forgives.
_ROUNDING: Final = 2e-7


class _CheckError(Exception):
    """A plan of CP-SAT did not pass the check, so its model cannot be trusted."""


@dataclass(slots=True)
class SubsetCounts:
    """How often what was done."""

    rows: int = 0
    placed: int = 0
    cores: int = 0
    open: int = 0
    core_sizes: list[int] = field(default_factory=list)


@dataclass(slots=True)
class SubsetProof:
    """One set of requests whose best subset is to be found.

    Attributes
    ----------
    incumbent
        Takes every better plan and bound.
    """

    incumbent: Incumbent
    solve_input: SolveInput
    budget: Budget
    counts: SubsetCounts = field(default_factory=SubsetCounts)
    _open: list[tuple[float, float, list[int]]] = field(default_factory=list)
    _book: LevelBook = field(init=False)
    _master: SubsetMaster = field(init=False)
    _prices: LevelPrices = field(init=False)
    _check: SubsetCheck = field(init=False)

    def prove(self, prices: F64 | None, stop: Callable[[], bool]) -> None:
        """Work until it is proven, the time is over, or `stop` says so.

        Parameters
        ----------
        prices
            float64[row, column] of the problem to begin with.
        """
        requests = self.solve_input.problem.requests
        book = level_book(requests, self.incumbent.view.nominal)
        if book is None:
            return
        self._book = book
        kept = set(np.flatnonzero(self.solve_input.problem.forest.keep > 0).tolist())
        self._master = SubsetMaster(book, kept, self.solve_input.seed)
        self._prices = LevelPrices(book, self.incumbent.view)
        self._check = SubsetCheck(requests, self.incumbent.view, book, self.solve_input.seed)
        flat = np.ones(self._prices.shape)
        self._master.add_row(self._prices.row(flat))
        if prices is not None and prices.shape == self._prices.shape and prices.any():
            self._master.add_row(self._prices.row(prices))
        try:
            while not stop() and self._step():
                pass
        except TimeoutError:
            return
        except _CheckError:
            _LOG.warning("the proof by subsets ends: its model and the check differ", exc_info=True)

    def _step(self) -> bool:
        """Look at the best subset left; return whether anything is left to do."""
        incumbent = self.incumbent
        above = incumbent.value if incumbent.whole else -1.0
        best = self._master.best(above * (1 + _ROUNDING / 2), self.budget.left_s)
        asked_again = max((-value for value, _, _ in self._open), default=-np.inf)
        if best is None:
            if asked_again <= above:
                self._lower(above if incumbent.whole else -np.inf)
                return False
            value, work, subset = heapq.heappop(self._open)
            self._ask(subset, -value, _MORE * work)
            return True
        subset, value = best
        self._lower(max(value, asked_again))
        row = self._prices.refute(subset)
        if row is not None:
            self.counts.rows += 1
            self._master.add_row(row)
            return True
        self._ask(subset, value, _FIRST_WORK)
        return True

    def _ask(self, subset: list[int], value: float, work: float) -> None:
        """Ask CP-SAT about a subset; learn from the answer."""
        verdict, values = self._check.place(subset, work, self.budget.left_s)
        if verdict is Verdict.PLACED:
            assert values is not None
            self.counts.placed += 1
            self._offer(values)
            if self.incumbent.value < value * (1 - _ROUNDING):
                raise _CheckError(f"a plan of {value!r} did not pass the check")
            self._master.add_core(subset)  # nothing that holds it is worth more
        elif verdict is Verdict.IMPOSSIBLE:
            core = self._smaller(subset, _CORE_WORK * self._check.spent + 0.01)
            self.counts.cores += 1
            self.counts.core_sizes.append(len(core))
            self._master.add_core(core)
        else:
            self.counts.open += 1
            heapq.heappush(self._open, (-value, work, subset))
            self._master.add_core(subset)

    def _smaller(self, subset: list[int], work: float) -> list[int]:
        """Return a part of a subset that cannot be placed either, at lower levels if possible."""
        core = list(subset)
        for level in sorted(subset, key=lambda one: self._book.levels[one].value):
            without = [one for one in core if one != level]
            if without and self._is_impossible(without, work):
                core = without
        for place, level in enumerate(core):
            last = self._lowest(level)
            lower = [*core[:place], last, *core[place + 1 :]]
            if last != level and self._is_impossible(lower, work):
                core = lower
        return core

    def _is_impossible(self, subset: Sequence[int], work: float) -> bool:
        verdict, _ = self._check.place(subset, work, self.budget.left_s)
        return verdict is Verdict.IMPOSSIBLE

    def _lowest(self, level: int) -> int:
        """Return the lowest level of the same request."""
        levels, last = self._book.levels, level
        while last + 1 < len(levels) and levels[last + 1].request == levels[level].request:
            last += 1
        return last

    def _lower(self, bound: float) -> None:
        """Take a bound over; one below a checked plan is a fault and proves nothing."""
        bound += _ROUNDING * abs(bound)
        if self.incumbent.whole and not is_proven(
            bound, self.incumbent.value, self.incumbent.requested_value
        ):
            _LOG.warning("a bound of subsets, %r, lies below a checked plan: left out", bound)
            return
        self.incumbent.lower(bound, SUBSETS)

    def _offer(self, values: Floats) -> None:
        results = list(self.incumbent.results)
        found = decode(values, self._check.built)
        for position, result in zip(self.solve_input.positions, found, strict=True):
            results[position] = result
        self.incumbent.offer(results, SUBSETS)
