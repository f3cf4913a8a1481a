"""Licences that Slurm jobs and reservations hold though the Plan has allocated them to others.

Slurm never takes a licence from a running job, whatever its partition. So the Plan cannot promise
licences held by jobs without a promise, or with an ended one, until the jobs end, which is expected
at their EndTime; nor licences that others have reserved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from dispatch.backends.slurm.control.job_names import words_of
from dispatch.backends.slurm.control.records import SlurmJob, SlurmReservation
from dispatch.backends.slurm.reserved.foreign_reservations import ForeignSpan
from planner.plan.plan import Plan
from planner.reservations.state import State

#: Expected time to the end of a job past its EndTime, ms; rounded up to multiples, so that the
#: expected end does not change with every snapshot.
_OVERDUE_MS: Final = 30_000


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
