"""The description of a cluster: machines, outages, queues, prices, policies and dispatch."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from functools import cached_property
from itertools import count
from typing import TypeAlias
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from planner.cluster.dispatch_policy import DispatchPolicy
from planner.cluster.memory_share import MemoryShares
from planner.cluster.optimization_schedule import OptimizationSchedule
from planner.cluster.policy import (
    AgentLimit,
    ApplicationQuota,
    Cohort,
    DisplacementRule,
    Policy,
    Quota,
    Scope,
    cohorts_of,
)
from planner.cluster.recurrence import Recurrence
from planner.promise import PromiseLevel
from rdl.compile.context import CompileContext, MachineShape
from rdl.limits import DEFAULT_LIMITS, SourceLimits
from rdl.resources import Resources, format_amount
from rdl.text_file import name_form
from rdl.time_grid import TimeGrid, duration_text

DEFAULT_QUEUE = "default"
DAY_MS = 86_400_000

#: The Plan has eight bytes per step and resource: 50 million steps are over a year of seconds.
MOST_STEPS = 50_000_000

#: Largest total of a resource, in its smallest units, times steps: sums stay inside 64 bits.
MOST_AMOUNT_STEPS = 2**62


#: Kinds of outages that a server maintains itself: what others have reserved in its Slurm, and
#: spare machines, which work but have no promises, so that they can replace lost machines.
RESERVED, SPARE = "reserved", "spare"

#: Words for `Cluster.memory_per_cpu` in files: as much as machines have per core, and none.
BY_MACHINES, NO_MEMORY = "machines", "none"

#: End of an endless recurring outage, in ms from the origin.
FOREVER_MS = 2**53

#: Kinds of outages; the first is the default.
OUTAGE_KINDS = ("maintenance", "loss", "drain", RESERVED, SPARE)


class ClusterError(ValueError):
    """An invalid cluster; the message suggests a fix."""


@dataclass(frozen=True, slots=True)
class MachineGroup:
    """`count` identical machines; machine i is called ``name-i``, i from 0.

    `domains` are sorted pairs of a domain and its value, such as ``("rack", "r1")``: the machines
    share it with other groups of the same value.
    """

    name: str
    count: int
    resources: Resources
    labels: frozenset[str] = frozenset()
    domains: tuple[tuple[str, str], ...] = ()

    def machine_names(self) -> list[str]:
        """Return the names of its machines."""
        return [f"{self.name}-{index}" for index in range(self.count)]


@dataclass(frozen=True, slots=True)
class Outage:
    """Machines of one group that are down in [start_ms, end_ms) from the origin.

    `indices` are machine numbers within the group, chosen once, when the outage is added. `kind`,
    `reason` and `by` (the user) are for people. A cluster gives an `id` to an outage that has none.
    Comparison ignores ids and reasons. An outage that `recurs` has the first occurrence [start_ms,
    end_ms); `Cluster.outages_between` returns the occurrences.
    """

    machines: str
    indices: tuple[int, ...]
    start_ms: int
    end_ms: int
    kind: str = OUTAGE_KINDS[0]
    id: str = field(default="", compare=False)
    reason: str = field(default="", compare=False)
    by: str = field(default="", compare=False)
    recurs: Recurrence | None = None

    @property
    def over_ms(self) -> int:
        """End of its last occurrence, ms from the origin; `FOREVER_MS` if it is endless."""
        if self.recurs is None:
            return self.end_ms
        return FOREVER_MS if self.recurs.until_ms is None else self.recurs.until_ms

    def is_other_part(self, other: Outage) -> bool:
        """Return whether both are parts of one outage: equal except for their machines."""
        return replace(self, indices=other.indices) == other and self.id == other.id


@dataclass(frozen=True, slots=True)
class Pool:
    """`count` units of a cluster-wide resource that no machine has, such as licences.

    Bundles request it by its name. Outages name it as they name a group of machines; they take
    units ``name-0``, ``name-1``, ... of it.

    Attributes
    ----------
    start_ms, end_ms
        Time in which the units exist, ms from the origin; None is unbounded.
    """

    name: str
    count: int
    start_ms: int | None = None
    end_ms: int | None = None


def outage_id(text: str, taken: Collection[str]) -> str:
    """Return an unused id for an outage, derived from a text that describes it."""
    for number in count():
        id_ = f"o-{hashlib.sha256(f'{text} {number}'.encode()).hexdigest()[:12]}"
        if id_ not in taken:
            return id_
    raise AssertionError


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue; one that is not reservable serves best-effort work only."""

    name: str
    reservable: bool = True

    def __post_init__(self) -> None:
        """Normalize the name."""
        object.__setattr__(self, "name", name_form(self.name))


