"""A plain event loop that scans: what the compiled one must do, decision by decision."""

from __future__ import annotations

import heapq
import math

import numpy as np

from bench.papers.machines.workload import JobChunk
from dispatch.machines.placement.state import Machines
from lp.lotes.dispatch_table import DispatchTable

TOLERANCE = 1e-9
_MASK = (1 << 64) - 1


class Reference:
    """Machines and queues as Python lists; every choice looks at all of them."""

    def __init__(
        self,
        machines: Machines,
        speed: np.ndarray,
        policy: str,
        table: DispatchTable | None,
        sample: int = 0,
    ) -> None:
        self.group = machines.configuration_of.tolist()
        self.capacity = [machines.capacity[g].tolist() for g in self.group]
        self.left = [list(row) for row in self.capacity]
        self.count = [0] * len(self.group)
        self.speed, self.policy, self.sample = speed.tolist(), policy, sample
        self.groups, self.classes = speed.shape
        self.members = [[m for m, g in enumerate(self.group) if g == j] for j in range(self.groups)]
        self.running = [[0] * self.classes for _ in self.group]
        self.queue: list[int] = []
        self.own: list[list[int]] = [[] for _ in self.group]
        if table is not None:
            self.target = table.bins[table.bin_of].tolist()
            self.wheel = np.where(speed > 0, table.wheel, 0.0).tolist()
        self.start: list[float] = []
        self.machine: list[int] = []

    def run(self, jobs: JobChunk, draw: np.ndarray) -> None:
        """All events to the end."""
        self.jobs, self.draw = jobs, draw
        total = jobs.arrival_h.size
        self.start, self.machine = [math.nan] * total, [-1] * total
        self.heap: list[tuple[float, int, int]] = []
        self.sequence = 0
        job = 0
        while job < total or self.heap:
            arrives = float(jobs.arrival_h[job]) if job < total else math.inf
            if self.heap and self.heap[0][0] <= arrives:
                self.now, _, ended = heapq.heappop(self.heap)
                self._end(ended)
            else:
                self.now = arrives
                self._arrive(job)
                job += 1

    def request(self, job: int) -> list[float]:
        return self.jobs.request[job].tolist()

    def kind(self, job: int) -> int:
        return int(self.jobs.job_class[job])

    def fits(self, job: int, machine: int) -> bool:
        allowed = self.speed[self.group[machine]][self.kind(job)] > 0
        room = self.left[machine]
        return allowed and all(
            have + TOLERANCE >= need for have, need in zip(room, self.request(job), strict=True)
        )

    def holds(self, job: int, machine: int) -> bool:
        allowed = self.speed[self.group[machine]][self.kind(job)] > 0
        return allowed and all(
            have + TOLERANCE >= need
            for have, need in zip(self.capacity[machine], self.request(job), strict=True)
        )

    def score(self, machine: int, kind: int) -> int:
        return self.target[machine][kind] - self.running[machine][kind]

    def eligible(self, machine: int, kind: int) -> bool:
        aimless = all(self.wheel[j][kind] <= 0 for j in range(self.groups))
        group = self.group[machine]
        return self.speed[group][kind] > 0 and (aimless or self.wheel[group][kind] > 0)

    def tetris(self, job: int, machine: int) -> float:
        request = self.request(job)
        gain = sum(need * have for need, have in zip(request, self.left[machine], strict=True))
        speed = self.speed[self.group[machine]][self.kind(job)]
        return gain - sum(request) * float(self.jobs.hours[job]) / speed

    def _arrive(self, job: int) -> None:
        machine = self._choose(job)
        if machine >= 0:
            self._start(job, machine)
        elif self.policy == "greedy":
            able = [m for m in range(len(self.group)) if self.holds(job, m)]
            if able:
                self.own[min(able, key=lambda m: (len(self.own[m]), m))].append(job)
        elif any(self.holds(job, m) for m in range(len(self.group))):
            self.queue.append(job)

    def _choose(self, job: int) -> int:
        fitting = [m for m in range(len(self.group)) if self.fits(job, m)]
        if self.policy == "lotes":
            return self._choose_lotes(job)
        if self.policy == "greedy":
            fitting = [m for m in fitting if not self.own[m]]
        if not fitting:
            return -1
        if self.policy == "tetris":
            return max(fitting, key=lambda m: (self.tetris(job, m), -m))
        if self.policy == "best_fit":
            return min(fitting, key=lambda m: (self._over(job, m), m))
        if self.policy == "spread":
            return min(fitting, key=lambda m: (self.count[m], -self.left[m][1], m))
        return fitting[0]

    def _over(self, job: int, machine: int) -> float:
        over = 0.0
        for have, need, all_of_it in zip(
            self.left[machine], self.request(job), self.capacity[machine], strict=True
        ):
            if all_of_it > 0:
                over += (have - need) / all_of_it
        return over

    def _choose_lotes(self, job: int) -> int:
        kind, position = self.kind(job), float(self.draw[job])
        tried: set[int] = set()
        left = 0.0
        for j in range(self.groups):
            left += self.wheel[j][kind]
        while left > 1e-12:
            aim, reached, chosen = position * left, 0.0, -1
            for j in range(self.groups):
                share = self.wheel[j][kind]
                if j in tried or share <= 0:
                    continue
                chosen = j
                if aim < reached + share:
                    break
                reached += share
            if chosen < 0:
                break
            machine = self._best(job, chosen)
            if machine >= 0:
                return machine
            tried.add(chosen)
            share = self.wheel[chosen][kind]
            position = min(max((aim - reached) / share, 0.0), 1.0)
            left -= share
        for j in range(self.groups):
            if self.wheel[j][kind] <= 0 and self.speed[j][kind] > 0:
                if self.sample:
                    machine = self._best(job, j)
                else:
                    machine = next((m for m in self.members[j] if self.fits(job, m)), -1)
                if machine >= 0:
                    return machine
        return -1

    def _best(self, job: int, group: int) -> int:
        members = self.members[group]
        if 0 < self.sample < len(members):
            state = (int(float(self.draw[job]) * 4503599627370496.0) + group) & _MASK
            picked = []
            for _ in range(self.sample):
                state = _splitmix(state)
                picked.append(members[state % len(members)])
            members = sorted(set(picked))
        fitting = [m for m in members if self.fits(job, m)]
        return max(fitting, key=lambda m: (self.score(m, self.kind(job)), -m), default=-1)

    def _start(self, job: int, machine: int) -> None:
        for r, need in enumerate(self.request(job)):
            self.left[machine][r] -= need
        self.count[machine] += 1
        self.running[machine][self.kind(job)] += 1
        hours = float(self.jobs.hours[job]) / self.speed[self.group[machine]][self.kind(job)]
        heapq.heappush(self.heap, (self.now + hours, self.sequence, job))
        self.sequence += 1
        self.start[job], self.machine[job] = self.now, machine

    def _end(self, job: int) -> None:
        machine = self.machine[job]
        self.count[machine] -= 1
        for r, need in enumerate(self.request(job)):
            if self.count[machine] == 0:
                self.left[machine][r] = self.capacity[machine][r]
            else:
                self.left[machine][r] += need
        self.running[machine][self.kind(job)] -= 1
        while True:
            waiting = self._next(machine)
            if waiting < 0:
                return
            self._start(waiting, machine)

    def _next(self, machine: int) -> int:
        if self.policy == "greedy":
            own = self.own[machine]
            return own.pop(0) if own and self.fits(own[0], machine) else -1
        fitting = [job for job in self.queue if self.fits(job, machine)]
        if self.policy == "lotes":
            job = self._next_lotes(machine, fitting)
        elif self.policy == "tetris":
            job = max(fitting, key=lambda j: (self.tetris(j, machine), -j), default=-1)
        else:
            job = fitting[0] if fitting else -1
        if job >= 0:
            self.queue.remove(job)
        return job

    def _next_lotes(self, machine: int, fitting: list[int]) -> int:
        strays = [job for job in fitting if self._is_stray(job)]
        regular = [
            job for job in fitting if job not in strays and self.eligible(machine, self.kind(job))
        ]
        if regular:
            return max(
                regular, key=lambda j: (self.score(machine, self.kind(j)), -self.kind(j), -j)
            )
        return strays[0] if strays else -1

    def _is_stray(self, job: int) -> bool:
        return not any(
            self.holds(job, m) and self.eligible(m, self.kind(job)) for m in range(len(self.group))
        )


def _splitmix(state: int) -> int:
    z = (state + 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)
