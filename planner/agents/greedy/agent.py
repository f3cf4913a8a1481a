"""The greedy agents place requests one by one, each atom by a strategy of the kernels."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from planner.agent import Limits
from planner.agents.greedy.batch import Batch, taking_order
from planner.agents.greedy.kernels import codes
from planner.agents.greedy.results import LazyResults
from planner.agents.greedy.single import place_single
from planner.placement import PlacementResult
from planner.request import Request
from planner.view import PlanView

#: Requests placed between two checks of the clock, `stop` and `progress`.
_STRIDE = 256


@dataclass(frozen=True, slots=True)
class GreedyAgent:
    """Places requests in order, each by the first strategy that finds a place.

    Attributes
    ----------
    name
        The name that users type.
    passes
        Strategies of `planner.agents.greedy.kernels.codes`, tried in turn on a whole request.
    early
        Place as early as possible instead of as late as possible: the same rules in mirrored time.
    clock
        Monotonic seconds, for `Limits.time_s`.
    """

    name: str
    passes: tuple[int, ...]
    early: bool = False
    clock: Callable[[], float] = field(default=time.monotonic, compare=False)

    def plan(
        self, requests: Sequence[Request], view: PlanView, limits: Limits
    ) -> Sequence[PlacementResult]:
        """Return one result per request; they are placed by priority, submission time, position."""
        if not requests:
            return ()
        if len(requests) == 1 and _has_no_limits(limits):
            alone = place_single(requests[0], view, self.passes, early=self.early)
            if alone is not None:
                return (alone,)
        batch = self.place(requests, view, limits)
        return LazyResults(batch, requests)

    def place(self, requests: Sequence[Request], view: PlanView, limits: Limits) -> Batch:
        """Place at least one request; the results stay in arrays."""
        batch = Batch.of(requests, view)
        self.run(batch, taking_order(requests), limits)
        return batch

    def run(self, batch: Batch, order: NDArray[np.int64], limits: Limits) -> None:
        """Place the requests in `order` of a packed batch, checking the limits periodically."""
        passes = np.array(self.passes, dtype=np.int64)
        if _has_no_limits(limits):
            batch.place(order, passes, self.early)
            return
        until = None if limits.time_s is None else self.clock() + limits.time_s
        for begin in range(0, len(order), _STRIDE):
            if limits.stop is not None and limits.stop():
                return
            if until is not None and self.clock() >= until:
                return
            batch.place(order[begin : begin + _STRIDE], passes, self.early)
            if limits.progress is not None:
                limits.progress(min(begin + _STRIDE, len(order)), len(order))


def _has_no_limits(limits: Limits) -> bool:
    return limits.time_s is None and limits.stop is None and limits.progress is None


#: Whole leases from the right; retries a refused request with the compact shape first.
GREE = GreedyAgent("gree", (codes.BLOCKS, codes.COMPACT))

#: GREE from the left: everything as early as possible.
EARLIEST = GreedyAgent("earliest", (codes.BLOCKS, codes.COMPACT), early=True)

#: EARLIEST with the compact shape first: minimal completion time on a flat profile.
EARLIEST_COMPACT = GreedyAgent("earliest-compact", (codes.COMPACT,), early=True)


#: Lowest rectangle in intervals by the square root of work. Does not retry a refused workflow as
#: GREE does, which would accept a tenth more workflows and triple their falls; but it retries
#: requests with maximum gaps, because leapfrog needs the latest starts.
GREE_L = GreedyAgent("gree-l", (codes.LOWEST, codes.GAPS))


#: The free rectangle that leaves the most headroom; ties go to the latest.
ALIGNED = GreedyAgent("aligned", (codes.HEADROOM, codes.COMPACT))

#: That rectangle or a refusal: squeezing nothing in leaves capacity for more requests.
HEADROOM_ALONE = GreedyAgent("headroom", (codes.HEADROOM_ONLY,))

#: The highest level of headroom at which the work still fits: admits the most work.
LEVELLED = GreedyAgent("level", (codes.LEVEL, codes.COMPACT))
