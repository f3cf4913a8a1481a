"""Exposition: figures of the Plan, the machines, optimisation and the build, for Prometheus.

They are the same in every process, because all have the same Plan: the process that is queried
computes them, at most once a second and only if the Plan has changed.
"""

from __future__ import annotations

import logging
import platform
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from typing import Any, Final

import msgspec
import numpy as np
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily

from planner.cluster.calendar import calendar_of
from planner.cluster.cluster import SPARE, Cluster
from planner.plan.plan import Plan
from planner.policy_use import policy_use
from planner.promise import PromiseLevel
from planner.reservations.slots import NOWHERE
from planner.reservations.state import State
from rdl.resources import CPU, MEMORY
from service.clock import Clock
from service.commits.replica import Replica
from service.store.engine import UNAVAILABLE

logger = logging.getLogger("agenda.service")

#: Seconds for which computed figures are reported again without a check.
_FRESH_S: Final = 1.0

_GROUP: Final = ("resource", "group")
_POLICY: Final = ("policy", "tenant", "queue", "agent", "resource", "measure")

#: Tenants with their own label; all with fewer reservations share `OTHERS`.
MOST_TENANTS: Final = 20
OTHERS: Final = "other"

#: Prometheus value of one canonical unit: cores, bytes; other resources are counted.
_SCALES: Final = {CPU: 0.001, MEMORY: 1024.0 * 1024.0}

#: Accounts of one policy with their own labels: the fullest ones.
MOST_ACCOUNTS: Final = 20

#: (resource, group of machines) -> amount in cores, bytes or units.
_GroupAmounts = Mapping[tuple[str, str], float]


