"""The incumbent, and the input and budget of one solve: what all threads share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from planner.agent import BoundError, is_proven
from planner.agents.check import check_plan
from planner.agents.exact.problem import PlanningProblem
from planner.placement import Code, PlacementResult
from planner.request import Request
from planner.value import score_of
from planner.view import PlanView

#: What plans and bounds of CP-SAT are called.
CP_SAT = "cp-sat"

#: What a plan says of a request that it leaves out, until greedy filling says more.
LEFT_OUT = PlacementResult(Code.CAPACITY, "other requests are worth more together")


@dataclass(slots=True)
class Incumbent:
    """Plans that only get better and a bound that only falls.

    Attributes
    ----------
    requests, view
        What is planned; results are one a request, in order.
    results, score
        The best checked plan and its (value, minus falls).
    bound
        The most that any plan can be worth.
    source, proof
        What found the plan, and what the bound.
    requested_value
        Value of everything, the first bound.
    must_keep
        Indexes of requests that may not be lost: a plan without one of them is not taken, and one
        to start from counts for nothing until a plan holds them all (`whole`).
    on_change
        Called after every better plan or bound, in the thread that found it.
    """

    requests: Sequence[Request]
    view: PlanView
    results: list[PlacementResult]
    bound: float
    source: str
    proof: str = "everything accepted"
    score: tuple[float, int] = (0.0, 0)
    requested_value: float = 0.0
    must_keep: frozenset[int] = frozenset()
    whole: bool = field(init=False)
    on_change: Callable[[Incumbent], None] = field(default=lambda incumbent: None)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        """Score the plan it starts from."""
        self.requested_value = self.bound
        self.whole = self._holds_all(self.results)
        if self.whole:
            self.score = score_of(self.requests, self.results, self.view.reference)

    def _holds_all(self, results: Sequence[PlacementResult]) -> bool:
        return all(results[index].placed for index in self.must_keep)

    @property
    def value(self) -> float:
        """Value of the best plan."""
        return self.score[0]

    @property
    def gap(self) -> float:
        """(bound - value) / bound, 0 when they meet or when no plan can hold all that it must."""
        if self.is_proven or self.bound < 0:
            return 0.0
        if not self.whole:
            return 1.0
        return (self.bound - self.value) / self.bound

    @property
    def is_proven(self) -> bool:
        """Whether no plan is worth more than the best."""
        return self.whole and is_proven(self.value, self.bound, self.requested_value)

    def offer(self, results: Sequence[PlacementResult], source: str) -> bool:
        """Keep a plan if what passes the check is better than the best; return whether it was."""
        kept = check_plan(self.requests, results, self.view)
        if not self._holds_all(kept):
            return False
        score = score_of(self.requests, kept, self.view.reference)
        with self._lock:
            if self.whole and score <= self.score:
                return False  # another thread was quicker
            self.results, self.score, self.source, self.whole = kept, score, source, True
            self._compare()
        self.on_change(self)
        return True

    def lower(self, bound: float, proof: str) -> None:
        """Keep a bound if it is the least.

        Raises
        ------
        BoundError
            If a checked plan is worth more.
        """
        with self._lock:
            if bound >= self.bound:
                return
            self.bound, self.proof = bound, proof
            self._compare()
        self.on_change(self)

    def _compare(self) -> None:
        if self.whole:
            self.hold_against(self.value, f"a checked plan ({self.source})")

    def hold_against(self, value: float, plan: str) -> None:
        """Hold the bound against the value of a plan.

        Raises
        ------
        BoundError
            If the plan is worth more.
        """
        if not is_proven(self.bound, value, self.requested_value):
            raise BoundError(
                f"the bound {self.bound!r} ({self.proof}) lies below the value {value!r} of {plan}"
            )


@dataclass(frozen=True, slots=True)
class ProofAnswer:
    """What a proof has come to.

    Attributes
    ----------
    results
        One a request of the problem, None where refused; None when it found no plan.
    bound
        Most that any plan can be worth.
    """

    results: list[PlacementResult | None] | None
    bound: float


def report_answer(
    incumbent: Incumbent,
    positions: Sequence[int],
    answer: ProofAnswer,
    source: str = CP_SAT,
    *,
    plan: bool = True,
) -> None:
    """Offer a proof's bound to the incumbent, and its plan where `plan`."""
    incumbent.lower(answer.bound, source)
    if answer.results is None or not plan:
        return
    results = list(incumbent.results)
    for position, result in zip(positions, answer.results, strict=True):
        results[position] = result or LEFT_OUT
    incumbent.offer(results, source)


#: Seconds between looks at the clock, and the longest that a stop can go unnoticed.
SLICE_S = 0.05

#: A plan is checked when this many times the last check's time has passed.
CHECKS = 12


@dataclass(slots=True)
class Budget:
    """When to stop.

    Attributes
    ----------
    until
        Instant of `clock`, or None.
    moves
        Moves of the search instead of time; None for no such limit.
    gap
        Relative gap at which to end.
    stop
        Asked every `SLICE_S`.
    clock
        Monotonic seconds.
    report_progress
        Called every slice.
    check_s
        About the seconds of one check of a whole plan.
    """

    until: float | None
    moves: int | None
    gap: float
    stop: Callable[[], bool]
    clock: Callable[[], float]
    report_progress: Callable[[], None]
    check_s: float = 0.0

    @property
    def left_s(self) -> float:
        """Seconds left; infinite without a limit of time."""
        return float("inf") if self.until is None else self.until - self.clock()

    def reserve(self, seconds: float) -> None:
        """End so much earlier, but leave the search at least half of the time that is left."""
        if self.until is not None:
            left = max(0.0, self.until - self.clock())
            self.until -= min(seconds, left / 2)

    def is_over(self, incumbent: Incumbent) -> bool:
        """Return whether the gap, the time or a stop ends the solve."""
        if incumbent.gap <= self.gap or self.stop():
            return True
        return self.until is not None and self.clock() >= self.until


@dataclass(frozen=True, slots=True)
class SolveInput:
    """Input of one solve: the problem, positions of its requests, seed.

    Attributes
    ----------
    positions
        Index among the results of the incumbent, of each request of the problem.
    seed
        Of the search, and of CP-SAT.
    prove
        Whether CP-SAT works on the bound too.
    fine
        Whether the bound may be evaluated on all columns, or on buckets of them only.
    """

    problem: PlanningProblem
    positions: Sequence[int]
    seed: int
    prove: bool = False
    fine: bool = True


def fill_slice(count: int, spent_s: float) -> int:
    """Return how often to do what took `spent_s` for `count` times, to fill a slice."""
    return max(1, min(100_000, int(count * min(4.0, SLICE_S / max(spent_s, 1e-4)))))
