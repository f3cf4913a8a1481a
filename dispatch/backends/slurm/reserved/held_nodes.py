"""Nodes and licences in use in Slurm that the Plan has allocated to others, or not at all.

Promised work does not preempt every job: not those of the promised partition, whose reservation may
have ended, or been cancelled or degraded, and not those of partitions with a higher tier or without
preemption. The Plan cannot promise the nodes of such a job until Slurm reports its end, which is
expected at its EndTime.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from dispatch.backends.slurm.control.job_names import words_of
from dispatch.backends.slurm.control.records import SlurmJob, SlurmReservation
from dispatch.backends.slurm.reserved.foreign_reservations import ForeignSpan
from planner.plan.plan import Plan
from planner.reservations.slots import NOWHERE
from planner.reservations.state import State
from rdl.resources import CPU, MEMORY

#: Expected time to the end of a job past its EndTime, s; rounded up to multiples, so that the
#: expected end does not change with every snapshot.
_OVERDUE_S: Final = 30

#: Expected run time of a job without an end, s.
_ENDLESS_S: Final = 365 * 86_400

#: Expected time to the end of a job past its EndTime, ms; rounded up to multiples, so that the
#: expected end does not change with every snapshot.
_OVERDUE_MS: Final = 30_000


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


# Slurm never takes a licence from a running job, whatever its partition. So the Plan cannot promise
# licences held by jobs without a promise, or with an ended one, until the jobs end, which is
# expected at their EndTime; nor licences that others have reserved.


class _Holder(NamedTuple):
    """Licences of one name held by one job or reservation; times in ms from the origin."""

    license: str
    start_ms: int
    end_ms: int
    units: int
    why: str


class HeldLicenses:
    """Finds the unavailable units of pools in each snapshot.

    A unit of a pool stays with its job across snapshots, so that outages do not change.

    Parameters
    ----------
    totals
        Slurm's total of each licence. A pool may have fewer: the others serve jobs without a
        promise first.
    origin_ms
        The Plan's origin as Unix ms.
    """

    def __init__(self, totals: Mapping[str, int], origin_ms: int) -> None:
        self._totals = totals
        self._origin_ms = origin_ms
        self._units: dict[tuple[str, str], tuple[int, ...]] = {}

    def spans(
        self,
        plan: Plan,
        jobs: Iterable[SlurmJob],
        reservations: Iterable[SlurmReservation],
        now_ms: int,
    ) -> list[ForeignSpan]:
        """Return the unavailable units, such as ``matlab-0``, with times in ms.

        Parameters
        ----------
        plan
            The Plan, which is only read.
        jobs
            Running jobs, without those of components: lent licences are theirs only for a moment.
        reservations
            Reservations of others.
        now_ms
            Now, from the Plan's origin.
        """
        pools = {pool.name: pool.count for pool in plan.cluster.pools if pool.name in self._totals}
        if not pools:
            return []
        holders = [*self._of_jobs(plan, jobs, now_ms), *self._of_reservations(reservations, now_ms)]
        holders = [one for one in holders if one.license in pools]
        kept = {(one.license, one.why): one for one in holders}
        self._units = {key: units for key, units in self._units.items() if key in kept}
        busy: dict[str, list[tuple[int, int, int]]] = {name: [] for name in pools}
        found: list[ForeignSpan] = []
        # Holders that already have units come first.
        for one in sorted(
            holders, key=lambda one: ((one.license, one.why) not in self._units, one)
        ):
            key, count = (one.license, one.why), pools[one.license]
            units = self._units.get(key, ())
            if len(units) != one.units:
                units = _free_units(one, busy[one.license], count, self._totals[one.license])
            self._units[key] = units
            busy[one.license] += [(unit, one.start_ms, one.end_ms) for unit in units]
            found += [
                ForeignSpan(f"{one.license}-{unit}", one.start_ms, one.end_ms, one.why)
                for unit in units if unit < count
            ]  # fmt: skip
        return found

    def _of_jobs(self, plan: Plan, jobs: Iterable[SlurmJob], now_ms: int) -> Iterator[_Holder]:
        for job in jobs:
            if not job.licenses:
                continue
            start_ms = max(now_ms, _promised_until(plan, job))
            end_ms = 1000 * job.ends_s - self._origin_ms
            if end_ms <= now_ms:
                end_ms = (now_ms // _OVERDUE_MS + 1) * _OVERDUE_MS
            if start_ms < end_ms:
                for name, count in job.licenses:
                    yield _Holder(name, start_ms, end_ms, count, f"job {job.id}")

    def _of_reservations(
        self, reservations: Iterable[SlurmReservation], now_ms: int
    ) -> Iterator[_Holder]:
        for one in reservations:
            start_ms, end_ms = (1000 * at_s - self._origin_ms for at_s in (one.start_s, one.end_s))
            if end_ms > now_ms and not one.floats:
                for name, count in one.licenses:
                    yield _Holder(name, start_ms, end_ms, count, one.name)


def _promised_until(plan: Plan, job: SlurmJob) -> int:
    """Return until when, in ms, the Plan has allocated licences to a job; 0 if not."""
    number = plan.table.number_of(words_of(job).get("reservation", "-"))
    if number is None or plan.table.state(number) not in (State.ACCEPTED, State.ACTIVE):
        return 0
    return plan.grid.ms(int(plan.table.meta["finish"][number]))


def _free_units(
    one: _Holder, busy: Iterable[tuple[int, int, int]], pool: int, total: int
) -> tuple[int, ...]:
    """Return units that are free in the time of a holder: those beyond the pool first."""
    taken = {unit for unit, start, end in busy if start < one.end_ms and one.start_ms < end}
    free = [unit for unit in (*range(pool, total), *range(pool)) if unit not in taken]
    return tuple(free[: one.units])
