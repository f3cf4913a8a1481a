"""An hour of the Facebook day as jobs of a small cluster, its time compressed.

A job of the trace has tasks (`service.importers.swim`); a node of the hour runs `CONTAINERS` of
them at once. A job of at most a quarter of that takes one of a node's four CPUs, every other takes
whole nodes, `WIDEST` at most. Three jobs of four are production work with a deadline: the time
alone, longer by a slack of the importers' model, and `ROOM_S` for what Slurm takes to start it,
which no compression makes shorter. The others are best effort.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from bench.workloads.traces import SWIM_FILE
from service.importers.lines import Slack, open_trace
from service.importers.swim import (
    BYTES_PER_SECOND,
    LEAST_TASK_S,
    MAP_BYTES,
    REDUCE_BYTES,
)

#: Tasks that one node of the hour runs side by side, CPUs it has in Slurm, and most nodes of a job.
CONTAINERS: Final = 64
CPUS: Final = 4
WIDEST: Final = 4

#: What Slurm takes to start a job of several nodes and to end one that is in its way, s.
ROOM_S: Final = 15

#: The hour of the day: from 8 to 9, whose work is 0.9 of eight such nodes.
HOUR: Final = 8


@dataclass(frozen=True, slots=True)
class HourJob:
    """One job; times in compressed seconds from the start of the hour.

    Attributes
    ----------
    id
        In the trace.
    submitted_s
        When it is submitted.
    nodes, cpus
        How many nodes, and CPUs of each.
    run_s
        How long it runs.
    deadline_s
        When it is to have ended; None: best effort.
    """

    id: str
    submitted_s: float
    nodes: int
    cpus: int
    run_s: int
    deadline_s: float | None

    @property
    def work_s(self) -> float:
        """Node time: a quarter node counts as much."""
        return self.run_s * self.nodes * self.cpus / CPUS


def swim_hour(folder: Path, compression: int, limit: int | None = None) -> list[HourJob]:
    """Return the jobs of the hour in order of submission; seed 0 draws the slacks."""
    generator, slack = np.random.default_rng(0), Slack()
    found: list[HourJob] = []
    for line in open_trace(str(folder / SWIM_FILE)):
        words = line.split("\t")
        at = int(words[1]) - 3600 * HOUR
        if not 0 <= at < 3600 or (limit is not None and len(found) >= limit):
            continue
        work, tasks = _work(int(words[3]), int(words[4]))
        nodes = min(WIDEST, -(-tasks // CONTAINERS))
        cpus = 1 if tasks <= CONTAINERS // CPUS else CPUS
        width = min(tasks, nodes * cpus * CONTAINERS // CPUS)
        run_s = max(1, round(work / width / compression))
        promised = at / compression + run_s * (1 + slack.draw(generator)) + ROOM_S
        deadline_s = promised if len(found) % 4 else None
        found.append(HourJob(words[0], at / compression, nodes, cpus, run_s, deadline_s))
    return found


def _work(maps: int, shuffle: int) -> tuple[int, int]:
    """Return the task time of a job in seconds, and the most tasks that it runs at once."""
    work = most = 0
    for size, per_task in ((maps, MAP_BYTES), (shuffle, REDUCE_BYTES)):
        tasks = -(-size // per_task)
        if not tasks and per_task == REDUCE_BYTES:
            continue
        tasks = max(1, tasks)
        work += tasks * max(LEAST_TASK_S, -(-size // (tasks * BYTES_PER_SECOND)))
        most = max(most, tasks)
    return work, most
