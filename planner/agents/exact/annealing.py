"""Annealing in cycles over ruin and recreate; offers better plans to the incumbent."""

from __future__ import annotations

from collections.abc import Callable

from planner.agents.exact.incumbent import (
    CHECKS,
    LEFT_OUT,
    Budget,
    Incumbent,
    SolveInput,
    fill_slice,
)
from planner.agents.exact.overload import OverloadSearch, suits_overload
from planner.agents.exact.search import RuinRecreate, mix_of

#: Temperatures at the start of the first cycle (`HOT`), of all others in turn (`WARM`), and at the
#: end of each, in units of the mean request value. The hot start is for sets in which few large
#: requests fit: without it such a set ended two per cent lower.
HOT = 0.7
WARM = (0.25, 0.08)
COLD = 0.012

#: Relative improvement from which the search continues from another thread's plan.
_BETTER = 1e-9

#: Seconds that a round searches with extra capacity: at least these, or a fraction of the remaining
#: time.
_WIDE_S = 0.5
_WIDE_SHARE = 0.05
_LEAST_WIDE_S = 0.2

#: Rounds without a better plan before the next cycle, and moves after a better plan.
_FRUITLESS = 8
_MOVES_AFTER = 200

#: Minimum number of moves per slice for making rounds: slower moves leave no time for rounds.
_LEAST_SLICE = 30

#: Moves of the first slice, before their duration is known.
_FIRST_MOVES = 20

_CYCLE_S = (1.0, 24.0)
_CYCLE_MOVES = 30  # minimum per cycle and request
_EXHAUSTED = 3000  # moves per pair of requests after which a tiny set counts as exhausted


class Annealer:
    """One annealing search that starts from the incumbent and offers better plans to it.

    Attributes
    ----------
    exhausted
        Whether it ended because no better plan is likely to exist.
    """

    def __init__(self, incumbent: Incumbent, solve_input: SolveInput, budget: Budget) -> None:
        self._incumbent, self._budget = incumbent, budget
        problem, self._positions = solve_input.problem, solve_input.positions
        self._search = RuinRecreate(problem, solve_input.seed)
        requests = len(self._positions)
        self._mean = problem.total / requests
        self._mix = mix_of(problem)
        self._patience = _EXHAUSTED * requests * requests
        self._checked_at, self._check_s = budget.clock(), budget.check_s
        self._input = solve_input
        self._moves_a_slice = _FIRST_MOVES
        self._makes_rounds = budget.moves is None and suits_overload(problem)
        self.exhausted = False
        self._moves_since_best = 0  # moves since the last better plan
        self._loaded_value = 0.0
        self._load()

    def _load(self) -> None:
        """Continue from the incumbent."""
        self._loaded_value = self._incumbent.value
        self._search.load([self._incumbent.results[position] for position in self._positions])
        self._offered_value = self._search.value

    def search_plans(self, bound_done: Callable[[], bool], cycle: int = 0) -> None:
        """Anneal from the incumbent in cycles, each twice as long as the previous one.

        Parameters
        ----------
        bound_done
            Whether all proofs have ended: then a tiny set ends when it is exhausted.
        cycle
            Number of the first cycle: 0 starts at `HOT`, others at `WARM` in turn.
        """
        budget, length, moves = self._budget, _CYCLE_S[0], _FIRST_MOVES
        overload: OverloadSearch | None = None
        while not self._over():
            if self._makes_rounds and cycle > 0 and self._moves_a_slice >= _LEAST_SLICE:
                overload = overload or self._overload_search()
                self._make_rounds(overload)
            self._catch_up()
            begin, total, progress = budget.clock(), 0, 0.0
            left_s = max(budget.left_s - self._check_s, 1e-6)
            longest = length if left_s >= 1.5 * length else left_s
            while progress < 1.0 and not self._over():
                self.anneal(moves, cycle, progress)
                budget.report_progress()
                total += moves
                now = budget.clock()
                progress = self._progress(now - begin, total, longest)
                progress = max(progress, (now - begin) / left_s)  # cold by the end
                moves = fill_slice(moves, (now - begin) * moves / total)
                self._moves_a_slice = moves
                if bound_done() and self._moves_since_best > self._patience:
                    self.exhausted = True
                    return self.descend(moves)
            self.descend(moves)
            cycle += 1
            length = min(2 * length, _CYCLE_S[1])
        return None

    def _catch_up(self) -> None:
        """Continue from the incumbent if another thread has improved it."""
        if self._incumbent.value > max(self._loaded_value, self._search.value) * (1 + _BETTER):
            self._load()

    def _overload_search(self) -> OverloadSearch:
        def is_over() -> bool:
            self._budget.report_progress()
            return self._over()

        problem, seed = self._input.problem, self._input.seed
        return OverloadSearch(problem, self._mix, seed, self._budget.clock, is_over)

    def _make_rounds(self, overload: OverloadSearch) -> None:
        """Make rounds of overload search until several in a row find nothing."""
        fruitless = 0
        while fruitless < _FRUITLESS and not self._over():
            self._catch_up()
            seconds = min(_WIDE_S, _WIDE_SHARE * self._budget.left_s)
            if not overload.improve(self._search, max(seconds, _LEAST_WIDE_S)):
                fruitless += 1
                continue
            fruitless = self._moves_since_best = 0
            self._search.run(min(_MOVES_AFTER, self._moves_a_slice), self._mix, 0.0)
            if self._search.value > self._offered_value and self._check_is_due():
                self._offer()
        self.descend(min(_MOVES_AFTER, self._moves_a_slice))

    def _over(self) -> bool:
        """Return whether to end, with time reserved for the last check."""
        budget = self._budget
        return budget.is_over(self._incumbent) or budget.left_s < self._check_s

    def _progress(self, spent_s: float, total: int, length_s: float) -> float:
        """Return the progress of a cycle by time, but with enough moves to cool slowly."""
        return min(spent_s / length_s, total / (_CYCLE_MOVES * len(self._positions)))

    def anneal(self, moves: int, cycle: int, progress: float) -> None:
        """Make moves at the temperature of a cycle with this progress, 0 to 1."""
        hot = WARM[(cycle - 1) % len(WARM)] if cycle else HOT
        temperature = self._mean * hot * (COLD / hot) ** progress
        before = self._search.value
        self._search.run(moves, self._mix, temperature)
        self._moves_since_best = (
            0 if self._search.value > before else self._moves_since_best + moves
        )
        if self._search.value > max(0.0, self._offered_value * (1 + 1e-3)) and self._check_is_due():
            self._offer()

    def descend(self, moves: int) -> None:
        """Restart from the best plan and accept only moves that are not worse, for some moves."""
        self._search.restore_best()
        self._search.run(4 * moves, self._mix, 0.0)
        if self._search.value > self._offered_value:
            self._offer()

    def _check_is_due(self) -> bool:
        """Return whether checks, each as costly as a slice, took a small part of the time."""
        if self._budget.moves is not None:
            return True  # reproducible runs must not depend on the clock
        return self._budget.clock() - self._checked_at > CHECKS * self._check_s

    def _offer(self) -> None:
        before = self._budget.clock()
        results = list(self._incumbent.results)
        for position, result in zip(self._positions, self._search.plan(), strict=True):
            results[position] = result or LEFT_OUT
        self._offered_value = self._search.value
        self._incumbent.offer(results, "search")
        self._checked_at = self._budget.clock()
        self._check_s = self._checked_at - before
