"""Lanes: each carries out its jobs in a thread of its own, one group after the other.

The planner's own lane carries out most changes. Slow work has lanes of its own, so that no other
change waits for it: large batches, solvers, the search for reservations to displace, and the
adapter. Such a lane works like another server process: it decides on a snapshot or a copy of the
Plan, commits by version in its turn, and decides again if the result no longer fits.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TypeAlias

from service.access.rate_limit import TenantShares, share_of
from service.access.user import User, present_actor
from service.commits.job import Job
from service.problems import ApiProblemError, problem
from service.store.engine import UNAVAILABLE

logger = logging.getLogger("agenda.service")

#: Adds jobs that have arrived since to a group.
Join: TypeAlias = Callable[[list[Job]], None]

_RETRY: Final = {"Retry-After": "5"}


class JobQueue:
    """A queue that is served in order of arrival, in groups.

    Parameters
    ----------
    most
        Most requests in a group; a larger job forms its own group.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._woken = self._closed = False

    def __len__(self) -> int:
        return len(self._jobs)

    @property
    def is_closed(self) -> bool:
        """Whether it takes no more jobs."""
        return self._closed

    def put(self, job: Job) -> bool:
        """Queue a job; False when the queue is closed."""
        with self._changed:
            if self._closed:
                return False
            self._jobs.append(job)
            self._changed.notify()
            return True

    def wake(self) -> None:
        """Let `next_group` return immediately, even without a job."""
        with self._changed:
            self._woken = True
            self._changed.notify()

    def close(self) -> None:
        """Accept no more jobs; waiting jobs are still returned."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def next_group(self, timeout_s: float) -> list[Job] | None:
        """Return the next group of jobs; empty after a timeout; None if closed and empty.

        A job that must be alone forms its own group, and a key occurs in a group once.
        """
        with self._changed:
            if not (self._jobs or self._woken or self._closed):
                self._changed.wait(timeout_s)
            self._woken = False
            if not self._jobs:
                return None if self._closed else []
            group = [self._jobs.popleft()]
            self._fill(group)
            return group

    def join(self, group: list[Job]) -> None:
        """Add jobs that have arrived since and may be carried out with a group."""
        with self._changed:
            self._fill(group)

    def _fill(self, group: list[Job]) -> None:
        if not self._jobs or group[0].needs_own_record:
            return
        size = sum(job.size for job in group)
        keys = {one.keyed.key.text for one in group if one.keyed is not None}
        while self._jobs:
            job = self._jobs[0]
            repeated = job.keyed is not None and job.keyed.key.text in keys
            if job.needs_own_record or repeated or size + job.size > self._most:
                return
            group.append(self._jobs.popleft())
            size += job.size
            if job.keyed is not None:
                keys.add(job.keyed.key.text)


class Lane:
    """Carries out jobs one group after the other; every job is finished, whatever fails.

    Parameters
    ----------
    name
        Name of its thread.
    carry_out
        Carries out a group; afterwards each of its jobs is finished, or passed to another lane. Its
        second argument adds jobs that have arrived since, or is None if no other job must wait for
        the group.
    most
        Most requests in a group.
    joins
        Whether jobs may join a group that is being carried out.
    between
        Called after each group (False), and after each sleep without one (True).
    nap_s
        Longest sleep of a lane without jobs.
    drains
        Whether jobs that wait when the lane is closed are still carried out; otherwise they are
        refused.
    """

    def __init__(
        self,
        name: str,
        carry_out: Callable[[list[Job], Join | None], None],
        *,
        most: int = 1,
        joins: bool = False,
        between: Callable[[bool], None] = lambda _idle: None,
        nap_s: float = 60.0,
        drains: bool = False,
    ) -> None:
        self._name = name
        self._carry_out = carry_out
        self._joins = joins
        self._between = between
        self._nap_s = nap_s
        self._drains = drains
        self.queue = JobQueue(most)
        self._thread = threading.Thread(target=self.serve, name=name, daemon=True)

    @property
    def is_stopping(self) -> bool:
        """Whether it takes no more jobs."""
        return self.queue.is_closed

    def start(self) -> None:
        """Start to carry out jobs, in a thread of its own."""
        self._thread.start()

    def close(self) -> None:
        """Accept no more jobs, and wait for those that have begun."""
        self.queue.close()
        if self._thread.ident is not None:
            self._thread.join()

    def put(self, job: Job) -> bool:
        """Queue a job; False when the lane is closed."""
        job.lane = self
        return self.queue.put(job)

    def serve(self) -> None:
        """Carry out jobs until the lane is closed; the main function of its thread."""
        while (group := self.queue.next_group(self._nap_s)) is not None:
            if group and self.is_stopping and not self._drains:
                for job in group:
                    job.fail(problem("unavailable", "the server is stopping", headers=_RETRY))
                continue
            if group:
                self.run(group, self.queue.join if self._joins else None)
            self._between(not group)

    def run(self, group: list[Job], join: Join | None = None) -> None:
        """Carry out jobs together; a failure of one does not affect the others."""
        try:
            self._carry_out(group, join)
        except Exception as failure:
            own = (job for job in group if job.lane in (self, None))
            left = [job for job in own if not job.finished.is_set()]
            # If the database is unavailable, each of them would wait for it in turn.
            shared = isinstance(failure, UNAVAILABLE) or any(job.is_attempted for job in left)
            if len(left) > 1 and not shared:
                logger.warning("one of %d changes failed; each is retried separately", len(left))
                for job in left:
                    self.run([job])
                return
            logger.exception("%s: %d changes failed", self._name, len(left))
            for job in left:
                job.fail(failure)


class WaitingPlaces:
    """Limit of calls that wait for a solver or for a search for reservations to displace.

    Parameters
    ----------
    threads
        Number of threads that answer calls; half of them may wait in this way, the others serve
        quick calls.
    """

    def __init__(self, threads: int) -> None:
        self._places = TenantShares(max(1, threads // 2))

    def take(self, user: User) -> bool:
        """Take a place; False if there is none, or if a tenant of the user has used its share."""
        return self._places.take(user)

    def give_back(self, user: User) -> None:
        """Release a place."""
        self._places.give_back(user)

    def crowded(self) -> ApiProblemError:
        """Return the error for a call that finds no place."""
        most = self._places.most
        detail = (
            f"{most} calls may wait for a solver or a displacement of this process, and "
            f"{share_of(most)} of one tenant; that limit is reached"
        )
        return problem("too_many", detail, headers=_RETRY)

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Hold a place for the caller of this thread.

        Raises
        ------
        ApiProblemError
            ``too_many`` if all are taken, or the share of a tenant is.
        """
        user = present_actor().user
        if not self.take(user):
            raise self.crowded()
        try:
            yield
        finally:
            self.give_back(user)

    @contextmanager
    def turn(self, lock: threading.Lock, timeout_s: float, what: str) -> Iterator[None]:
        """Hold a place and a lock, for slow work that is done for one caller at a time.

        Raises
        ------
        ApiProblemError
            ``too_many`` as `holding`, ``unavailable`` if the lock is not free in time.
        """
        with self.holding():
            if not lock.acquire(timeout=timeout_s):
                raise problem("unavailable", f"{what} is busy; try again later", headers=_RETRY)
            try:
                yield
            finally:
                lock.release()
