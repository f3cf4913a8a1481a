"""ScheduleThread: starts the scheduled optimisations of the cluster file, and applies small ones.

It is active only in the process that leads the dispatch. The id of an optimisation contains its
schedule and due time, so that no other server and no restart starts it twice.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Final

import msgspec

from planner.cluster.optimization_schedule import OptimizationSchedule
from planner.plan.plan import Plan
from service.access.user import SERVER
from service.clock import Clock, instant_of
from service.jobs.job import OptimizationJob
from service.jobs.runner import Runner
from service.problems import ApiProblemError
from service.response import Response
from service.store import AuditRow, OptimizationRow, TooManyError
from service.store.engine import UNAVAILABLE

logger = logging.getLogger("agenda.optimizing")

#: Seconds between two checks.
_LOOK_S: Final = 5.0

#: Largest delay of a start, ms: after that it is skipped until it is due again.
LATE_MS: Final = 3_600_000

#: The state in which an optimisation is judged.
_FINISHED: Final = "finished"


class ScheduleThread:
    """Checks the schedules of the cluster while this process leads.

    Parameters
    ----------
    runner
        Starts optimisations.
    reading
        Locks the newest Plan.
    plan_ms
        Converts Unix ms to ms from the origin of the Plan.
    apply
        Applies the result of a row.
    leads
        Returns whether this process leads.
    """

    def __init__(
        self,
        runner: Runner,
        reading: Callable[[], AbstractContextManager[Plan]],
        clock: Clock,
        plan_ms: Callable[[int], int],
        apply: Callable[[OptimizationRow], Response],
        leads: Callable[[], bool],
    ) -> None:
        self._runner = runner
        self._reading = reading
        self._clock = clock
        self._plan_ms = plan_ms
        self._apply = apply
        self._leads = leads
        #: Optimisations started here: a deleted one is not started again.
        self._begun: set[str] = set()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="agenda-schedule", daemon=True)

    def start(self) -> None:
        """Start to check schedules, in a thread of its own."""
        self._thread.start()

    def close(self) -> None:
        """Stop checking; running optimisations belong to the runner."""
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._closing.wait(_LOOK_S):
            try:
                if self._leads():
                    self.look()
            except (ApiProblemError, *UNAVAILABLE):
                logger.warning("scheduled optimisations wait for the database", exc_info=True)
            except Exception:
                logger.exception("scheduled optimisations could not be checked")

    def look(self) -> None:
        """Start due optimisations, and judge finished ones."""
        with self._reading() as plan:
            schedules = plan.cluster.optimizations
        now_ms = self._clock.now_ms()
        for schedule in schedules:
            due_ms = schedule.last_ms(now_ms)
            id_ = f"p-{schedule.name}-{instant_of(due_ms):%Y%m%dT%H%MZ}"
            row = self._runner.rows.get(id_)
            if row is None:
                if now_ms - due_ms <= LATE_MS and id_ not in self._begun:
                    self._begin(id_, schedule, now_ms)
            elif row.state == _FINISHED and not row.reason and schedule.apply_below is not None:
                self._judge(row, schedule.apply_below)

    def _begin(self, id_: str, schedule: OptimizationSchedule, now_ms: int) -> None:
        with self._reading() as plan:
            grid = plan.grid
        free_ms = self._plan_ms(now_ms) + schedule.time_limit_ms + schedule.frozen_ms
        frozen = grid.ceil(max(0, free_ms))
        if frozen >= grid.horizon:
            self._begun.add(id_)
            logger.warning("optimisation %s is skipped: it would end past the horizon", id_)
            return
        asked = OptimizationJob(
            frozen,
            admit_refused=schedule.admit_refused,
            time_s=schedule.time_limit_ms / 1000,
            solver=schedule.solver,
        )
        done = AuditRow(
            SERVER, self._runner.plan_now_ms(), "start_optimization", id_, detail="it was due"
        )
        try:
            self._runner.start(id_, asked, done)
        except TooManyError:
            logger.info("optimisation %s waits: another one runs", id_)
            return
        self._begun.add(id_)

    def _judge(self, row: OptimizationRow, most: float) -> None:
        """Apply a result that moves little work; otherwise record why a person must decide."""
        part = moved_part(msgspec.json.decode(row.result)["found"])
        if part > most:
            why = (
                f"it moves {part:.1%} of the allocated work, and a scheduled one may move "
                f"{most:.1%}"
            )
            self._runner.rows.note(row.id, f"not applied: {why}")
            return
        answer = self._apply(row)
        if answer.status >= 300:
            told = msgspec.json.decode(answer.payload())
            self._runner.rows.note(row.id, f"not applied: {told.get('detail', 'refused')}")


def moved_part(found: Mapping[str, Any]) -> float:
    """Return the share of the initially allocated work that the result moves."""
    moved, held = float(found["after"]["churn"]), float(found["held_work"])
    return moved / held if held > 0 else 0.0
