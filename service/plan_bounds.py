"""PlanBounds: the bound of the newest Plan, computed when a call asks and kept with its version.

It never runs on the thread that plans. The Plan is held only while what is new in it is read.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

from planner.optimization.plan_bound import PlanBound, PlanReading, RequestBook, bound_of, read_plan
from planner.plan.plan import Plan


class PlanBounds:
    """Finds the bound of the newest Plan; one thread at a time, the others take what it finds.

    Parameters
    ----------
    reading
        Holds the newest Plan.
    """

    def __init__(self, reading: Callable[[], AbstractContextManager[Plan]]) -> None:
        self._reading = reading
        self._book = RequestBook()
        self._known: PlanBound | None = None
        self._lock = threading.Lock()

    def newest(self) -> PlanBound:
        """Return the bound of the Plan as it is now, with every change that was answered."""
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
