"""TableSolver: makes dispatch tables alongside the ticks, since a table takes seconds to solve."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

from dispatch.tables.live_tables import LiveTables, TableJob
from planner.plan.plan import Plan

#: How long a closing dispatcher waits for a table.
_LONGEST_S: Final = 10.0

logger = logging.getLogger("agenda.service")


class TableSolver:
    """Makes the tables of one dispatcher, one at a time, in threads of their own.

    Parameters
    ----------
    beside
        Whether tables are made alongside the ticks; False waits for each table where it is due, as
        ticks by hand need it.
    set_load
        Called with the load of every new table: arrivals over those that it sustains.

    Attributes
    ----------
    tables
        What the follower reads; the last table stays until the next is made.
    """

    def __init__(self, *, beside: bool, set_load: Callable[[float], None]) -> None:
        self.tables = LiveTables()
        self._beside = beside
        self._set_load = set_load
        self._thread: threading.Thread | None = None

    def follow(self, plan: Plan, now_ms: int) -> None:
        """Begin to make a table where one is due; of the Plan it reads before it returns."""
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
        """Wait for the table that is being made, where that is wanted."""
        if not self._beside and self._thread is not None:
            self._thread.join()

    def close(self) -> None:
        """Wait for the table that is being made; it can be left where that takes long."""
        if self._thread is not None:
            self._thread.join(_LONGEST_S)

    def _solve(self, job: TableJob) -> None:
        self.tables.solve(job)
        load = self.tables.load
        self._set_load(0.0 if load is None else load)
        if self.tables.problem:
            logger.info("no dispatch table, so best fit: %s", self.tables.problem)
        elif load is not None and load > 1:
            logger.warning("the work to come is %.2f times what the machines sustain", load)
