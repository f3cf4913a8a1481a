"""Plans and prices side by side until they are close enough, time is over, or someone says stop.

A thread for each: the compiled loops of both let go of the interpreter. Where CP-SAT can prove more
than prices (`planner.exact.router`) it has a thread too, and once its bound is the better, prices
are left. With a work limit all take turns in one thread, so that equal calls give equal answers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from planner.exact.incumbent import Race
from planner.exact.prices import Prices
from planner.exact.problem import F64, Problem
from planner.exact.search import Hunt
from planner.exact.sweep import Sweep, suits_sweep
from planner.formulations.cp import CpAnswer, CpLimits, solve_rigid
from planner.placement import Code, PlacementResult

#: Seconds between looks at the clock, and the longest that a stop can go unnoticed.
SLICE_S = 0.05

#: Temperatures of alternate cycles at their start, and of all at their end, in mean values of a
#: request.
HOT = (0.7, 0.25)
COLD = 0.02

#: Requests taken out in one move at most: for single atoms, and where requests are workflows.
MOST_OUT = (10, 18)

#: What plans and bounds of CP-SAT are called.
CP_SAT = "cp-sat"

_CYCLE_S = (1.0, 24.0)
_CHECKS = 12  # a plan is checked when so many times the last check's time has passed
_CYCLE_MOVES = 30  # of a cycle at least, a request
_TURNS = 20  # with a work limit: turns that plans and prices take
_MOVES_AN_EVALUATION = 40
_MOST_ROUNDS = 20  # evaluations of one start before the other has its turn
_EXHAUSTED = 3000  # moves a pair of requests after which a tiny set has nothing left to find


@dataclass(slots=True)
class Effort:
    """When to stop.

    Attributes
    ----------
    until
        Instant of `clock`, or None.
    moves
        Moves of the search instead of time; None for no such limit.
    gap
        Close enough.
    stop
        Asked every `SLICE_S`.
    clock
        Monotonic seconds.
    tell
        Called every slice.
    """

    until: float | None
    moves: int | None
    gap: float
    stop: Callable[[], bool]
    clock: Callable[[], float]
    tell: Callable[[], None]

    def keep(self, seconds: float) -> None:
        """End so much earlier, but leave the search half of what it has."""
        if self.until is not None:
            left = max(0.0, self.until - self.clock())
            self.until -= min(seconds, left / 2)

    def over(self, race: Race) -> bool:
        """Return whether to end."""
        if race.gap <= self.gap or self.stop():
            return True
        return self.until is not None and self.clock() >= self.until


def hear(
    race: Race,
    positions: Sequence[int],
    answer: CpAnswer,
    source: str = CP_SAT,
    *,
    plan: bool = True,
) -> None:
    """Take the bound of an answer, and its plan where `plan`."""
    race.lower(answer.bound, source)
    if answer.results is None or not plan:
        return
    results = list(race.results)
    for position, result in zip(positions, answer.results, strict=True):
        results[position] = result or LEFT_OUT
    race.offer(results, source)


@dataclass(frozen=True, slots=True)
class Field:
    """What is pursued.

    Attributes
    ----------
    positions
        Place in the race of each request of the problem.
    seed
        Of the search, and of CP-SAT.
    prove
        Whether CP-SAT works on the bound too.
    """

    problem: Problem
    positions: Sequence[int]
    seed: int
    prove: bool = False


def pursue(race: Race, field: Field, effort: Effort) -> None:
    """Improve `race` until the effort is over."""
    chase = _Chase(race, field, effort)
    if effort.moves is not None:
        chase.take_turns(effort.moves)
        return
    ended = threading.Event()
    with ThreadPoolExecutor(2, thread_name_prefix="bound") as pool:
        others = [pool.submit(chase.lower_bound, ended)]
        if field.prove:
            others.append(pool.submit(chase.prove, ended))
        try:
            chase.find_plans(lambda: all(one.done() for one in others))
        finally:
            ended.set()
        for one in others:
            one.result()


class _Chase:
    """One pursuit: a search for plans, and ascents of prices."""

    def __init__(self, race: Race, field: Field, effort: Effort) -> None:
        self._race, self._field, self._effort = race, field, effort
        problem, positions = field.problem, field.positions
        self._problem, self._positions = problem, positions
        self._hunt = Hunt(problem, field.seed)
        self._hunt.load([race.results[position] for position in positions])
        requests = len(positions)
        self._mean = problem.total / requests
        wide = len(problem.forest.vertices) > 2 * requests
        self._most = min(requests, MOST_OUT[1] if wide else MOST_OUT[0])
        self._patience = _EXHAUSTED * requests * requests
        self._offered = self._hunt.value
        self._checked_at = self._check_s = 0.0
        self._since = 0  # moves since the search found a better plan

    # ---- plans ----

    def find_plans(self, bound_done: Callable[[], bool]) -> None:
        """Anneal in cycles, each twice as long as the one before."""
        effort, length, moves, cycle = self._effort, _CYCLE_S[0], 20, 0
        while not effort.over(self._race):
            begin, made, progress = effort.clock(), 0, 0.0
            last = effort.until is not None and effort.until - begin < 1.5 * length
            while progress < 1.0 and not effort.over(self._race):
                self._moves(moves, cycle, progress)
                effort.tell()
                made += moves
                now = effort.clock()
                progress = self._progress(now - begin, made, length)
                if last and effort.until is not None:
                    progress = (now - begin) / max(effort.until - begin, 1e-6)
                moves = _scaled(moves, (now - begin) * moves / made)
                if bound_done() and self._since > self._patience:
                    return self._descend(moves)
            self._descend(moves)
            cycle += 1
            length = min(2 * length, _CYCLE_S[1])
        return None

    def _progress(self, spent_s: float, made: int, length_s: float) -> float:
        """Return how far a cycle is: it has its time, and moves enough to cool slowly."""
        return min(spent_s / length_s, made / (_CYCLE_MOVES * len(self._positions)))

    def _moves(self, moves: int, cycle: int, progress: float) -> None:
        hot = HOT[cycle % len(HOT)]
        temperature = self._mean * hot * (COLD / hot) ** progress
        before = self._hunt.value
        self._hunt.run(moves, self._most, temperature)
        self._since = 0 if self._hunt.value > before else self._since + moves
        if self._hunt.value > max(0.0, self._offered * (1 + 1e-3)) and self._worth_a_check():
            self._offer()

    def _descend(self, moves: int) -> None:
        """Go back to the best plan and take only what is not worse, for a moment."""
        self._hunt.back_to_best()
        self._hunt.run(4 * moves, self._most, 0.0)
        if self._hunt.value > self._offered:
            self._offer()

    def _worth_a_check(self) -> bool:
        """Return whether checks take little of the time so far: one can cost as much as a slice."""
        if self._effort.moves is not None:
            return True  # the clock must not decide what repeats
        return self._effort.clock() - self._checked_at > _CHECKS * self._check_s

    def _offer(self) -> None:
        before = self._effort.clock()
        results = list(self._race.results)
        for position, result in zip(self._positions, self._hunt.plan(), strict=True):
            results[position] = result or LEFT_OUT
        self._offered = self._hunt.value
        self._race.offer(results, "search")
        self._checked_at = self._effort.clock()
        self._check_s = self._checked_at - before

    # ---- prices ----

    def lower_bound(self, ended: threading.Event) -> None:
        """Lower the bound until told to end or nothing more can be gained."""
        prices = Prices(self._problem, ended.is_set)
        sweeps = self._field.prove and suits_sweep(self._problem)
        rounds = 1
        while not (ended.is_set() or prices.over):
            if prices.settled and (sweeps or self._race.proof == CP_SAT):
                break
            before = self._effort.clock()
            prices.advance(rounds, self._race.value)
            if not ended.is_set():
                self._race.lower(prices.bound, prices.proof)
            rounds = min(_MOST_ROUNDS, _scaled(rounds, self._effort.clock() - before))
        if sweeps and prices.best is not None:
            self.sweep(prices.best, ended)

    def prove(self, ended: threading.Event) -> None:
        """Let CP-SAT prove what it can until told to end."""
        effort = self._effort
        checked_at = check_s = 0.0

        def tell(answer: CpAnswer) -> None:
            nonlocal checked_at, check_s
            before = effort.clock()
            worth_it = before - checked_at > _CHECKS * check_s
            hear(self._race, self._positions, answer, plan=worth_it)
            if worth_it:
                checked_at = effort.clock()
                check_s = checked_at - before

        assert effort.until is not None
        left_s = effort.until - effort.clock()
        hint = [self._race.results[position] for position in self._positions]
        limits = CpLimits(left_s, self._field.seed, stop=ended.is_set, tell=tell)
        hear(self._race, self._positions, solve_rigid(self._problem, hint, limits))

    def sweep(self, prices: F64, ended: threading.Event) -> None:
        """Sweep over time where that may prove the optimum."""
        answer = Sweep(self._problem, prices).run(lambda: self._race.value, ended.is_set)
        if answer is not None:
            hear(self._race, self._positions, answer, "sweep")

    # ---- both in turn ----

    def take_turns(self, moves: int) -> None:
        """Spend `moves` in equal parts, prices having theirs after each."""
        prices = Prices(self._problem)
        part = max(1, moves // _TURNS)
        for turn in range(-(-moves // part)):
            if self._effort.over(self._race):
                return
            self._moves(min(part, moves - turn * part), 0, turn / _TURNS)
            prices.advance(max(1, part // _MOVES_AN_EVALUATION), self._race.value)
            self._race.lower(prices.bound, prices.proof)
            self._effort.tell()
        self._descend(part)


def _scaled(count: int, spent_s: float) -> int:
    """Return how often to do what took `spent_s` for `count` times, to fill a slice."""
    return max(1, min(100_000, int(count * min(4.0, SLICE_S / max(spent_s, 1e-4)))))


#: What a plan says of a request that it leaves out, until greedy filling says more.
LEFT_OUT = PlacementResult(Code.CAPACITY, "other requests are worth more together")
