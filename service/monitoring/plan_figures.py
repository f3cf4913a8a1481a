"""PlanFigures: figures of the Plan and the machines at one instant, for Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from planner.cluster.calendar import calendar_of
from planner.cluster.cluster import SPARE, Cluster
from planner.plan.plan import Plan
from planner.policy_use import policy_use
from planner.promise import PromiseLevel
from planner.reservations.slots import NOWHERE
from planner.reservations.state import State
from rdl.resources import CPU, MEMORY

#: Tenants with their own label; all with fewer reservations share `OTHERS`.
MOST_TENANTS: Final = 20
OTHERS: Final = "other"

#: Prometheus value of one canonical unit: cores, bytes; other resources are counted.
_SCALES: Final = {CPU: 0.001, MEMORY: 1024.0 * 1024.0}

#: Accounts of one policy with their own labels: the fullest ones.
MOST_ACCOUNTS: Final = 20

#: (resource, group of machines) -> amount in cores, bytes or units.
GroupAmounts = Mapping[tuple[str, str], float]


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
    capacity: GroupAmounts
    promised: GroupAmounts
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
            (name, group.name): canonical_amount(name, amount * (group.count - away[group.name]))
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


def canonical_amount(resource: str, amount: int) -> float:
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
    return {(name, group): canonical_amount(name, n) for (name, group), n in canonical.items()}


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
        allocated[resource] = canonical_amount(resource, there - left)
        free[resource] = canonical_amount(resource, left)
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
                amounts[name, group.name] += canonical_amount(name, amount * count)
    return amounts
