"""The greedy agents: requests one after the other, each atom by a rule of the kernels."""

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

#: Requests placed between two looks at the clock, `stop` and `progress`.
_STRIDE = 256


@dataclass(frozen=True, slots=True)
class GreedyAgent:
    """Places requests in the order of the batch, each by the first rule that finds it a place.

    Attributes
    ----------
    name
        The word users type.
    passes
        Strategies of `planner.agents.greedy.kernels.codes`, tried on a whole request in turn.
    early
        Place as early as possible instead of as late: the same rules in mirrored time.
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
        """Return one result a request; order taken: priority, submitted, position."""
        if not requests:
            return ()
        if len(requests) == 1 and _has_no_limits(limits):
            alone = place_single(requests[0], view, self.passes, early=self.early)
            if alone is not None:
                return (alone,)
        batch = self.place(requests, view, limits)
        return LazyResults(batch, requests)

    def place(self, requests: Sequence[Request], view: PlanView, limits: Limits) -> Batch:
        """Place requests and leave the answers in arrays; at least one request."""
        batch = Batch.of(requests, view)
        self.run(batch, taking_order(requests), limits)
        return batch

    def run(self, batch: Batch, order: NDArray[np.int64], limits: Limits) -> None:
        """Place `order` of a packed batch, looking at the limits now and then."""
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


#: Whole leases from the right; a refused request again with the compact shape first.
GREE = GreedyAgent("gree", (codes.BLOCKS, codes.COMPACT))

#: GREE from the left: everything as early as it can be.
EARLIEST = GreedyAgent("earliest", (codes.BLOCKS, codes.COMPACT), early=True)

#: The same with the compact shape first: the earliest last step on a flat profile.
EARLIEST_COMPACT = GreedyAgent("earliest-compact", (codes.COMPACT,), early=True)


#: Lowest rectangle in intervals by the square root of work. A refused workflow is not tried again
#: as GREE does: that accepts a tenth more of them, and triples their falls. Requests
#: with largest gaps are, because leapfrog needs the latest starts.
GREE_L = GreedyAgent("gree-l", (codes.LOWEST, codes.GAPS))


#: The free rectangle that leaves most; ties go to the latest.
ALIGNED = GreedyAgent("aligned", (codes.HEADROOM, codes.COMPACT))

#: The same rectangle or nothing. Nothing is squeezed in, which leaves capacity for more requests.
HEADROOM_ALONE = GreedyAgent("headroom", (codes.HEADROOM_ONLY,))

#: The highest level of headroom under which the work still fits: admits the most work.
LEVELLED = GreedyAgent("level", (codes.LEVEL, codes.COMPACT))
