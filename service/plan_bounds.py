"""PlanBounds: the bound of the newest Plan, computed on request and cached with its version.

It never runs on the planner's thread. The Plan is locked only while its changes are read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

from planner.optimization.plan_bound import PlanBound, PlanReading, RequestBook, bound_of, read_plan
from planner.plan.plan import Plan


class PlanBounds:
    """Computes the bound of the newest Plan, in one thread at a time; others use its result.

    Parameters
    ----------
    reading
        Locks the newest Plan.
    """

    def __init__(self, reading: Callable[[], AbstractContextManager[Plan]]) -> None:
        self._reading = reading
        self._book = RequestBook()
        self._known: PlanBound | None = None
        self._lock = threading.Lock()

    def newest(self) -> PlanBound:
        """Return the bound of the current Plan, including every answered change."""
        with self._reading() as plan:
            asked = plan.version
        known = self._known
        if known is not None and known.version >= asked:
            return known
        with self._lock:
            if self._known is None or self._known.version < asked:
                self._known = bound_of(self._read(), self._book)
            return self._known

    def _read(self) -> PlanReading:
        while True:
            with self._reading() as plan:
                found = read_plan(plan, self._book)
            if found is not None:
                return found
