"""How many containers are held in every second of a run: by queue, and by job with a deadline."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bench.papers.cluster.job_progress import JobProgress
from bench.papers.cluster.rayon_workload import QUEUES, queue_of


@dataclass(slots=True)
class RunTrace:
    """What was held, second by second from 0.

    Attributes
    ----------
    jobs
        Containers of each job with a deadline, from the second (s) in which it is first in service:
        rows ``(second, containers)``.
    """

    jobs: dict[str, list[tuple[float, int]]] = field(default_factory=dict)
    _rows: list[list[int]] = field(default_factory=list)

    def take(self, now_s: float, running: Iterable[JobProgress]) -> None:
        """Note what the jobs that run or wait hold for the second from `now_s` on."""
        row = [0] * QUEUES
        for progress in running:
            job = progress.job
            row[queue_of(job)] += progress.held
            if job.deadline_s is not None:
                self.jobs.setdefault(job.name, []).append((now_s, progress.held))
        self._rows.append(row)

    @property
    def by_queue(self) -> NDArray[np.int64]:
        """Containers by second and queue, shape (S, QUEUES)."""
        return np.array(self._rows, dtype=np.int64).reshape(len(self._rows), QUEUES)