class PlanExposition:
    """Exports the figures of a process's Plan in Prometheus' text format.

    Parameters
    ----------
    replica, clock
        The Plan and the time.
    steady_s
        Monotonic clock, seconds.
    """

    def __init__(
        self, replica: Replica, clock: Clock, steady_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._replica = replica
        self._clock = clock
        self._steady_s = steady_s
        self._lock = threading.Lock()
        self._made_s = float("-inf")
        self._seen: tuple[Plan, int, int] | None = None
        self._figures: PlanFigures | None = None
        self._text = b""
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def text(self) -> bytes:
        """Return the figures, cached for a second."""
        with self._lock:
            if self._steady_s() - self._made_s >= _FRESH_S:
                self._text = generate_latest(self._registry)
                self._made_s = self._steady_s()
            return self._text

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield every figure, for prometheus_client."""
        yield _family("agenda_build", "Version of the server.", _build(), 1.0, info=True)
        try:
            figures = self._read()
            gap = self._gap()
        except UNAVAILABLE:
            logger.exception("the figures of the Plan wait for the database")
            return
        yield from _plan_families(figures)
        if gap is not None:
            text = "Gap of the newest optimisation: bound / value - 1."
            yield _family("agenda_optimization_gap", text, {}, gap)

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Yield nothing, so that the Plan is not read while it is being replayed."""
        return iter(())

    def _read(self) -> PlanFigures:
        """Return the figures of the current Plan, computed again only if it has changed."""
        now_ms = self._replica.plan_ms(self._clock.now_ms())
        with self._replica.newest() as plan:
            seen = plan, plan.version, now_ms // plan.grid.step_ms
            if self._figures is None or self._seen != seen:
                self._figures, self._seen = figures_of(plan, now_ms), seen
            return self._figures

    def _gap(self) -> float | None:
        """Return the gap of the newest optimisation with one."""
        for row in self._replica.store.optimizations.page():
            gap = msgspec.json.decode(row.progress).get("gap")
            if gap is not None:
                return float(gap)
        return None


def _build() -> dict[str, str]:
    return {"version": product_version(), "python": platform.python_version()}


def product_version() -> str:
    """Return the version of the installed product; ``unknown`` if it runs from source."""
    try:
        return metadata.version("cluster-agenda")
    except metadata.PackageNotFoundError:
        return "unknown"


def _plan_families(figures: PlanFigures) -> Iterator[GaugeMetricFamily]:
    resource = ("resource",)
    yield _many("agenda_capacity", "Capacity of machines that are up: cores, bytes or units.",
                _GROUP, figures.capacity)  # fmt: skip
    yield _many("agenda_allocated", "Capacity reserved now, on all machines.",
                resource, figures.allocated)  # fmt: skip
    yield _many("agenda_free", "Capacity that is free now, on all machines.",
                resource, figures.free)  # fmt: skip
    yield _many("agenda_promised", "Capacity reserved now on named machines.",
                _GROUP, figures.promised)  # fmt: skip
    yield _many("agenda_machines", "Machines of the cluster.", ("group",), figures.machines)
    yield _many("agenda_machines_out", "Machines that are down now.",
                ("group",), figures.machines_out)  # fmt: skip
    yield _many("agenda_reservations", "Reservations by state; the largest tenants by name.",
                ("state", "tenant"), figures.reservations)  # fmt: skip
    promises = {level.value: count for level, count in figures.promises.items()}
    yield _many("agenda_promises", "Current reservations by promise level.",
                ("promise",), promises)  # fmt: skip
    limits = {one.labels: one.limit for one in figures.policies}
    used = {one.labels: one.used for one in figures.policies}
    peaks = {one.labels: one.peak for one in figures.policies}
    yield _many("agenda_policy_limit", "Limits of policies: cores, bytes, units or reservations.",
                _POLICY, limits)  # fmt: skip
    yield _many("agenda_policy_used", "Present use of a limit.", _POLICY, used)
    yield _many("agenda_policy_peak", "Peak of the reserved use of a limit from now on.",
                _POLICY, peaks)  # fmt: skip
    yield _family("agenda_plan_behind_seconds",
                  "How far the Plan is behind the clock, beyond a step.",
                  {}, figures.behind_s)  # fmt: skip


def _many(
    name: str, text: str, labels: tuple[str, ...], values: Mapping[Any, float]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, value in sorted(values.items()):
        family.add_metric((key,) if isinstance(key, str) else key, value)
    return family


def _family(
    name: str, text: str, labels: Mapping[str, str], value: float, *, info: bool = False
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"{name}_info" if info else name, text, labels=tuple(labels))
    family.add_metric(tuple(labels.values()), value)
    return family


@dataclass(frozen=True, slots=True)
class PlanFigures:
    """Figures of a Plan at its present step; amounts in cores, bytes or units.

    Attributes
    ----------
    allocated, free
        By resource, over all machines.
    capacity, promised
        By resource and machine group: capacity without outages, and the part allocated to slots of
        reservations (pooled promises have no machine). A pool has the group "": its current
        capacity, and the part allocated to all reservations.
    machines, machines_out
        By group: the number of machines, and of those in outages.
    reservations
        Number by state and tenant.
    promises
        Current reservations, by the level of their promise.
    policies
        The limits of policies and their use, at most `MOST_ACCOUNTS` accounts of each policy.
    behind_s
        Delay of the Plan's present step behind the clock, beyond one step.
    """

    version: int
    allocated: Mapping[str, float]
    free: Mapping[str, float]
    capacity: _GroupAmounts
    promised: _GroupAmounts
    machines: Mapping[str, int]
    machines_out: Mapping[str, int]
    reservations: Mapping[tuple[str, str], int]
    promises: Mapping[PromiseLevel, int]
    policies: Sequence[PolicyFigure]
    behind_s: float


@dataclass(frozen=True, slots=True)
class PolicyFigure:
    """One limit of a policy for one account, in cores, bytes, units or reservations.

    Attributes
    ----------
    labels
        Policy, tenant, queue, agent, resource and measure; empty if the policy does not distinguish
        them.
    used, peak
        Current use, and the largest from now on.
    """

    labels: tuple[str, str, str, str, str, str]
    limit: float
    used: float
    peak: float


def figures_of(plan: Plan, now_ms: int) -> PlanFigures:
    """Return the figures of a Plan, whose lock the caller holds; `now_ms` is from its origin."""
    cluster, now = plan.cluster, plan.now
    away = _machines_out(cluster, plan.grid.ms(now))
    allocated, free = _totals(plan)
    late_ms = now_ms - plan.grid.ms(now + 1)
    return PlanFigures(
        plan.version,
        allocated,
        free,
        {
            (name, group.name): _canonical_amount(name, amount * (group.count - away[group.name]))
            for group in cluster.machines
            for name, amount in cluster.on_machines(group.resources).items()
        }
        | {(pool.name, ""): allocated[pool.name] + free[pool.name] for pool in cluster.pools},
        _promise_by_group(plan) | {(pool.name, ""): allocated[pool.name] for pool in cluster.pools},
        {group.name: group.count for group in cluster.machines},
        away,
        limit_tenants(plan.table.counts_by_tenant()),
        plan.table.live_by_level(),
        _policy_figures(plan),
        max(0.0, late_ms / 1000),
    )


def _policy_figures(plan: Plan) -> list[PolicyFigure]:
    """Return the limits and the use of each policy, its fullest accounts first."""
    found: list[PolicyFigure] = []
    for policy in plan.cluster.policies:
        accounts: set[tuple[str | None, str | None, str | None]] = set()
        for use in policy_use(plan, policy):
            account = use.tenant, use.queue, use.agent
            if account not in accounts and len(accounts) == MOST_ACCOUNTS:
                continue
            accounts.add(account)
            resource = use.resource or ""
            labels = (
                policy.name,
                use.tenant or "",
                use.queue or "",
                use.agent or "",
                resource,
                use.measure,
            )
            scale = _SCALES.get(resource, 1.0)
            found.append(
                PolicyFigure(labels, use.limit * scale, use.used * scale, use.peak * scale)
            )
    return found


def _canonical_amount(resource: str, amount: int) -> float:
    """Return a canonical amount in cores, bytes or units."""
    return amount * _SCALES.get(resource, 1.0)


def limit_tenants(counts: Mapping[tuple[str, State], int]) -> dict[tuple[str, str], int]:
    """Return counts by (state, tenant), with all but the largest tenants merged."""
    totals: Counter[str] = Counter()
    for (tenant, _), count in counts.items():
        totals[tenant] += count
    ranked = sorted(totals, key=lambda tenant: (-totals[tenant], tenant))
    named = set(ranked[:MOST_TENANTS])
    told: Counter[tuple[str, str]] = Counter()
    for (tenant, state), count in counts.items():
        told[state.value, tenant if tenant in named else OTHERS] += count
    return dict(told)


def used_by_group(
    held: Iterable[tuple[Mapping[str, int], str]], cluster: Cluster
) -> dict[tuple[str, str], float]:
    """Return the use by components of each group and, as group "", of pools; 0 if none.

    Parameters
    ----------
    held
        Resources of each placed component, and the machine's name.
    """
    pools = {pool.name for pool in cluster.pools}
    canonical = {
        (name, group.name): 0
        for group in cluster.machines
        for name in cluster.on_machines(group.resources)
    } | {(name, ""): 0 for name in pools}
    for resources, machine in held:
        group = machine.rpartition("-")[0]
        for name, amount in resources.items():
            place = name, "" if name in pools else group
            if place in canonical:
                canonical[place] += amount
    return {(name, group): _canonical_amount(name, n) for (name, group), n in canonical.items()}


def _totals(plan: Plan) -> tuple[dict[str, float], dict[str, float]]:
    """Return the allocated and free amounts at the present step, by resource."""
    now = plan.now
    calendar = calendar_of(plan.cluster, now, now + 1)
    column = now - plan.ledger.first
    allocated: dict[str, float] = {}
    free: dict[str, float] = {}
    for row, resource in enumerate(plan.cluster.resources):
        there = int(calendar.dense(calendar.capacity(resource))[0])
        left = int(plan.ledger.free[row, column])
        allocated[resource] = _canonical_amount(resource, there - left)
        free[resource] = _canonical_amount(resource, left)
    return allocated, free


def _machines_out(cluster: Cluster, at_ms: int) -> dict[str, int]:
    """Return the number of machines in outages per group; `at_ms` is from the origin."""
    away: dict[str, set[int]] = {group.name: set() for group in cluster.machines}
    for outage in cluster.outages_at(at_ms):
        if outage.kind != SPARE:
            away[outage.machines].update(outage.indices)
    return {name: len(indices) for name, indices in away.items()}


def _promise_by_group(plan: Plan) -> dict[tuple[str, str], float]:
    """Return the amounts allocated to slots in each group at the present step."""
    groups = plan.cluster.machines
    amounts = {
        (name, group.name): 0.0
        for group in groups
        for name in plan.cluster.on_machines(group.resources)
    }
    table, now = plan.table, plan.now
    numbers = table.holding_between(np.arange(len(table)), now, now + 1)
    placed = np.intersect1d(numbers, table.numbers_of(PromiseLevel.PLACED))
    standing = table.standing_slots(placed)
    slots = standing.slots
    here = (slots[:, 0] <= now) & (slots[:, 1] > now) & (slots[:, 3] != NOWHERE)
    ends = np.cumsum([group.count for group in groups])
    group_of = np.searchsorted(ends, slots[here, 3], side="right")
    kinds, bundles = standing.kind[here], slots[here, 2]
    for number, group in enumerate(groups):
        mine = group_of == number
        for kind in np.unique(kinds[mine]).tolist():
            count = int(bundles[mine & (kinds == kind)].sum())
            for name, amount in plan.cluster.on_machines(standing.kinds[kind][0]).items():
                amounts[name, group.name] += _canonical_amount(name, amount * count)
    return amounts
