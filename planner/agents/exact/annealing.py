"""One search for plans beside others: annealing in cycles, and what it finds handed to the race."""

from __future__ import annotations

from collections.abc import Callable

from planner.agents.exact.budget import CHECKS, Budget, SolveInput, scaled
from planner.agents.exact.incumbent import LEFT_OUT, Incumbent
from planner.agents.exact.ruin_recreate import RuinRecreate

#: Temperatures at the start of the first cycle, and of all others in turn, and at the end of each,
#: in mean values of a request. The hot start is for sets in which few large requests fit: without
#: it a narrow one ended two per cent lower (docs/exact.md, section 3).
HOT = 0.7
WARM = (0.25, 0.08)
COLD = 0.012

#: Requests taken out in one move at most: for single atoms, and where requests are workflows.
MOST_OUT = (10, 18)

#: Part of its value by which a plan of others must be better to go on from.
_BETTER = 1e-9

_CYCLE_S = (1.0, 24.0)
_CYCLE_MOVES = 30  # of a cycle at least, a request
_EXHAUSTED = 3000  # moves a pair of requests after which a tiny set has nothing left to find


class Annealer:
    """A search that starts from the plan of the race and hands back what is better and checked.

    Attributes
    ----------
    exhausted
        Whether it ended because it had nothing more to find.
    """

    def __init__(self, race: Incumbent, field: SolveInput, effort: Budget) -> None:
        self._race, self._effort = race, effort
        problem, self._positions = field.problem, field.positions
        self._hunt = RuinRecreate(problem, field.seed)
        requests = len(self._positions)
        self._mean = problem.total / requests
        wide = len(problem.forest.vertices) > 2 * requests
        self._most = min(requests, MOST_OUT[1] if wide else MOST_OUT[0])
        self._patience = _EXHAUSTED * requests * requests
        self._checked_at, self._check_s = effort.clock(), effort.check_s
        self.exhausted = False
        self._since = 0  # moves since the search found a better plan
        self._loaded = 0.0
        self._load()

    def _load(self) -> None:
        """Go on from the best plan of all."""
        self._loaded = self._race.value
        self._hunt.load([self._race.results[position] for position in self._positions])
        self._offered = self._hunt.value

    def find_plans(self, bound_done: Callable[[], bool], cycle: int = 0) -> None:
        """Anneal in cycles, each twice as long as the one before, from the best plan of all.

        Parameters
        ----------
        bound_done
            Whether nobody lowers the bound any more: then a tiny set is left when it is exhausted.
        cycle
            Number of the first cycle: 0 begins at `HOT`, others at `WARM` in turn.
        """
        effort, length, moves = self._effort, _CYCLE_S[0], 20
        while not self._over():
            if self._race.value > max(self._loaded, self._hunt.value) * (1 + _BETTER):
                self._load()
            begin, made, progress = effort.clock(), 0, 0.0
            left_s = max(effort.left_s - self._check_s, 1e-6)
            longest = length if left_s >= 1.5 * length else left_s
            while progress < 1.0 and not self._over():
                self.moves_at(moves, cycle, progress)
                effort.tell()
                made += moves
                now = effort.clock()
                progress = self._progress(now - begin, made, longest)
                progress = max(progress, (now - begin) / left_s)  # cold by the end, however few
                moves = scaled(moves, (now - begin) * moves / made)
                if bound_done() and self._since > self._patience:
                    self.exhausted = True
                    return self.descend(moves)
            self.descend(moves)
            cycle += 1
            length = min(2 * length, _CYCLE_S[1])
        return None

    def _over(self) -> bool:
        """Return whether to end: the last check takes its time too."""
        effort = self._effort
        return effort.over(self._race) or effort.left_s < self._check_s

    def _progress(self, spent_s: float, made: int, length_s: float) -> float:
        """Return how far a cycle is: it has its time, and moves enough to cool slowly."""
        return min(spent_s / length_s, made / (_CYCLE_MOVES * len(self._positions)))

    def moves_at(self, moves: int, cycle: int, progress: float) -> None:
        """Make moves at the temperature of a cycle that is so far, 0 to 1."""
        hot = WARM[(cycle - 1) % len(WARM)] if cycle else HOT
        temperature = self._mean * hot * (COLD / hot) ** progress
        before = self._hunt.value
        self._hunt.run(moves, self._most, temperature)
        self._since = 0 if self._hunt.value > before else self._since + moves
        if self._hunt.value > max(0.0, self._offered * (1 + 1e-3)) and self._worth_a_check():
            self._offer()

    def descend(self, moves: int) -> None:
        """Go back to the best plan and take only what is not worse, for a moment."""
        self._hunt.back_to_best()
        self._hunt.run(4 * moves, self._most, 0.0)
        if self._hunt.value > self._offered:
            self._offer()

    def _worth_a_check(self) -> bool:
        """Return whether checks take little of the time so far: one can cost as much as a slice."""
        if self._effort.moves is not None:
            return True  # the clock must not decide what repeats
        return self._effort.clock() - self._checked_at > CHECKS * self._check_s

    def _offer(self) -> None:
        before = self._effort.clock()
        results = list(self._race.results)
        for position, result in zip(self._positions, self._hunt.plan(), strict=True):
            results[position] = result or LEFT_OUT
        self._offered = self._hunt.value
        self._race.offer(results, "search")
        self._checked_at = self._effort.clock()
        self._check_s = self._checked_at - before
