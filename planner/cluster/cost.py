"""Estimate the memory and time that planning on a cluster takes, before building anything.

A plan has eight bytes for each step of each row of its profile, and copies all of it when time
moves to the next step; the dispatcher has a few hundred bytes for each machine. So a short
description can need more memory than there is. It is refused before it is committed: a record that
no process can apply would stop all of them permanently.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from planner.cluster.cluster import DAY_MS, MOST_AMOUNT_STEPS, Cluster
from planner.cluster.policy import EACH, CapacityOverTime, Quota
from rdl.time_grid import duration_text

#: Memory limit for planning on a cluster in one process: a common server has this for each of two
#: processes.
MOST_BYTES: Final = 4 * 2**30

#: Time limit for moving the plan to the next step; every change waits for it.
MOST_ADVANCE_S: Final = 2.0

#: Most machines of all groups: the dispatcher visits all of them in a tick, for seconds.
MOST_MACHINES: Final = 1_000_000

#: Most machines in current outages, counted once per outage: each tick lists them.
MOST_AWAY: Final = 1_000_000

#: Most machines in all outages, past ones included: a few words can name more machines than fit in
#: memory.
MOST_NAMED: Final = 10 * MOST_AWAY

#: Most entries of each list (machine groups, queues, prices, policies), labels and domains: a
#: request or a step goes through each of them.
MOST_ENTRIES: Final = 10_000

#: Arrays with an entry per step that agents fill to place a request, and those of prices.
_WORK_ROWS, _PRICE_ROWS = 5, 2

#: Bytes in the dispatcher per machine, and per resource of a machine.
_MACHINE_BYTES, _AMOUNT_BYTES = 700, 50

#: Seconds that moving to the next step takes per cell of the profile, per machine group in a row,
#: per segment of it, per segment in which machines are down, per machine in it, per day of a timed
#: quota, and per step with a price.
_CELL_S, _GROUP_S, _SEGMENT_S = 12e-9, 3e-7, 2e-9
_AWAY_S, _AWAY_MACHINE_S, _DAY_S, _PRICE_S = 2e-6, 1e-9, 4e-5, 1e-9


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the cost: memory, or time at every step.

    Attributes
    ----------
    what
        Its name, with numbers.
    pointer, fix
        The path in the description, and a suggested reduction.
    """

    what: str
    pointer: str
    fix: str
    memory_bytes: int = 0
    advance_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Excess:
    """A reason why a cluster is too large: the amount, its place, and a suggested fix."""

    message: str
    pointer: str
    fix: str


@dataclass(frozen=True, slots=True)
class Rows:
    """Counts of the rows of a profile without reservations: one account for each policy.

    Attributes
    ----------
    resources, labels
        Each resource has a row for all machines, and one for each label that only some machines
        have.
    limits
        Rows of policies that limit the instant; one per queue if queues are counted separately.
    averages, longest
        Rows of policies that limit an average, and steps of the longest window.
    """

    resources: int
    labels: int
    limits: int
    averages: int
    longest: int

    @property
    def count(self) -> int:
        """Number of rows with a cell for each step."""
        return self.resources * (1 + self.labels) + self.limits

    def cells(self, steps: int) -> int:
        """Return how many cells a plan of `steps` steps has."""
        return self.count * steps + self.averages * (steps + self.longest)


