"""ChangeQueue: jobs wait here; the planner takes all that one commit may carry."""

from __future__ import annotations

import threading
from collections import deque

from service.commits.changes.commands import QueuedChange


class ChangeQueue:
    """A queue that is served in order of arrival, in groups.

    Parameters
    ----------
    most
        Most requests in a group; one larger job is a group by itself.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._jobs: deque[QueuedChange] = deque()
        self._changed = threading.Condition()
        self._closed = False

    def __len__(self) -> int:
        return len(self._jobs)

    def put(self, job: QueuedChange) -> bool:
        """Queue a job; False when the queue is closed."""
        with self._changed:
            if self._closed:
                return False
            self._jobs.append(job)
            self._changed.notify()
            return True

    def close(self) -> None:
        """Take no more jobs; those that wait are still served."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def next_group(self, timeout_s: float) -> list[QueuedChange] | None:
        """Return the next group of jobs; none in time: empty; closed and empty: None.

        A job that must be alone is a group by itself, and a key is in a group once.
        """
        with self._changed:
            if not self._jobs and not self._closed:
                self._changed.wait(timeout_s)
            if not self._jobs:
                return None if self._closed else []
            group = [self._jobs.popleft()]
            self._fill(group)
            return group

    def join(self, group: list[QueuedChange]) -> None:
        """Add to a group the jobs that have come since and may be carried out with it."""
        with self._changed:
            self._fill(group)

    def _fill(self, group: list[QueuedChange]) -> None:
        size = sum(job.size for job in group)
        while self._jobs and not group[0].needs_own_record and self._joins(group, size):
            group.append(self._jobs.popleft())
            size += group[-1].size

    def _joins(self, group: list[QueuedChange], size: int) -> bool:
        job = self._jobs[0]
        keys = {one.key.text for one in group if one.key is not None}
        repeated = job.key is not None and job.key.text in keys
        return not job.needs_own_record and not repeated and size + job.size <= self._most
