"""A cell of one machine, written plainly: chance has no say, so the compiled loop must agree."""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from bench.papers.cell.architecture import Architecture, Growth
from bench.papers.cell.workload import BATCH, WHOLE, CellJobs

_END, _DECIDED = 0, 1


@dataclass
class _Look:
    """What a scheduler has decided: how many tasks, and how often the machine had changed then."""

    job: int
    tasks: int
    changed: int


@dataclass(eq=False)
class _Task:
    """One claim: its job, and since when it runs."""

    job: int
    since: float


@dataclass
class OneMachine:
    """The machine, its queues and the outcome of each job, for schedulers that share it."""

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
    evictions: dict[int, int] = field(default_factory=dict)
    lost_s: dict[int, float] = field(default_factory=dict)
    refused: set[int] = field(default_factory=set)

    def precedences(self) -> list[int]:
        """Return the precedence of each job: of its type, its scheduler and its own."""
        deciders = {job: self.architecture.schedulers[one] for _, one, job in self._arrivals()}
        return [
            self.architecture.precedence[type_] + deciders[job].precedence + own
            for job, (type_, own) in enumerate(
                zip(self.jobs.type.tolist(), self.jobs.precedence.tolist(), strict=True)
            )
        ]

    def run(self) -> OneMachine:
        """Run to the end."""
        count = len(self.architecture.schedulers)
        self._queues = [deque[int]() for _ in range(count)]
        self._looks: list[_Look | None] = [None] * count
        self._left = self.jobs.tasks.tolist()
        self._events: list[tuple[float, int, int]] = []
        self._transactions: list[list[_Task]] = []
        self._running: list[_Task] = []
        self._length = self.jobs.length_s.tolist()
        arrivals = self._arrivals()
        self._decider = {job: one for _, one, job in arrivals}
        self._scale = self.precedences()
        while True:
            comes = arrivals[0][0] if arrivals else np.inf
            event = self._events[0][0] if self._events else np.inf
            now = min(comes, event)
            if now >= self.length_s:
                return self
            if comes < event:
                _, one, job = arrivals.popleft()
                admits = self.architecture.schedulers[one].admits
                if admits is not None and len(self._queues[one]) >= admits:
                    self.refused.add(job)
                else:
                    self._queues[one].append(job)
                    self._begin(one, now)
                continue
            _, what, which = heapq.heappop(self._events)
            if what == _END:
                for task in self._transactions[which]:
                    if task in self._running:
                        self._stop(task)
            else:
                self._commit(which, now)
                self._begin(which, now)
                for other in range(count):
                    self._begin(other, now)

    def _stop(self, task: _Task) -> None:
        self._running.remove(task)
        self.free += int(self.jobs.cores[task.job])
        self.free_memory += int(self.jobs.memory[task.job])
        self.changed += 1

    def _start(self, task: _Task) -> None:
        self._running.append(task)
        self.free -= int(self.jobs.cores[task.job])
        self.free_memory -= int(self.jobs.memory[task.job])
        self.changed += 1

    def _lower(self, job: int) -> list[_Task]:
        """Return the tasks that a job may evict: those to go first first, the newest of equals."""
        scale = self._scale
        found = [task for task in reversed(self._running) if scale[task.job] < scale[job]]
        return sorted(found, key=lambda task: scale[task.job])

    def _evict(self, task: _Task, now: float) -> None:
        self._stop(task)
        job = task.job
        self.evictions[job] = self.evictions.get(job, 0) + 1
        self.lost_s[job] = self.lost_s.get(job, 0.0) + (now - task.since)
        self._left[job] += 1
        if self._left[job] == 1:
            del self.placed[job]
            self._queues[self._decider[job]].append(job)

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
        others = self._lower(job)
        free = self.free + sum(int(self.jobs.cores[task.job]) for task in others)
        free_memory = self.free_memory + sum(int(self.jobs.memory[task.job]) for task in others)
        return min(free // cores, free_memory // memory)

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
        heapq.heappush(self._events, (now + takes, _DECIDED, one))

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
            if taken > self._left[job]:
                self._length[job] *= self._growth_factor(job, taken)
            tasks = [_Task(job, now) for _ in range(taken)]
            for task in tasks:
                self._start(task)
            while min(self.free, self.free_memory) < 0:
                self._evict(self._lower(job)[0], now)
            self._transactions.append(tasks)
            end = now + self._length[job]
            heapq.heappush(self._events, (end, _END, len(self._transactions) - 1))
        self._left[job] = max(0, self._left[job] - taken)
        if self._left[job] == 0:
            self.placed[job] = now
        elif self.attempts[job] < rules.attempts:
            (self._queues[one].appendleft if conflict else self._queues[one].append)(job)

    def _growth_factor(self, job: int, workers: int) -> float:
        more = workers / int(self.jobs.tasks[job])
        serial, setup = float(self.jobs.serial[job]), float(self.jobs.setup[job])
        return serial + (1.0 - serial - setup) / more + setup * more