@dataclass(frozen=True, slots=True)
class Price:
    """Cost factor of the steps in [start_ms, end_ms); 1 without a price."""

    start_ms: int
    end_ms: int
    factor: float


#: A name, and its dates, ascending.
Calendar: TypeAlias = tuple[str, tuple[date, ...]]

#: A machine, and what something outside the Plan uses of it.
Taken: TypeAlias = tuple[str, Resources]


@dataclass(frozen=True)
class Cluster:
    """The cluster to plan on; see `planner.files` for its TOML form.

    Attributes
    ----------
    step_ms, horizon_ms
        Length of a step; length of the planning horizon (from the origin in files, from now in a
        service).
    origin
        Aware UTC instant of step 0, or None.
    max_period_ms
        Period of endless recurring requests.
    promise, promise_choices
        Default promise level of a reservation, and other levels that a request may choose.
    dispatch
        How the dispatcher serves work.
    calendars
        Named sets of dates that requests may exclude.
    optimizations
        When a service optimizes the Plan automatically.
    zone
        Time zone of displayed times if a request names none; None is UTC.
    outages
        Outages of existing machines; ids are unique.
    absent
        Outages of machines that their group does not have now: they apply when the machines come
        back. If part of an outage is in `outages`, both parts have the same id.
    memory_per_cpu
        MiB per core that a server adds to a bundle without memory; None: as much as the machines
        have per core (`planner.cluster.memory_share`).
    pools
        Cluster-wide resources. For agents and machines each is a resource of which every machine
        has `count`, and all machines together have no more than that: so a pool limits what is
        promised at an instant, but not on which machine. `machines` include it already.
    taken
        What something outside the Plan uses of single machines from now on, which have as much
        less; by machine, at most what the machine has. Machines that there are not are left out.
    """

    step_ms: int
    horizon_ms: int
    machines: tuple[MachineGroup, ...]
    origin: datetime | None = None
    max_period_ms: int = DAY_MS
    outages: tuple[Outage, ...] = ()
    queues: tuple[Queue, ...] = field(default=(Queue(DEFAULT_QUEUE),))
    prices: tuple[Price, ...] = ()
    policies: tuple[Policy, ...] = ()
    promise: PromiseLevel = PromiseLevel.POOLED
    promise_choices: tuple[PromiseLevel, ...] = ()
    dispatch: DispatchPolicy = field(default=DispatchPolicy())
    calendars: tuple[Calendar, ...] = ()
    optimizations: tuple[OptimizationSchedule, ...] = ()
    zone: str | None = None
    absent: tuple[Outage, ...] = ()
    memory_per_cpu: int | None = None
    pools: tuple[Pool, ...] = ()
    taken: tuple[Taken, ...] = ()

    def __post_init__(self) -> None:
        """Assign ids to outages, and check that names are unique and known.

        Raises
        ------
        ClusterError
            For the first problem.
        """
        names = [group.name for group in self.machines]
        pools = {pool.name: pool.count for pool in self.pools}
        _must_be_unique("machine group", names)
        _must_be_unique("pool", [*(names if pools else ()), *(pool.name for pool in self.pools)])
        if pools:
            with_pools = tuple(
                replace(group, resources=Resources.of({**group.resources, **pools}))
                for group in self.machines
            )
            object.__setattr__(self, "machines", with_pools)
        _must_be_unique("queue", [queue.name for queue in self.queues])
        _must_be_unique("policy", [policy.name for policy in self.policies])
        _must_be_unique("optimization", [one.name for one in self.optimizations])
        for group in self.machines:
            _must_be_unique(f"a domain of {group.name},", [name for name, _ in group.domains])
        if self.horizon_ms < self.step_ms:
            raise ClusterError(
                f"the horizon {duration_text(self.horizon_ms)} is shorter than a step of "
                f"{duration_text(self.step_ms)}"
            )
        if self.horizon_ms // self.step_ms > MOST_STEPS:
            raise ClusterError(
                f"the horizon {duration_text(self.horizon_ms)} is more than {MOST_STEPS:,} steps "
                f"of {duration_text(self.step_ms)}; take longer steps"
            )
        if self.taken:
            object.__setattr__(self, "taken", self._taken_of_present())
        self._check_totals()
        self._check_calendar()
        sizes = self.sizes()
        for outage in self.outages:
            size = sizes.get(outage.machines)
            if size is None:
                raise ClusterError(f"an outage names unknown machines {outage.machines!r}")
            if any(not 0 <= index < size for index in outage.indices):
                raise ClusterError(f"an outage names machines outside {outage.machines}-0..{size}")
        for outage in self.absent:
            if any(index < sizes.get(outage.machines, 0) for index in outage.indices):
                raise ClusterError(f"{outage.machines} has machines that are listed as absent")
        self._identify()

    def _identify(self) -> None:
        """Assign an id to each outage without one, or with the id of another.

        If outages have the same id, the one that ends last keeps it.
        """
        given = (*self.outages, *self.absent)
        holders: dict[str, Outage] = {}
        for one in sorted(given, key=lambda one: -one.over_ms):
            holders.setdefault(one.id, one)
        if "" not in holders and len(holders) == len(given):
            return
        taken = set(holders)
        for name in ("outages", "absent"):
            found: list[Outage] = []
            kept: set[str] = set()
            for one in getattr(self, name):
                if one.id and one.id not in kept and holders[one.id].is_other_part(one):
                    kept.add(one.id)
                else:
                    text = f"{one.machines} {one.indices} {one.start_ms} {one.end_ms} {one.kind}"
                    text += "" if one.recurs is None else f" {one.recurs}"
                    one = replace(one, id=outage_id(text, taken))
                    taken.add(one.id)
                found.append(one)
            object.__setattr__(self, name, tuple(found))

    def _taken_of_present(self) -> tuple[Taken, ...]:
        found: dict[str, Resources] = {}
        groups = {group.name: group for group in self.machines}
        for name, amounts in self.taken:
            group, index = split_machine(name)
            if group in groups and 0 <= index < groups[group].count:
                whole = self.on_machines(groups[group].resources)
                some = {kind: min(amounts.get(kind, 0), has) for kind, has in whole.items()}
                found[name] = Resources.of({kind: n for kind, n in some.items() if n > 0})
        return tuple((name, some) for name, some in sorted(found.items()) if some)

    @cached_property
    def reduced(self) -> tuple[tuple[int, int, Resources], ...]:
        """Group, number over all groups, and what is left of each machine of which some is taken.

        Resources of which nothing is left are missing.
        """
        first = 0
        place: dict[str, tuple[int, int]] = {}
        for at, group in enumerate(self.machines):
            place[group.name] = at, first
            first += group.count
        found = []
        for name, amounts in self.taken:
            group_name, index = split_machine(name)
            at, first = place[group_name]
            whole = self.machines[at].resources
            left = {kind: has - amounts.get(kind, 0) for kind, has in whole.items()}
            found.append((at, first + index, Resources.of({k: n for k, n in left.items() if n})))
        return tuple(found)

    @cached_property
    def left(self) -> Mapping[str, Resources]:
        """What is left of each machine of which some is taken, by name."""
        found = zip(self.taken, self.reduced, strict=True)
        return {name: left for (name, _), (_, _, left) in found}

    def outages_between(self, from_ms: int, to_ms: int) -> tuple[Outage, ...]:
        """Return outages of machines; of recurring ones, each occurrence in [from_ms, to_ms).

        Occurrences have the id of their outage. Outages that do not recur are returned whatever
        their time.
        """
        if not self.recurs and not self.pools:
            return self.outages
        return self._occurrences(from_ms, to_ms, of_pools=False)

    def pool_outages_between(self, from_ms: int, to_ms: int) -> tuple[Outage, ...]:
        """Return the outages of pools, as :meth:`outages_between` does for machines."""
        return self._occurrences(from_ms, to_ms, of_pools=True) if self.pools else ()

    def _occurrences(self, from_ms: int, to_ms: int, *, of_pools: bool) -> tuple[Outage, ...]:
        pools = {pool.name for pool in self.pools}
        found: list[Outage] = []
        for one in self.outages:
            if (one.machines in pools) != of_pools:
                continue
            if one.recurs is None:
                found.append(one)
                continue
            spans = one.recurs.spans((one.start_ms, one.end_ms), self.origin, from_ms, to_ms)
            found += [replace(one, start_ms=a, end_ms=b, recurs=None) for a, b in spans]
        return tuple(found)

    def outages_at(self, at_ms: int) -> list[Outage]:
        """Return the outages of machines in force at an instant."""
        near = self.outages_between(at_ms, at_ms + 1)
        return [one for one in near if one.start_ms <= at_ms < one.end_ms]

    @cached_property
    def recurs(self) -> bool:
        """Whether any outage recurs."""
        return any(one.recurs is not None for one in self.outages)

    def described_outages(self) -> list[tuple[Outage, tuple[int, ...]]]:
        """Return each outage once, with the indices of its absent machines."""
        absent = {one.id: one for one in self.absent}
        found = [
            (one, absent.pop(one.id).indices if one.id in absent else ()) for one in self.outages
        ]
        return found + [(replace(one, indices=()), one.indices) for one in absent.values()]

    def _check_totals(self) -> None:
        """Check that the capacity of all machines, summed over the plan, fits in 64 bits."""
        steps = self.horizon_ms // self.step_ms
        most = MOST_AMOUNT_STEPS // steps
        for name, amount in self.nominal.items():
            if amount > most:
                raise ClusterError(
                    f"all machines together offer {format_amount(name, amount)}; over {steps:,} "
                    f"steps at most {format_amount(name, most)} can be counted"
                )

    def _check_calendar(self) -> None:
        """Check that every step and the days around it have a date in every zone."""
        if self.origin is None:
            return
        days = timedelta(days=3)
        try:
            _ = self.origin - days, self.origin + timedelta(milliseconds=self.horizon_ms) + days
        except OverflowError as error:
            raise ClusterError(
                f"the horizon {duration_text(self.horizon_ms)} from the origin "
                f"{self.origin.isoformat()} leaves the calendar; take a present-day origin"
            ) from error

    def with_origin(self, now: datetime) -> Cluster:
        """Return the cluster with an origin: its own, else the coming midnight of its zone."""
        if self.origin is not None:
            return self
        zone = ZoneInfo(self.zone or "UTC")
        today = now.astimezone(zone).date()
        midnight = datetime.combine(today + timedelta(days=1), time(), zone)
        return replace(self, origin=midnight.astimezone(UTC))

    def grid(self) -> TimeGrid:
        """Return the grid from the origin to the horizon.

        Raises
        ------
        ClusterError
            If a quota applies at times of day, or an outage recurs on dates, and there is no
            origin.
        """
        dated = [one.id for one in self.outages if one.recurs and one.recurs.needs_origin]
        if dated and self.origin is None:
            raise ClusterError(f"outage {dated[0]!r} recurs on dates; give the cluster an origin")
        timed = [p.name for p in self.policies if isinstance(p, Quota) and p.needs_origin]
        if timed and self.origin is None:
            raise ClusterError(
                f"policy {timed[0]!r} holds at times of day; give the cluster an origin"
            )
        steps = self.horizon_ms // self.step_ms
        return TimeGrid(self.step_ms, steps, self.origin, self.zone)

    @cached_property
    def nominal(self) -> Resources:
        """Total of all machines and pools, without outages."""
        total: dict[str, int] = {}
        for group in self.machines:
            for name, amount in group.resources.items():
                total[name] = total.get(name, 0) + amount * group.count
        return Resources.of(total | {pool.name: pool.count for pool in self.pools})

    @cached_property
    def reference(self) -> Resources:
        """The largest amount of each resource on one machine: the unit of sizes and values.

        It does not depend on the number of machines, so the value of a request does not either.
        """
        most: dict[str, int] = {}
        for group in self.machines:
            for name, amount in group.resources.items():
                most[name] = max(most.get(name, 0), amount)
        return Resources.of(most)

    @cached_property
    def resources(self) -> tuple[str, ...]:
        """Names of all resources of machines and pools, sorted."""
        return tuple(self.nominal)

    def sizes(self) -> dict[str, int]:
        """Return the count of each machine group and pool, by the name that outages use."""
        sizes = {group.name: group.count for group in self.machines}
        return sizes | {pool.name: pool.count for pool in self.pools}

    def pool(self, name: str | None) -> Pool | None:
        """Return the pool of a resource; None for a resource of machines."""
        return next((pool for pool in self.pools if pool.name == name), None)

    def on_machines(self, amounts: Resources) -> Resources:
        """Return amounts without those of pools."""
        if not self.pools:
            return amounts
        names = {pool.name for pool in self.pools}
        return Resources.of({n: amount for n, amount in amounts.items() if n not in names})

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """All labels of machines, sorted."""
        return tuple(sorted(frozenset().union(*(group.labels for group in self.machines))))

    @cached_property
    def cohorts(self) -> dict[str, Cohort]:
        """Quotas that lend to each other, by the name of their cohort."""
        return cohorts_of(self.policies)

    @cached_property
    def displacement_rules(self) -> tuple[DisplacementRule, ...]:
        """Policies that let requests displace reservations; none by default."""
        return tuple(one for one in self.policies if isinstance(one, DisplacementRule))

    @cached_property
    def application_quotas(self) -> tuple[ApplicationQuota, ...]:
        """Quotas of applications; without a reservation they get nothing of a pool."""
        given = (one for one in self.policies if isinstance(one, ApplicationQuota))
        names = (pool.name for pool in self.pools)
        return (*given, *(ApplicationQuota(f"pool {n}", Scope(), ((n, 0),)) for n in names))

    @cached_property
    def agent_limits(self) -> tuple[AgentLimit, ...]:
        """Policies that limit agents."""
        return tuple(one for one in self.policies if isinstance(one, AgentLimit))

    @cached_property
    def machine_names(self) -> tuple[str, ...]:
        """Names of all machines by number, group after group."""
        return tuple(name for group in self.machines for name in group.machine_names())

    def shapes(self) -> tuple[MachineShape, ...]:
        """Return the machine and labels of each group, for the checker."""
        return self._shapes

    @cached_property
    def _shapes(self) -> tuple[MachineShape, ...]:
        return tuple(
            MachineShape(g.name, g.resources, g.labels, g.count, g.domains) for g in self.machines
        )

    def context(
        self,
        grid: TimeGrid,
        submitted_ms: int,
        *,
        exact_work: bool = False,
        limits: SourceLimits = DEFAULT_LIMITS,
    ) -> CompileContext:
        """Return the context for compiling a request submitted at a time, on a Plan's grid."""
        return CompileContext(
            grid,
            submitted_ms,
            self.shapes(),
            self.max_period_ms,
            exact_work,
            limits,
            self.calendars,
        )

    def queue(self, name: str) -> Queue | None:
        """Return a queue by name, or None."""
        return next((queue for queue in self.queues if queue.name == name), None)

    @cached_property
    def memory_shares(self) -> MemoryShares:
        """The memory that is added to bundles without memory."""
        kinds = ((group.resources, group.labels) for group in self.machines if group.count)
        return MemoryShares(kinds, self.memory_per_cpu)

    def price_factors(self, grid: TimeGrid) -> NDArray[np.float64]:
        """Return float64[horizon]: the cost factor of every step; later entries win."""
        factors = np.ones(grid.horizon)
        for price in self.prices:
            start, end = grid.floor(price.start_ms), grid.ceil(price.end_ms)
            factors[max(0, start) : max(0, end)] = price.factor
        return factors


