"""Greedy agents: requests one after the other, each atom by a rule of `planner.kernels`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from planner.agent import Limits
from planner.alone import answered_alone
from planner.placement import PlacementResult
from planner.profile import Batch, taking_order
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
        Strategies of `planner.kernels`, tried on a whole request one after the other.
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
        if len(requests) == 1 and _unlimited(limits):
            alone = answered_alone(requests[0], view, self.passes, early=self.early)
            if alone is not None:
                return (alone,)
        batch = self.place(requests, view, limits)
        return batch.results(requests)

    def place(self, requests: Sequence[Request], view: PlanView, limits: Limits) -> Batch:
        """Place requests and leave the answers in arrays; at least one request."""
        batch = Batch.of(requests, view)
        self.run(batch, taking_order(requests), limits)
        return batch

    def run(self, batch: Batch, order: NDArray[np.int64], limits: Limits) -> None:
        """Place `order` of a packed batch, looking at the limits now and then."""
        passes = np.array(self.passes, dtype=np.int64)
        if _unlimited(limits):
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


def _unlimited(limits: Limits) -> bool:
    return limits.time_s is None and limits.stop is None and limits.progress is None