def rows_of(cluster: Cluster) -> Rows:
    """Return how many rows the profile of a cluster has."""
    everywhere = frozenset.intersection(*(group.labels for group in cluster.machines))
    limits = averages = longest = 0
    for policy in cluster.policies:
        accounts = len(cluster.queues) if policy.scope.queue == EACH else 1
        if isinstance(policy, Quota):
            cohort = None if policy.cohort is None else cluster.cohorts[policy.cohort]
            limits += accounts * len(policy.limit if cohort is None else cohort.whole.limit)
        elif isinstance(policy, CapacityOverTime):
            limits += accounts * len(cluster.resources) * (policy.instant is not None)
            averages += accounts * len(cluster.resources) * (policy.window_ms is not None)
            longest = max(longest, (policy.window_ms or 0) // cluster.step_ms)
    limits += sum(len(cohort.whole.limit) for cohort in cluster.cohorts.values())
    some = len(cluster.labels) - len(everywhere)
    return Rows(len(cluster.resources), some, limits, averages, longest)


def cost_of(cluster: Cluster, first: int = 0, end: int | None = None) -> tuple[Part, ...]:
    """Return the cost of planning on a cluster, part by part.

    Parameters
    ----------
    first, end
        The steps of the plan; by default those of the cluster's own horizon.
    """
    last = cluster.horizon_ms // cluster.step_ms if end is None else end
    parts = (_profile, _windows, _machines, _groups, _outages, _quotas, _prices)
    return tuple(part(cluster, first, max(last, first + 1)) for part in parts)


def excesses(cluster: Cluster, first: int = 0, end: int | None = None) -> tuple[Excess, ...]:
    """Return why a cluster is too large to plan on; empty if it is not.

    Parameters
    ----------
    first, end
        As for :func:`cost_of`.
    """
    last = cluster.horizon_ms // cluster.step_ms if end is None else end
    counted = tuple(_too_many(cluster, first, last))
    if counted:
        return counted
    parts = cost_of(cluster, first, end)
    memory, advance = sum(one.memory_bytes for one in parts), sum(one.advance_s for one in parts)
    found = []
    if memory > MOST_BYTES:
        worst = max(parts, key=lambda one: one.memory_bytes)
        cost_text = f"{memory / 2**30:.1f} GiB of memory in each process, at most"
        message = f"{worst.what}: planning takes {cost_text} {MOST_BYTES / 2**30:.1f} GiB may be"
        found.append(Excess(message, worst.pointer, worst.fix))
    elif advance > MOST_ADVANCE_S:
        worst = max(parts, key=lambda one: one.advance_s)
        cost_text = f"{advance:.1f} s, at most {MOST_ADVANCE_S:.1f} s may be"
        message = f"{worst.what}: moving the plan to the next step takes {cost_text}"
        found.append(Excess(message, worst.pointer, worst.fix))
    return tuple(found)


def cells_fit(cells: int, steps: int) -> bool:
    """Return whether a profile with this many cells and steps is within the limits."""
    memory = 8 * (2 * cells + _WORK_ROWS * steps)
    return memory <= MOST_BYTES and cells * _CELL_S <= MOST_ADVANCE_S


def _too_many(cluster: Cluster, first: int, end: int) -> Iterator[Excess]:
    """Yield everything that exceeds a limit on its count."""
    machines = sum(group.count for group in cluster.machines)
    if machines > MOST_MACHINES:
        message = f"{machines:,} machines; at most {MOST_MACHINES:,} can be dispatched to"
        yield Excess(message, "/machines", "describe several machines as one larger machine")
    step = cluster.step_ms
    outages = cluster.outages_between(first * step, end * step)
    away = sum(len(one.indices) for one in outages if one.end_ms > first * step)
    if away > MOST_AWAY:
        message = f"outages name {away:,} machines; at most {MOST_AWAY:,} can be followed"
        yield Excess(message, "/outages", "join outages that overlap")
    lists = {
        "machine groups": ("/machines", len(cluster.machines)),
        "labels": ("/machines", sum(len(group.labels) for group in cluster.machines)),
        "domains": ("/machines", sum(len(group.domains) for group in cluster.machines)),
        "queues": ("/queues", len(cluster.queues)),
        "prices": ("/prices", len(cluster.prices)),
        "policies": ("/policies", len(cluster.policies)),
    }
    for what, (pointer, count) in lists.items():
        if count > MOST_ENTRIES:
            message = f"{count:,} {what}; at most {MOST_ENTRIES:,} can be planned with"
            yield Excess(message, pointer, f"give at most {MOST_ENTRIES:,}")
    yield from _too_long(cluster)


def _too_long(cluster: Cluster) -> Iterator[Excess]:
    """Yield windows whose use would exceed 64 bits."""
    most = MOST_AMOUNT_STEPS // max(1, *cluster.nominal.values()) if cluster.nominal else 0
    for index, policy in enumerate(cluster.policies):
        window_ms = policy.window_ms if isinstance(policy, CapacityOverTime) else None
        if window_ms is not None and window_ms // cluster.step_ms > most:
            message = f"the window {duration_text(window_ms)} is too long to be summed up"
            fix = f"at most {duration_text(most * cluster.step_ms)} is right for these machines"
            yield Excess(message, f"/policies/{index}/window", fix)


def _profile(cluster: Cluster, first: int, end: int) -> Part:
    rows, steps = rows_of(cluster), end - first
    work = _WORK_ROWS + (_PRICE_ROWS if cluster.prices else 0)
    cells = rows.count * steps
    by_memory = MOST_BYTES / (8 * (2 * rows.count + work))
    most = int(min(by_memory, MOST_ADVANCE_S / _CELL_S / max(1, rows.count)))
    made = f"{_count_of(rows.resources, 'resource')}, {_count_of(rows.labels, 'label')} that some"
    made += f" machines carry, {_count_of(rows.limits, 'limit')} of policies"
    what = f"{steps:,} steps x {rows.count:,} rows of the profile ({made})"
    longest = duration_text(most * cluster.step_ms)
    fix = f"with these rows {most:,} steps are right, a horizon of {longest}"
    if steps > cluster.horizon_ms // cluster.step_ms + 1:
        fix += "; the plan reaches further already, so give machines fewer labels for now"
    return Part(what, "/horizon", fix, 8 * (2 * cells + work * steps), cells * _CELL_S)


def _windows(cluster: Cluster, first: int, end: int) -> Part:
    rows = rows_of(cluster)
    cells = rows.averages * (end - first + rows.longest)
    what = f"{rows.averages:,} averages over windows of up to {rows.longest:,} steps"
    fix = "give policies shorter windows, or the cluster a shorter horizon"
    return Part(what, "/policies", fix, 16 * cells, cells * _CELL_S)


def _machines(cluster: Cluster, _first: int, _end: int) -> Part:
    machines, resources = sum(group.count for group in cluster.machines), len(cluster.resources)
    memory = machines * (_MACHINE_BYTES + _AMOUNT_BYTES * resources)
    fix = "give fewer machines, or fewer resources"
    return Part(
        f"{_count_of(machines, 'machine')} x {_count_of(resources, 'resource')}",
        "/machines",
        fix,
        memory,
    )


def _groups(cluster: Cluster, first: int, end: int) -> Part:
    rows, groups = rows_of(cluster), len(cluster.machines)
    count = rows.resources * (1 + rows.labels)
    fix = "join groups that are alike, or give them fewer labels"
    what = f"{count:,} rows x {groups:,} machine groups"
    return Part(what, "/machines", fix, advance_s=count * groups * _GROUP_S)


def _outages(cluster: Cluster, first: int, end: int) -> Part:
    step = cluster.step_ms
    outages = cluster.outages_between(first * step, end * step)
    seen = [one for one in outages if one.end_ms > first * step and one.start_ms < end * step]
    segments = len({at for one in seen for at in (one.start_ms, one.end_ms)}) + 1
    names = {one.machines for one in seen}
    counts = [group.count for group in cluster.machines if group.name in names]
    count = rows_of(cluster)
    rows = count.resources * (1 + count.labels) * len(cluster.machines)
    advance = segments * sum(_AWAY_S + one * _AWAY_MACHINE_S for one in counts)
    what = f"{len(seen):,} outages of {sum(counts):,} machines in {len(names):,} groups"
    fix = "join outages, and leave out what is over"
    memory = 8 * segments * len(cluster.machines)
    return Part(what, "/outages", fix, memory, advance + rows * segments * _SEGMENT_S)


def _quotas(cluster: Cluster, first: int, end: int) -> Part:
    timed = [p for p in cluster.policies if isinstance(p, Quota) and p.needs_origin]
    days = (end - first) * cluster.step_ms // DAY_MS + 1
    rows = sum(
        len(one.limit) * (len(cluster.queues) if one.scope.queue == EACH else 1) for one in timed
    )
    what = f"{len(timed):,} quotas at times of day ({rows:,} rows) on {days:,} days"
    fix = "give fewer quotas at times of day, or a shorter horizon"
    return Part(what, "/policies", fix, advance_s=rows * days * _DAY_S)


def _prices(cluster: Cluster, first: int, end: int) -> Part:
    step = cluster.step_ms
    spans = (min(p.end_ms // step, end) - max(p.start_ms // step, 0) for p in cluster.prices)
    steps = sum(max(0, span) for span in spans)
    what = f"{len(cluster.prices):,} prices for {steps:,} steps"
    fix = "leave out prices that later ones replace"
    return Part(what, "/prices", fix, advance_s=steps * _PRICE_S)


def _count_of(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
