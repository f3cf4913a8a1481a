"""TaskBook: the tasks of an execution, which its components run one at a time each."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable

from rdl.time_grid import duration_text

#: Longest pause before a task that failed is run again.
LONGEST_BACKOFF_MS = 3_600_000


class TaskBook:
    """Which tasks have succeeded, have failed for good, or are to be run.

    Parameters
    ----------
    count
        Number of tasks, which are numbered from 0.
    retries, backoff_ms
        Retries of each task after a failure, and the pause before the first one; each
        further pause is twice as long.

    Attributes
    ----------
    done, failed
        Number of tasks that have succeeded, and that have failed for good.
    reason
        Why the last one failed; empty before.
    """

    def __init__(self, count: int, retries: int, backoff_ms: int) -> None:
        self.count = count
        self.done = self.failed = 0
        self.reason = ""
        self._retries = retries
        self._backoff_ms = backoff_ms
        self._ready = deque(range(count))
        self._paused: list[tuple[int, int]] = []  # a heap of (until ms, task)
        self._failures: dict[int, int] = {}
        self._skipped: frozenset[int] = frozenset()

    def skip(self, tasks: Iterable[int]) -> None:
        """Count tasks as done that an earlier attempt has done; none of this one has begun."""
        self._skipped = frozenset(tasks)
        self.restore((), (), ())

    def restore(
        self, succeeded: Iterable[int], failures: Iterable[int], running: Iterable[int]
    ) -> None:
        """Continue after runs under an earlier leader: one entry for each failure of a task."""
        taken = set(running)
        done = self._skipped.union(succeeded) - taken
        for task in failures:
            self._failures[task] = self._failures.get(task, 0) + 1
        failed = {one for one, times in self._failures.items() if times > self._retries}
        failed -= done | taken
        self.done, self.failed = len(done), len(failed)
        gone = done | failed | taken
        self._ready = deque(one for one in range(self.count) if one not in gone)

    def take(self, at_ms: int) -> int | None:
        """Take the next task; None if none may start now."""
        while self._paused and self._paused[0][0] <= at_ms:
            self._ready.append(heapq.heappop(self._paused)[1])
        return self._ready.popleft() if self._ready else None

    def give_back(self, task: int) -> None:
        """Return a task whose run was stopped or lost: it is run again."""
        self._ready.appendleft(task)

    def succeed(self) -> None:
        """Count a task that was taken and has succeeded."""
        self.done += 1

    def fail(self, task: int, at_ms: int, detail: str) -> None:
        """Count a failure of a task that was taken: it is run again, or has failed for good."""
        used = self._failures.get(task, 0)
        self._failures[task] = used + 1
        self.reason = f"task {task}" + (f": {detail}" if detail else " failed")
        if used >= self._retries:
            self.failed += 1
            return
        pause_ms = min(self._backoff_ms << min(used, 16), LONGEST_BACKOFF_MS)
        heapq.heappush(self._paused, (at_ms + pause_ms, task))
        self.reason += f"; retry {used + 1:,} of {self._retries:,} in {duration_text(pause_ms)}"

    @property
    def has_waiting(self) -> bool:
        """Whether a task waits to be run."""
        return bool(self._ready or self._paused)

    @property
    def is_over(self) -> bool:
        """Whether every task has succeeded, or has failed for good."""
        return self.done + self.failed == self.count

    def to_json(self) -> dict[str, int]:
        """Return how many there are, and how many have succeeded, have failed, and are left."""
        left = self.count - self.done - self.failed
        return {"count": self.count, "done": self.done, "failed": self.failed, "left": left}
