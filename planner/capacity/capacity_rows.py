"""The meaning of the rows of the free profile, and the use of them by one bundle.

Rows are only ever appended: the pool's resources first, then one block for each label that some but
not all machines have, then one row for each instant limit of a policy and account in use. So a row
index stays valid for every snapshot of the same cluster.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from planner.cluster.calendar import Calendar
from planner.cluster.cluster import Cluster
from planner.cluster.cost import cells_fit
from planner.cluster.policy import EACH, CapacityOverTime, Policy, Quota
from planner.view import Demand
from rdl.compound import Compound, Member
from rdl.resources import Resources
from rdl.time_grid import TimeGrid

Account: TypeAlias = "tuple[str | None, str | None]"


@dataclass(frozen=True, slots=True)
class CapacityRow:
    """One row of the free profile.

    Attributes
    ----------
    what
        ``pool``, ``label:NAME``, ``capacity_over_time:NAME`` or ``quota:NAME``; ``quota:cohort
        NAME`` for the sum of a cohort.
    resource
        The resource it counts.
    label
        Label of the machines it covers, or None.
    policy
        The policy whose limit it is, or None for capacity.
    """

    what: str
    resource: str
    label: str | None = None
    policy: CapacityOverTime | Quota | None = None


@dataclass(frozen=True, slots=True)
class WindowRow:
    """One row of the slack of window averages: `limit` amount-steps in any `window` steps."""

    policy: str
    resource: str
    window: int
    limit: int


@dataclass(frozen=True, slots=True)
class PolicyAccount:
    """A row in which a policy counts the use of one account.

    Attributes
    ----------
    account
        (tenant, queue); None counts all of them together.
    row
        In `CapacityRows.rows`, or in `CapacityRows.averages` if `average`.
    """

    policy: CapacityOverTime | Quota
    account: Account
    resource: str
    row: int
    average: bool


class CapacityRows:
    """Rows of one cluster description; all its snapshots share them.

    Attributes
    ----------
    rows, averages
        Append-only.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.rows: list[CapacityRow] = [
            CapacityRow("pool", resource) for resource in cluster.resources
        ]
        self.averages: list[WindowRow] = []
        self._index: dict[tuple[Any, ...], int] = {
            (None, row.resource): number for number, row in enumerate(self.rows)
        }
        self._scopes: dict[tuple[str, str], tuple[_Limit, ...]] = {}
        self._lock = threading.Lock()
        some = [
            label
            for label in cluster.labels
            if any(label not in group.labels for group in cluster.machines)
        ]
        for label in some:
            for resource in cluster.resources:
                self._append((label, resource), CapacityRow(f"label:{label}", resource, label))
        windows = [
            policy.window_ms // cluster.step_ms
            for policy in cluster.policies
            if isinstance(policy, CapacityOverTime) and policy.window_ms is not None
        ]
        #: Steps of the longest averaging window, 0 without any.
        self.longest_window: int = max(windows, default=0)

    def demand(
        self, bundle: Resources, label: str | None, tenant: str, queue: str, calendar: Calendar
    ) -> Demand:
        """Return a bundle's use; appends rows for new scopes.

        For a compound, the row of a label counts the members with that label, and the number that
        fits on machines is the least over its members.
        """
        members: tuple[Member, ...] = (Member(bundle, 1, label),)
        if isinstance(bundle, Compound):
            members = bundle.members
        taken: dict[int, int] = {}
        averages: list[int] = []
        average_amounts: list[int] = []
        for one in members:
            for resource, amount in one.bundle.items():
                for key in dict.fromkeys(((None, resource), (one.label, resource))):
                    number = self._index.get(key)
                    if number is not None:
                        taken[number] = taken.get(number, 0) + amount * one.count
        for limit in self._limits(tenant, queue):
            amount = bundle.get(limit.resource, 0)
            if amount and limit.average:
                averages.append(limit.number)
                average_amounts.append(amount)
            elif amount:
                taken[limit.number] = amount
        fits = [calendar.fit(one.bundle, one.label) // one.count for one in members]
        fit = tuple(np.minimum.reduce(fits).tolist())
        rows, amounts = tuple(taken), tuple(taken.values())
        return Demand(rows, amounts, fit, tuple(averages), tuple(average_amounts))

    def lends(self, row: int) -> bool:
        """Return whether the limit of a row rises over time, as for a quota that lends."""
        policy = self.rows[row].policy
        return isinstance(policy, Quota) and policy.cohort is not None

    def has_room_for(self, tenant: str, queue: str, steps: int) -> bool:
        """Return whether there is space for the rows of a scope; if so, add them."""
        if (tenant, queue) in self._scopes:
            return True
        rows, averages = len(self.rows), len(self.averages)
        for one in self._scope(tenant, queue):
            if one.key not in self._index:
                averages += one.average
                rows += not one.average
        if not cells_fit(rows * steps + averages * (steps + self.longest_window), steps):
            return False
        self._limits(tenant, queue)
        return True

    def accounts_of(self, policy: CapacityOverTime | Quota) -> list[PolicyAccount]:
        """Return the accounts of a policy: those in use so far, and the one that it names."""
        scope = policy.scope
        if EACH not in (scope.tenant, scope.queue):
            with self._lock:
                for one in self._counted(policy, (scope.tenant, scope.queue)):
                    self._number(one)
        with self._lock:
            known = list(self._index.items())
        return [
            PolicyAccount(policy, *key[1:3], row, key[3])
            for key, row in known
            if len(key) == 4 and key[0] == policy.name
        ]

    def _limits(self, tenant: str, queue: str) -> tuple[_Limit, ...]:
        known = self._scopes.get((tenant, queue))
        if known is None:
            with self._lock:
                known = self._open_scope(tenant, queue)
                self._scopes[tenant, queue] = known
        return known

    def _open_scope(self, tenant: str, queue: str) -> tuple[_Limit, ...]:
        scope = self._scope(tenant, queue)
        return tuple(_Limit(self._number(one), one.resource, one.average) for one in scope)

    def _scope(self, tenant: str, queue: str) -> Iterator[_Counted]:
        """Yield all that counts the use by (tenant, queue)."""
        for policy in self.cluster.policies:
            account = policy.scope.key(tenant, queue)
            if account is not None:
                yield from self._counted(policy, account)
                if isinstance(policy, Quota) and policy.cohort is not None:
                    whole = self.cluster.cohorts[policy.cohort].whole
                    yield from self._counted(whole, (None, None))

    def _counted(self, policy: Policy, account: Account) -> Iterator[_Counted]:
        if isinstance(policy, Quota):
            bounded = policy.limit
            if policy.cohort is not None:
                bounded = self.cluster.cohorts[policy.cohort].whole.limit
            for resource, _ in bounded:
                yield _Counted(policy, account, resource)
        elif isinstance(policy, CapacityOverTime):
            for resource in self.cluster.resources:
                if policy.instant is not None:
                    yield _Counted(policy, account, resource)
                if policy.window_ms is not None:
                    yield _Counted(policy, account, resource, average=True)

    def _number(self, one: _Counted) -> int:
        """Return the row of a counted resource; add it at first use."""
        policy, resource = one.policy, one.resource
        if not (one.average and isinstance(policy, CapacityOverTime)):
            kind = "quota" if isinstance(policy, Quota) else "capacity_over_time"
            return self._append(
                one.key, CapacityRow(f"{kind}:{policy.name}", resource, policy=policy)
            )
        number = self._index.get(one.key)
        if number is None:
            window = (policy.window_ms or 0) // self.cluster.step_ms
            limit = policy.average_limit(self.cluster.nominal[resource], window) or 0
            number = self._index[one.key] = len(self.averages)
            self.averages.append(WindowRow(policy.name, resource, window, limit))
        return number

    def _append(self, key: tuple[Any, ...], row: CapacityRow) -> int:
        number = self._index.get(key)
        if number is None:
            number = len(self.rows)
            self.rows.append(row)
            self._index[key] = number
        return number


@dataclass(frozen=True, slots=True)
class _Counted:
    """A resource that a policy counts for one account, at each instant or on average."""

    policy: CapacityOverTime | Quota
    account: Account
    resource: str
    average: bool = False

    @property
    def key(self) -> tuple[Any, ...]:
        """Unique key of its row."""
        return self.policy.name, self.account, self.resource, self.average


@dataclass(frozen=True, slots=True)
class _Limit:
    """A row of a policy that counts the use by one (tenant, queue)."""

    number: int
    resource: str
    average: bool


def terms_of(demand: Demand, book: CapacityRows) -> NDArray[np.int64]:
    """Return a bundle's use as one array, in the layout that `profile_kernels` describes."""
    terms = [len(demand.rows), len(demand.averages), len(demand.fit)]
    for row, amount in zip(demand.rows, demand.amounts, strict=True):
        terms += [row, amount]
    for number, amount in zip(demand.averages, demand.average_amounts, strict=True):
        terms += [number, amount, book.averages[number].window]
    return np.array([*terms, *demand.fit], dtype=np.int64)


def limit_of(row: CapacityRow, calendar: Calendar, grid: TimeGrid, first: int) -> NDArray[np.int64]:
    """Return int64[horizon - first]: the capacity of `row` without any reservation.

    The limit of a policy is at most the capacity of all machines. When the policy does not apply,
    its limit is exactly that, so it adds no limit. So no value means "unlimited", and the sum of a
    row over the plan stays within `MOST_AMOUNT_STEPS`, as for machines. The row of a quota that
    lends has a higher limit from `first`, the present step, until its lending time ends.
    """
    if row.policy is None:
        return calendar.dense(calendar.capacity(row.resource, row.label))
    nominal = calendar.cluster.nominal.get(row.resource, 0)
    values = np.full(grid.horizon - first, nominal, dtype=np.int64)
    if isinstance(row.policy, CapacityOverTime):
        limit = row.policy.instant_limit(nominal)
        return values if limit is None else np.minimum(values, limit)
    if row.policy.cohort is not None:
        values[:] = min(dict(row.policy.guarantee).get(row.resource, 0), nominal)
        cohort = calendar.cluster.cohorts[row.policy.cohort]
        borrowed_until = row.policy.lend_ms // grid.step_ms
        values[:borrowed_until] = min(cohort.lends_to(row.policy, row.resource), nominal)
        return values
    most = min(dict(row.policy.limit)[row.resource], nominal)
    for start, end in _times_of(row.policy, grid, first):
        values[start - first : end - first] = most
    return values


def _times_of(policy: Quota, grid: TimeGrid, first: int) -> Iterator[tuple[int, int]]:
    """Yield the steps [start, end) from `first` on at which a quota applies."""
    if not policy.needs_origin:
        yield first, grid.horizon
        return
    if grid.origin is None:
        raise ValueError(f"policy {policy.name!r} applies at times of day and needs an origin")
    for start, end in policy.intervals(grid.origin, grid.ms(first), grid.horizon_ms):
        yield grid.floor(start), grid.ceil(end)
