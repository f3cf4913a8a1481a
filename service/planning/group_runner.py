"""GroupRunner: carries out each group of jobs, so that a fault in one job is no other's."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final, TypeAlias

from service.access.actor import acting
from service.clock import Clock
from service.commits.changes.commands import (
    HoldEnding,
    OptimizationCommand,
    QueuedChange,
    UndoCommand,
)
from service.commits.group_commit import GroupCommit
from service.planning.optimization import Applier
from service.replication.replica import Replica
from service.store.database.driver import UNAVAILABLE

logger = logging.getLogger("agenda.service")

#: Adds jobs to a group.
Join: TypeAlias = Callable[[list[QueuedChange]], None]


#: Seconds between two looks at holds.
_HOLD_LOOK_S: Final = 1.0

#: What the history says of a hold that nobody accepted.
_OVER: Final = "its hold was over before somebody accepted it"


class GroupRunner:
    """Hands each group of jobs to what carries it out; whatever fails, none is left without an end.

    Parameters
    ----------
    join
        Adds to a group the jobs that have come since and may be carried out with it; None where
        no other job must wait for it.
    """

    def __init__(
        self,
        replica: Replica,
        clock: Clock,
        committer: GroupCommit,
        join: Join | None,
    ) -> None:
        self._replica = replica
        self._committer = committer
        self._applier = Applier(replica, clock)
        self._join = join
        self._clock = clock
        self._holds_seen = -_HOLD_LOOK_S

    def run(self, group: list[QueuedChange]) -> None:
        """Carry out jobs together; a fault in one of them is no other's."""
        self._run(group, self._join)

    def _run(self, group: list[QueuedChange], join: Join | None) -> None:
        attempts = self._committer.attempts
        try:
            self._hand_on(group, join)
        except Exception as failure:
            left = [job for job in group if not (job.goes_on or job.finished.is_set())]
            # A database that is away is away for each of them: they would wait for it in turn.
            own = self._committer.attempts == attempts and not isinstance(failure, UNAVAILABLE)
            if len(left) > 1 and own:
                logger.warning("one of %d changes failed; each is made by itself", len(left))
                for job in left:
                    self._run([job], None)
                return
            logger.exception("%d changes failed", len(left))
            for job in left:
                job.failure = failure
                job.finished.set()

    def _hand_on(self, group: list[QueuedChange], join: Join | None) -> None:
        if isinstance(group[0].command, OptimizationCommand | UndoCommand):
            self._committer.move_to_now()
            with acting(group[0].actor):
                self._applier.answer(group[0])
        else:
            self._committer.run(group, join)

    def expire_holds(self) -> None:
        """Give back what was held for as long as was asked; at most once a second."""
        now = time.monotonic()
        if now < self._holds_seen + _HOLD_LOOK_S:
            return
        self._holds_seen = now
        try:
            ids = self._holds_over()
        except Exception:
            logger.exception("holds could not be looked at")
            return
        jobs = [QueuedChange(HoldEnding(id_, _OVER, when_over=True), now) for id_ in ids]
        if jobs:
            self._run(jobs, None)

    def _holds_over(self) -> list[str]:
        """Return the ids of the holds whose time is over, whichever process made them."""
        at_ms = self._replica.plan_ms(self._clock.now_ms())
        with self._replica.newest() as plan:
            over = [n for n, hold in plan.table.holds.items() if hold.until_ms <= at_ms]
            return [plan.table.header(number)["id"] for number in over]

    def tick(self) -> None:
        """Let states follow the clock while nobody asks for anything."""
        with self._replica.locked() as plan:
            idle = plan.live_count(None, None) == 0
        if idle:
            return
        try:
            self._committer.move_to_now()
        except Exception:
            logger.exception("the Plan could not advance")
