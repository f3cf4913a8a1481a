"""DisplacementLane: searches whom refused changes displace, and keeps no other change waiting.

The planner thread hands over a job that was refused for room and may displace others. The lane
searches on a copy of the Plan and commits by version in its turn, as another server process would:
what was committed meanwhile is seen at the commit, and searched around once more.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Final

from service.clock import Clock
from service.commits.changes.commands import QueuedChange
from service.commits.group import Group
from service.commits.group_commit import GroupCommit
from service.config import ServiceConfig
from service.metrics import Telemetry
from service.planning.waiting_places import WaitingPlaces
from service.problems import ApiProblemError, problem
from service.replication.replica import Replica

logger = logging.getLogger("agenda.service")

_RETRY: Final = {"Retry-After": "5"}


class DisplacementLane:
    """Carries out jobs that may displace others, one after the other.

    Parameters
    ----------
    places
        What bounds the calls that wait here.
    """

    def __init__(
        self,
        config: ServiceConfig,
        replica: Replica,
        clock: Clock,
        telemetry: Telemetry,
        places: WaitingPlaces,
    ) -> None:
        self._timeout_s = config.plan_timeout_s
        self._places = places
        self._committer = GroupCommit(
            config, replica, clock, telemetry, is_stopping=lambda: self._stopping
        )
        self._queue: SimpleQueue[tuple[Group, QueuedChange] | None] = SimpleQueue()
        self._stopping = False
        self._gate = threading.Lock()
        self._searching = threading.Lock()
        self._thread = threading.Thread(target=self._serve, name="agenda-displacer", daemon=True)

    def start(self) -> None:
        """Begin to carry out what waits."""
        self._thread.start()

    def close(self) -> None:
        """Take no more jobs; what has begun is carried out, what has not is refused."""
        with self._gate:
            self._stopping = True
            self._queue.put(None)
        if self._thread.ident is not None:
            self._thread.join()

    def put(self, group: Group) -> None:
        """Take over the one job of a group; where too many wait it is answered ``too_many``."""
        for job in group.jobs():
            job.goes_on = True
            with self._gate:
                if self._stopping:
                    _fail(job, _stopping())
                elif self._places.take(job.actor.user):
                    self._queue.put((group, job))
                else:
                    _fail(job, self._places.crowded())

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Be the only caller of this process who searches for what is not committed.

        Raises
        ------
        ApiProblemError
            ``too_many`` where all places are taken, ``unavailable`` where it takes too long.
        """
        with self._places.holding():
            if not self._searching.acquire(timeout=self._timeout_s):
                detail = "the search for whom to displace is busy; ask again later"
                raise problem("unavailable", detail, headers=_RETRY)
            try:
                yield
            finally:
                self._searching.release()

    def _serve(self) -> None:
        while (entry := self._queue.get()) is not None:
            group, job = entry
            if self._stopping:
                _fail(job, _stopping())
            else:
                self._carry_out(group, job)
            self._places.give_back(job.actor.user)

    def _carry_out(self, group: Group, job: QueuedChange) -> None:
        try:
            self._committer.go_on(group)
        except Exception as failure:
            logger.exception("a change that may displace others failed")
            _fail(job, failure)


def _stopping() -> ApiProblemError:
    return problem("unavailable", "the server is stopping", headers=_RETRY)


def _fail(job: QueuedChange, failure: Exception) -> None:
    job.failure = failure
    job.finished.set()
