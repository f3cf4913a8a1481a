"""A cell of one machine, written plainly: chance has no say, so the compiled loop must agree."""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from dispatch.simulation.cell.architecture import Architecture, Growth
from dispatch.simulation.cell.workload import BATCH, WHOLE, CellJobs

_END, _DECIDED = 0, 1


@dataclass
class _Look:
    """What a scheduler has decided: how many tasks, and how often the machine had changed then."""

    job: int
    tasks: int
    changed: int


@dataclass
class OneMachine:
    """The machine, its queues and what became of each job, for schedulers that share it."""

    architecture: Architecture
    jobs: CellJobs
    length_s: float
    free: int = WHOLE
    free_memory: int = WHOLE
    changed: int = 0
    first: dict[int, float] = field(default_factory=dict)
    placed: dict[int, float] = field(default_factory=dict)
    attempts: dict[int, int] = field(default_factory=dict)
    conflicts: dict[int, int] = field(default_factory=dict)

    def run(self) -> OneMachine:
        """Run to the end."""
        count = len(self.architecture.schedulers)
        self._queues = [deque[int]() for _ in range(count)]
        self._looks: list[_Look | None] = [None] * count
        self._left = self.jobs.tasks.tolist()
        self._events: list[tuple[float, int, int, int, int]] = []
        arrivals = self._arrivals()
        while True:
            comes = arrivals[0][0] if arrivals else np.inf
            event = self._events[0][0] if self._events else np.inf
            now = min(comes, event)
            if now >= self.length_s:
                return self
            if comes < event:
                _, one, job = arrivals.popleft()
                self._queues[one].append(job)
                self._begin(one, now)
                continue
            _, what, which, job, tasks = heapq.heappop(self._events)
            if what == _END:
                self.free += tasks * int(self.jobs.cores[job])
                self.free_memory += tasks * int(self.jobs.memory[job])
                self.changed += tasks
            else:
                self._commit(which, now)
                self._begin(which, now)

    def _arrivals(self) -> deque[tuple[float, int, int]]:
        met = {0: 0, 1: 0}
        found: deque[tuple[float, int, int]] = deque()
        for job, type_ in enumerate(self.jobs.type.tolist()):
            takers = [i for i, s in enumerate(self.architecture.schedulers) if type_ in s.types]
            found.append((float(self.jobs.arrival_s[job]), takers[met[type_] % len(takers)], job))
            met[type_] += 1
        return found

    def _room(self, job: int) -> int:
        cores, memory = int(self.jobs.cores[job]), int(self.jobs.memory[job])
        return min(self.free // cores, self.free_memory // memory)

    def _target(self, job: int) -> int:
        """Return the tasks to place: all that shorten the job, the first time."""
        left, useful = self._left[job], int(self.jobs.useful[job])
        if self.attempts[job] > 1 or self.architecture.growth is Growth.NONE:
            return left
        if self.architecture.growth is Growth.RELATIVE_SIZE:
            useful = min(useful, self.architecture.times * int(self.jobs.tasks[job]))
        return max(left, useful)

    def _begin(self, one: int, now: float) -> None:
        if self._looks[one] is not None or not self._queues[one]:
            return
        job = self._queues[one].popleft()
        self.first.setdefault(job, now)
        self.attempts[job] = self.attempts.get(job, 0) + 1
        scheduler = self.architecture.schedulers[one]
        decision = scheduler.batch if self.jobs.type[job] == BATCH else scheduler.service
        look = _Look(job, min(self._target(job), self._room(job)), self.changed)
        takes = decision.job_s + decision.task_s * max(self._left[job], look.tasks)
        self._looks[one] = look
        heapq.heappush(self._events, (now + takes, _DECIDED, one, job, 0))

    def _commit(self, one: int, now: float) -> None:
        look, rules = self._looks[one], self.architecture
        assert look is not None
        self._looks[one] = None
        job = look.job
        fits = 0 if rules.coarse and self.changed != look.changed else self._room(job)
        taken = min(look.tasks, fits)
        conflict = taken < look.tasks
        if rules.gang and taken < self._left[job]:
            taken = 0
        self.conflicts[job] = self.conflicts.get(job, 0) + conflict
        if taken:
            self.free -= taken * int(self.jobs.cores[job])
            self.free_memory -= taken * int(self.jobs.memory[job])
            self.changed += taken
            length = float(self.jobs.length_s[job])
            if taken > self._left[job]:
                length *= self._left[job] / taken
            end = now + length
            heapq.heappush(self._events, (end, _END, -1, job, taken))
        self._left[job] = max(0, self._left[job] - taken)
        if self._left[job] == 0:
            self.placed[job] = now
        elif self.attempts[job] < rules.attempts:
            (self._queues[one].appendleft if conflict else self._queues[one].append)(job)
