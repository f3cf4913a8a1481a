"""Capacity and fit caps of a whole plan, machine by machine and step by step.

Implements only files.md's description of a cluster and shares no code with the Plan's profile:
plain arrays with one entry per step, nothing incremental.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from planner.cluster.cluster import Cluster, MachineGroup, Outage, Pool
from planner.cluster.recurrence import Recurrence
from planner.validation.document import Held, HeldAtom, PlanViolation
from rdl.oracle.periods import first_instant
from rdl.resources import Resources
from rdl.time_grid import TimeGrid

Steps = NDArray[np.int64]

_DAY = timedelta(days=1)
_MS = timedelta(milliseconds=1)


class MachineCounts:
    """The number of machines of each group, and of units of each pool, at each step."""

    def __init__(self, cluster: Cluster, grid: TimeGrid, now: int) -> None:
        self.groups = cluster.machines
        self.horizon = grid.horizon
        self.up = [np.full(grid.horizon, group.count, dtype=np.int64) for group in self.groups]
        outages = list(away_steps(cluster, grid))
        taken, pools = dict(cluster.taken), {pool.name for pool in cluster.pools}
        #: Group, what is left, and int64[horizon]: 1 where it is less, of each such machine.
        self.reduced: list[tuple[MachineGroup, Resources, Steps]] = []
        self.pools = {pool.name: self._units(pool, grid, outages) for pool in cluster.pools}
        for group, up in zip(self.groups, self.up, strict=True):
            away: dict[int, list[tuple[int, int]]] = {}
            for outage, start, end in outages:
                for index in outage.indices if outage.machines == group.name else ():
                    away.setdefault(index, []).append((start, end))
            for spans in away.values():
                for start, end in merged_spans(spans):
                    up[max(0, start) : max(0, end)] -= 1
            for index in range(group.count if taken else 0):
                less = taken.get(f"{group.name}-{index}")
                if less is not None:
                    there = np.ones(grid.horizon, dtype=np.int64)
                    there[: max(0, now)] = 0
                    for start, end in away.get(index, ()):
                        there[max(0, start) : max(0, end)] = 0
                    left = {
                        name: has if name in pools else has - less.get(name, 0)
                        for name, has in group.resources.items()
                    }
                    some = Resources.of({name: has for name, has in left.items() if has})
                    self.reduced.append((group, some, there))

    def capacity(self, resource: str, label: str | None) -> Steps:
        """Return int64[horizon]: the capacity of machines with `label` (None: all).

        A pool offers the same for machines of any label.
        """
        if resource in self.pools:
            return self.pools[resource]
        return self._sum(label, lambda machine: machine.get(resource, 0))

    def _units(
        self, pool: Pool, grid: TimeGrid, outages: Iterable[tuple[Outage, int, int]]
    ) -> Steps:
        """Return int64[horizon]: the units of a pool; a partly covered step has none."""
        starts = np.arange(grid.horizon, dtype=np.int64) * grid.step_ms
        there = np.ones(grid.horizon, dtype=bool)
        if pool.start_ms is not None:
            there &= starts >= pool.start_ms
        if pool.end_ms is not None:
            there &= starts + grid.step_ms <= pool.end_ms
        away: set[tuple[int, int]] = set()
        for outage, start, end in outages:
            if outage.machines == pool.name:
                steps = range(max(0, start), min(end, grid.horizon))
                away |= {(step, unit) for step in steps for unit in outage.indices}
        units = np.where(there, pool.count, 0)
        for step, _ in away:
            units[step] -= bool(there[step])
        return units

    def fit(self, bundle: Resources, label: str | None) -> Steps:
        """Return int64[horizon]: the maximum bundles, each entirely on one machine."""

        def on_one(machine: Resources) -> int:
            return min(machine.get(name, 0) // amount for name, amount in bundle.items())

        return self._sum(label, on_one if len(bundle) else lambda _: 2**40)

    def _sum(self, label: str | None, of_one: Callable[[Resources], int]) -> Steps:
        total = np.zeros(self.horizon, dtype=np.int64)
        for group, up in zip(self.groups, self.up, strict=True):
            if label is None or label in group.labels:
                total += up * of_one(group.resources)
        for group, left, there in self.reduced:
            if label is None or label in group.labels:
                total += there * (of_one(left) - of_one(group.resources))
        return total


def used_by(atoms: Iterable[HeldAtom], resource: str, horizon: int) -> Steps:
    """Return int64[horizon]: the atoms' use of a resource at each step."""
    change = np.zeros(horizon + 1, dtype=np.int64)
    parts = [
        atom.rows * np.array([1, 1, atom.bundle.get(resource, 0)])
        for atom in atoms
        if len(atom.rows) and atom.bundle.get(resource, 0)
    ]
    if parts:
        rows = np.concatenate(parts)
        np.add.at(change, rows[:, 0], rows[:, 2])
        np.subtract.at(change, rows[:, 1], rows[:, 2])
    return np.cumsum(change[:-1])


def excesses(used: Steps, limit: Steps) -> Iterator[tuple[int, int, int]]:
    """Yield (first step, end step, step of the largest excess) of each excess."""
    over = np.flatnonzero(used > limit)
    if not len(over):
        return
    cuts = np.flatnonzero(np.diff(over) > 1) + 1
    for run in np.split(over, cuts):
        worst = int(run[np.argmax((used - limit)[run])])
        yield int(run[0]), int(run[-1]) + 1, worst


