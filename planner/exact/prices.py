"""Who lowers the bound when: steps from two starts, then column generation, then finer steps.

Steps along a subgradient bring a thousand single atoms close within a second. On workflows they do
not leave the bound of all that could be placed alone; column generation does, in a dozen rounds,
and on mixes it costs a tenth of the steps. Its duals are not exact where two relaxations of an atom
meet (docs/exact.md), so finer steps end the search.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lp.limits import Monitor
from planner.exact.bound import Ascent, starts
from planner.exact.columns import Generation
from planner.exact.problem import F64, Problem

#: Evaluations of both starts before column generation has its turn.
LOOK = 20

#: Buckets of the master programme, as parts of the horizon, coarse to fine.
PARTS = (30, 120)

#: A master is left when it can lower the bound by less than this part of everything.
NEAR = 3e-4

#: Requests above which the master programme would cost more than it gains.
MOST_REQUESTS = 400

_PATIENCE = (30, 60)


@dataclass(slots=True)
class Prices:
    """The bound of one problem, lowered slice by slice.

    Attributes
    ----------
    stop
        Ends a master programme that is being solved.
    """

    problem: Problem
    stop: Callable[[], bool] = field(default=lambda: False)
    proof: str = "prices"
    over: bool = False
    _ascents: list[Ascent] = field(init=False)
    _generation: Generation | None = None
    _buckets: list[int] = field(init=False)
    _patience: list[int] = field(default_factory=lambda: list(_PATIENCE))
    _best: F64 | None = None
    _bound: float = float("inf")
    _since: int = 0

    def __post_init__(self) -> None:
        """Lay out both starts."""
        self._ascents = list(starts(self.problem))
        columns = self.problem.room.free.shape[1]
        buckets = sorted({max(1, columns // part) for part in PARTS}, reverse=True)
        self._buckets = buckets if len(self.problem.requests) <= MOST_REQUESTS else []

    @property
    def bound(self) -> float:
        """Least bound so far."""
        return min(self.problem.total, self._bound)

    @property
    def best(self) -> F64 | None:
        """Prices of the least bound, once there are any."""
        return self._best

    @property
    def settled(self) -> bool:
        """Whether only small gains are left: column generation has had its turn."""
        return not self._buckets and self._generation is None

    def advance(self, rounds: int, target: float) -> None:
        """Spend about `rounds` evaluations on whoever is next.

        Parameters
        ----------
        target
            Value of a plan in hand; no bound can fall below it.
        """
        if self._generation is not None:
            self._generate()
        elif any(not one.over for one in self._ascents):
            self._step(rounds, target)
        elif self._patience and self._best is not None:
            patience = self._patience.pop(0)
            self._ascents = [Ascent(self.problem, self._best.copy(), (1,), patience)]
        else:
            self.over = True

    def _step(self, rounds: int, target: float) -> None:
        for one in self._ascents:
            if not one.over and not self.stop():
                one.run(rounds, target)
                self._note(one.bound, one.best, "prices")
                self._since += rounds
        done = all(one.over for one in self._ascents)
        if self._buckets and (done or self._since >= LOOK):
            self._next_bucket()

    def _next_bucket(self) -> None:
        assert self._best is not None
        monitor = Monitor(should_stop=self.stop)
        bucket = self._buckets.pop(0)
        self._generation = Generation(self.problem, self._best, bucket, monitor)

    def _generate(self) -> None:
        generation = self._generation
        assert generation is not None
        generation.round(NEAR * self.problem.total)
        self._note(generation.bound, generation.best, "columns")
        if not generation.over:
            return
        self._generation = None
        if self._buckets:
            self._next_bucket()
        else:
            self._ascents = []

    def _note(self, bound: float, prices: F64, proof: str) -> None:
        if bound < self._bound:
            self._bound, self._best, self.proof = bound, prices, proof
