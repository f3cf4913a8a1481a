"""State shared by all threads of a solve: the incumbent, the input and the budget."""

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

#: Name of CP-SAT as a source of plans and bounds.
CP_SAT = "cp-sat"

#: The result of a request that a plan leaves out, until greedy filling finds a reason.
LEFT_OUT = PlacementResult(Code.CAPACITY, "other requests are worth more together")


@dataclass(slots=True)
class Incumbent:
    """The best plan, which only improves, and the bound, which only falls.

    Attributes
    ----------
    requests, view
        The input of the solve; results have one entry per request, in order.
    results, score
        The best checked plan and its score (value, minus falls).
    bound
        Upper bound on the value of any plan.
    source, proof
        Names of the methods that found the plan and the bound.
    requested_value
        Total value of all requests, the first bound.
    must_keep
        Indexes of requests that every plan must place: plans without one of them are rejected, and
        an incomplete starting plan is replaced by any plan that places all of them (`whole`).
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
        """Score the initial plan."""
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
        """(bound - value) / bound, 0 if they meet or no plan can place all of `must_keep`."""
        if self.is_proven or self.bound < 0:
            return 0.0
        if not self.whole:
            return 1.0
        return (self.bound - self.value) / self.bound

    @property
    def is_proven(self) -> bool:
        """Whether the best plan is proven optimal."""
        return self.whole and is_proven(self.value, self.bound, self.requested_value)

    def offer(self, results: Sequence[PlacementResult], source: str) -> bool:
        """Check a plan and keep it if it is better; return whether it was kept."""
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
        """Keep a bound if it is the lowest.

        Raises
        ------
        BoundError
            If it is below the value of a checked plan.
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
        """Compare the bound with the value of a plan.

        Raises
        ------
        BoundError
            If the bound is below it.
        """
        if not is_proven(self.bound, value, self.requested_value):
            raise BoundError(
                f"the bound {self.bound!r} ({self.proof}) lies below the value {value!r} of {plan}"
            )


@dataclass(frozen=True, slots=True)
class ProofAnswer:
    """The result of a proof.

    Attributes
    ----------
    results
        One per request of the problem, None if refused; None as a whole if no plan was found.
    bound
        Upper bound on the value of any plan.
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
    """Offer a proof's bound to the incumbent, and its plan if `plan`."""
    incumbent.lower(answer.bound, source)
    if answer.results is None or not plan:
        return
    results = list(incumbent.results)
    for position, result in zip(positions, answer.results, strict=True):
        results[position] = result or LEFT_OUT
    incumbent.offer(results, source)


#: Seconds between checks of the clock, and the maximum delay of a stop.
SLICE_S = 0.05

#: A plan is checked after this many times the duration of the last check.
CHECKS = 12


@dataclass(slots=True)
class Budget:
    """Limits that end a solve.

    Attributes
    ----------
    until
        Deadline on `clock`, or None.
    moves
        Limit of search moves, used instead of time; None for no such limit.
    gap
        Relative gap at which the solve ends.
    stop
        Polled every `SLICE_S`.
    clock
        Monotonic seconds.
    report_progress
        Called every slice.
    check_s
        Approximate seconds for checking a whole plan.
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
        """Remaining seconds; infinite without a time limit."""
        return float("inf") if self.until is None else self.until - self.clock()

    def reserve(self, seconds: float) -> None:
        """Move the deadline earlier, but leave the search at least half of the remaining time."""
        if self.until is not None:
            left = max(0.0, self.until - self.clock())
            self.until -= min(seconds, left / 2)

    def is_over(self, incumbent: Incumbent) -> bool:
        """Return whether the gap, the deadline or a stop ends the solve."""
        if incumbent.gap <= self.gap or self.stop():
            return True
        return self.until is not None and self.clock() >= self.until


@dataclass(frozen=True, slots=True)
class SolveInput:
    """Input of one solve: the problem, positions of its requests, seed.

    Attributes
    ----------
    positions
        Index of each request of the problem in the incumbent's results.
    seed
        Seed of the search and of CP-SAT.
    prove
        Whether CP-SAT also works on the bound.
    fine
        Whether the bound may be evaluated on all columns, instead of only on buckets.
    """

    problem: PlanningProblem
    positions: Sequence[int]
    seed: int
    prove: bool = False
    fine: bool = True


def fill_slice(count: int, spent_s: float) -> int:
    """Return how many repetitions fill a slice if `count` of them took `spent_s`."""
    return max(1, min(100_000, int(count * min(4.0, SLICE_S / max(spent_s, 1e-4)))))