def capacity_violations(
    held: Sequence[Held], cluster: Cluster, grid: TimeGrid, now: int
) -> list[PlanViolation]:
    """Return the violations of total capacity, or of the capacity of a label's machines."""
    machines = MachineCounts(cluster, grid, now)
    atoms = [atom for reservation in held for atom in reservation.atoms]
    labels = sorted({atom.label for atom in atoms if atom.label is not None})
    found: list[PlanViolation] = []
    for label in (None, *labels):
        mine = atoms if label is None else [atom for atom in atoms if atom.label == label]
        where = "pool" if label is None else f"label:{label}"
        for resource in sorted({name for atom in mine for name in atom.bundle}):
            used = used_by(mine, resource, grid.horizon)
            limit = machines.capacity(resource, label)
            found += [
                excess_violation(where, "capacity", resource, run, (used, limit))
                for run in excesses(used, limit)
            ]
    return found


def fit_violations(
    held: Sequence[Held], cluster: Cluster, grid: TimeGrid, now: int
) -> list[PlanViolation]:
    """Return the atoms with more concurrent bundles than fit on the individual machines."""
    machines = MachineCounts(cluster, grid, now)
    caps: dict[tuple[Resources, str | None], Steps] = {}
    found: list[PlanViolation] = []
    for reservation in held:
        for i, atom in enumerate(reservation.atoms):
            key = atom.bundle, atom.label
            if key not in caps:
                caps[key] = machines.fit(*key)
            for start, end, bundles in atom.rows.tolist():
                at = start + int(np.argmin(caps[key][start:end]))
                most = int(caps[key][at])
                if bundles > most:
                    where = f"{reservation.where}/atoms/{i}"
                    detail = f"{bundles} bundles at step {at}, where {most} fit on machines"
                    found.append(
                        PlanViolation(where, "fit", detail, reservation.id, at, bundles, most)
                    )
    return found


def excess_violation(
    where: str, rule: str, resource: str, run: tuple[int, int, int], amounts: tuple[Steps, Steps]
) -> PlanViolation:
    """Return one run of `excesses` as a violation; `amounts` are use and limit."""
    first, end, worst = run
    used, limit = int(amounts[0][worst]), int(amounts[1][worst])
    detail = (
        f"{used} of {resource} at step {worst}, {used - limit} above {limit}; "
        f"exceeded over steps [{first}, {end})"
    )
    return PlanViolation(where, rule, detail, None, worst, used, limit)


def merged_spans(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the union of half-open spans as disjoint spans."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


# Visits dates one by one and shares no code with the Plan's computation of occurrences.


def away_steps(cluster: Cluster, grid: TimeGrid) -> Iterator[tuple[Outage, int, int]]:
    """Yield each outage with the steps [start, end) of each of its occurrences.

    A partly lost step counts as lost. Occurrences end with the grid.
    """
    for outage in cluster.outages:
        for start_ms, end_ms in _occurrences(outage, cluster.origin, grid.horizon_ms):
            yield outage, grid.floor(start_ms), grid.ceil(end_ms)


def _occurrences(
    outage: Outage, origin: datetime | None, horizon_ms: int
) -> Iterator[tuple[int, int]]:
    """Yield an outage's occurrences in ms from the origin."""
    rule = outage.recurs
    if rule is None:
        yield outage.start_ms, outage.end_ms
        return
    last_ms = horizon_ms if rule.until_ms is None else min(horizon_ms, rule.until_ms)
    zone = ZoneInfo(rule.zone)
    base = datetime(2000, 1, 1, tzinfo=UTC) if origin is None else origin
    start, end = (base + ms * _MS for ms in (outage.start_ms, outage.end_ms))
    first, until = (one.astimezone(zone).replace(tzinfo=None) for one in (start, end))
    passed = 0
    while outage.start_ms < last_ms:
        shift = passed * _DAY
        begin, stop = start + shift, end + shift
        if origin is not None and passed:
            begin, stop = (first_instant(wall + shift, zone) for wall in (first, until))
            if stop <= begin:
                stop = begin + max(_MS, until - first)
        begin_ms, stop_ms = (begin - base) // _MS, (stop - base) // _MS
        if begin_ms >= last_ms:
            return
        day = (first + shift).date()
        due = passed % rule.days == 0 if rule.days else _is_day_of_month(day, first.date(), rule)
        if (
            due
            and day not in rule.without
            and (not rule.weekdays or day.weekday() in rule.weekdays)
        ):
            yield begin_ms, stop_ms if rule.until_ms is None else min(stop_ms, rule.until_ms)
        passed += 1


def _is_day_of_month(day: date, first: date, rule: Recurrence) -> bool:
    """Return whether an outage recurs on a date of its month."""
    if (12 * (day.year - first.year) + day.month - first.month) % rule.months:
        return False
    is_last = (day + _DAY).month != day.month
    if rule.day is None:
        return day.day == first.day or (is_last and day.day < first.day)
    number, weekday = rule.day.number, rule.day.weekday
    if weekday is None:
        return is_last if number < 0 else day.day == number or (is_last and day.day < number)
    if day.weekday() != weekday:
        return False
    if number < 0:
        return (day + 7 * _DAY).month != day.month
    return (day.day + 6) // 7 == number