def _must_be_unique(what: str, names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ClusterError(f"{what} {name!r} is given twice")
        seen.add(name)


def renumbered_machines(before: Cluster, after: Cluster) -> NDArray[np.int64]:
    """Return int64[previous machines]: the new number of each machine, -1 if it was removed.

    Machines are the same if the group name and the index in the group are equal.
    """
    first, place = 0, {}
    for group in after.machines:
        place[group.name] = (first, group.count)
        first += group.count
    parts = [np.zeros(0, dtype=np.int64)]
    for group in before.machines:
        begin, count = place.get(group.name, (0, 0))
        numbers = np.arange(group.count, dtype=np.int64)
        parts.append(np.where(numbers < count, numbers + begin, -1))
    return np.concatenate(parts)


def groups_with(cluster: Cluster, label: str | None) -> list[int]:
    """Return the indices of the machine groups with `label` (all for None)."""
    return [
        index
        for index, group in enumerate(cluster.machines)
        if label is None or label in group.labels
    ]


def split_machine(name: str) -> tuple[str, int]:
    """Return the group and the index of a machine's name; -1 if it has none."""
    group, _, index = name.rpartition("-")
    is_index = index.isascii() and index.isdecimal() and str(int(index)) == index
    return group, int(index) if is_index else -1


def bundles_per_machine(machine: Resources, bundle: Mapping[str, int]) -> int:
    """Return how many concurrent bundles fit on one machine."""
    return min((machine.get(name, 0) // amount for name, amount in bundle.items()), default=0)
