"""TableSolver: computes dispatch tables in the background, because a table takes seconds."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from dispatch.tables import LiveTables, TableJob
from planner.plan.plan import Plan

#: How long a closing dispatcher waits for a table.
_LONGEST_S: Final = 10.0

logger = logging.getLogger("agenda.service")


class TableSolver:
    """Computes the tables of one dispatcher, one at a time, in threads of their own.

    Parameters
    ----------
    beside
        Whether tables are computed in the background; False waits for each due table, as manual
        ticks need it.
    set_load
        Called with the load of every new table: arrival rate over the rate that it sustains.

    Attributes
    ----------
    tables
        Tables for the follower; the last table stays until the next is ready.
    """

    def __init__(self, *, beside: bool, set_load: Callable[[float], None]) -> None:
        self.tables = LiveTables()
        self._beside = beside
        self._set_load = set_load
        self._thread: threading.Thread | None = None

    def follow(self, plan: Plan, now_ms: int) -> None:
        """Start to compute a table if one is due; the Plan is only read before this returns."""
        if self._thread is not None and self._thread.is_alive():
            return
        job = self.tables.due(plan, now_ms)
        if job is None:
            return
        self._thread = threading.Thread(
            target=self._solve, args=(job,), name="agenda-tables", daemon=True
        )
        self._thread.start()

    def settle(self) -> None:
        """Wait for the current table, unless tables are computed in the background."""
        if not self._beside and self._thread is not None:
            self._thread.join()

    def close(self) -> None:
        """Wait for the current table, but not long."""
        if self._thread is not None:
            self._thread.join(_LONGEST_S)

    def _solve(self, job: TableJob) -> None:
        self.tables.solve(job)
        load = self.tables.load
        self._set_load(0.0 if load is None else load)
        if self.tables.problem:
            logger.info("no dispatch table, so best fit: %s", self.tables.problem)
        elif load is not None and load > 1:
            logger.warning("future work is %.2f times the sustainable rate of the machines", load)
