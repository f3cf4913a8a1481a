"""Nodes of running Slurm jobs that the Plan has allocated to others, or not at all.

Promised work does not preempt every job: not those of the promised partition, whose reservation may
have ended, or been cancelled or degraded, and not those of partitions with a higher tier or without
preemption. The Plan cannot promise the nodes of such a job until Slurm reports its end, which is
expected at its EndTime.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from dispatch.backends.slurm.control.job_names import words_of
from dispatch.backends.slurm.control.records import SlurmJob
from dispatch.backends.slurm.reserved.foreign_reservations import ForeignSpan
from planner.plan.plan import Plan
from planner.reservations.slots import NOWHERE
from rdl.resources import CPU, MEMORY

#: Expected time to the end of a job past its EndTime, s; rounded up to multiples, so that the
#: expected end does not change with every snapshot.
_OVERDUE_S: Final = 30

#: Expected run time of a job without an end, s.
_ENDLESS_S: Final = 365 * 86_400


@dataclass(frozen=True, slots=True)
class LastingJob:
    """A job that promised work does not preempt.

    Attributes
    ----------
    id
        Its job id in Slurm.
    reservation
        Its reservation in the Plan; empty for none.
    machines
        Machines on which it runs.
    end_ms
        When it is expected to have ended, ms from the Plan's origin.
    cpu, memory
        Its amounts on each machine, millicores and MiB.
    """

    id: int
    reservation: str
    machines: tuple[str, ...]
    end_ms: int
    cpu: int
    memory: int


def lasting_jobs(
    jobs: Iterable[SlurmJob],
    yielding: Container[str],
    machine_of: Mapping[str, str],
    now_s: int,
    origin_ms: int,
    exempt_s: int = 0,
) -> Iterator[LastingJob]:
    """Yield the jobs on machines of the Plan that promised work does not preempt.

    Parameters
    ----------
    jobs
        All jobs of a snapshot except those of components.
    yielding
        Partitions whose jobs promised work preempts.
    machine_of
        The machine of each node; other nodes do not count.
    now_s, origin_ms
        Now, and the Plan's origin, as Unix time.
    exempt_s
        How long a job in these partitions runs before promised work preempts it.
    """
    for job in jobs:
        yields_s = job.started_s + exempt_s if job.partition in yielding else None
        if not job.holds_nodes or (yields_s is not None and yields_s <= now_s):
            continue
        machines = tuple(machine_of[node] for node in job.nodes if node in machine_of)
        if not machines:
            continue
        count, end_s = len(job.nodes), job.ends_s or now_s + _ENDLESS_S
        if yields_s is not None:
            end_s = min(end_s, yields_s)
        if end_s <= now_s:
            end_s = (now_s // _OVERDUE_S + 1) * _OVERDUE_S
        reservation = words_of(job).get("reservation", "-").removeprefix("-")
        yield LastingJob(
            job.id, reservation, machines, 1000 * end_s - origin_ms,
            1000 * -(-job.cpus // count), -(-job.memory // count),
        )  # fmt: skip


def held_spans(plan: Plan, jobs: Iterable[LastingJob], now_ms: int) -> list[ForeignSpan]:
    """Return the machines that jobs hold beyond their allocations in the Plan, with times in ms.

    A machine is left out while a slot of another user has begun there, because that user's work
    would be the first to lose it, and if everything promised there until the end fits next to the
    jobs.

    Parameters
    ----------
    plan
        The Plan, which is only read.
    now_ms
        Now, from the Plan's origin.
    """
    by_machine: dict[str, list[LastingJob]] = {}
    for job in jobs:
        for machine in job.machines:
            by_machine.setdefault(machine, []).append(job)
    if not by_machine:
        return []
    slots = _PromisedSlots(plan, by_machine, now_ms)
    found: list[ForeignSpan] = []
    for machine, holders in by_machine.items():
        free = slots.own_until(machine, holders)
        spans = [(max(free[job.id], now_ms), job) for job in holders]
        spans = [(start_ms, job) for start_ms, job in spans if start_ms < job.end_ms]
        if not spans:
            continue
        start_ms, end_ms = min(start for start, _ in spans), max(job.end_ms for _, job in spans)
        if not slots.stay(machine, holders, start_ms, end_ms):
            names = ",".join(str(job.id) for _, job in spans)
            found.append(ForeignSpan(machine, start_ms, end_ms, f"job {names}"))
    return found


class _PromisedSlots:
    """Promises of the Plan on some machines from now on."""

    def __init__(self, plan: Plan, machines: Collection[str], now_ms: int) -> None:
        self._step_ms = plan.grid.step_ms
        self._step = now_ms // self._step_ms
        table = plan.table
        numbers = {name: number for number, name in enumerate(table.machines)}
        wanted = [numbers[name] for name in machines if name in numbers]
        slots, owner = table.slots_after(self._step)
        here = np.isin(slots[:, 3], wanted) & (slots[:, 3] != NOWHERE)
        standing = table.standing_slots(np.unique(owner[here]).astype(np.int64))
        near = np.isin(standing.slots[:, 3], wanted) & (standing.slots[:, 1] > self._step)
        #: By machine: reservation, first step, step after the last, millicores, MiB.
        self._on: dict[str, list[tuple[str, int, int, int, int]]] = {}
        for index in np.flatnonzero(near).tolist():
            start, end, bundles, machine = standing.slots[index].tolist()
            bundle = standing.kinds[int(standing.kind[index])][0]
            entry = (
                table.id_of(int(standing.number[index])), start, end,
                bundles * bundle.get(CPU, 0), bundles * bundle.get(MEMORY, 0),
            )  # fmt: skip
            self._on.setdefault(table.machines[machine], []).append(entry)
        groups = {group.name: group.resources for group in plan.cluster.machines}
        self._capacity: dict[str, Mapping[str, int]] = {
            name: groups.get(name.rpartition("-")[0], {}) for name in machines
        }

    def own_until(self, machine: str, holders: Iterable[LastingJob]) -> dict[int, int]:
        """Return until when, in ms, a machine is allocated to each job there; 0 if it is not.

        A job that started ahead of its slot counts as running in it.
        """
        return {
            job.id: max(
                (
                    stop * self._step_ms
                    for id_, start, stop, _, _ in self._on.get(machine, [])
                    if id_ == job.reservation and start * self._step_ms < job.end_ms
                ),
                default=0,
            )
            for job in holders
        }

    def stay(self, machine: str, holders: Iterable[LastingJob], start_ms: int, end_ms: int) -> bool:
        """Return whether the promises on a machine can stay though jobs hold it."""
        own = {job.reservation for job in holders}
        others = [one for one in self._on.get(machine, []) if one[0] not in own]
        if any(start <= self._step for _, start, *_ in others):
            return True
        first, last = start_ms // self._step_ms, -(-end_ms // self._step_ms)
        others = [one for one in others if one[1] < last and one[2] > first]
        if not others:
            return False
        capacity = self._capacity[machine]
        for place, kind in ((3, CPU), (4, MEMORY)):
            held = sum(job.cpu if kind == CPU else job.memory for job in holders)
            most = max(
                sum(int(one[place]) for one in others if one[1] <= at[1] < one[2]) for at in others
            )
            if kind in capacity and held + most > capacity[kind]:
                return False
        return True
