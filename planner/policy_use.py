"""The use of each policy: reserved amounts and limits, by account."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from planner.capacity.capacity_rows import PolicyAccount, limit_of
from planner.cluster.policy import EACH, AgentLimit, CapacityOverTime, Policy, Quota, RequestLimits
from planner.plan.batch.agent_limits import AgentUse
from planner.plan.column_reading import scope_column
from planner.plan.state import PlanState
from planner.reservations.state import LIVE, STATE_NUMBERS

#: What a limit measures: amounts at an instant, their average over a window, or a number.
INSTANT: Final = "instant"
AVERAGE: Final = "average"
RESERVATIONS: Final = "reservations"
APPLICATIONS: Final = "applications"
MEASURES: Final = (INSTANT, AVERAGE, RESERVATIONS, APPLICATIONS)


@dataclass(frozen=True, slots=True)
class PolicyUse:
    """The use of one limit by one account.

    Attributes
    ----------
    tenant, queue, agent
        The account; None counts all of them together.
    measure
        One of `MEASURES`.
    resource
        None for a count of reservations.
    limit
        In the resource's smallest unit; for an average, the average amount.
    used
        Present use; for an average, over the window that ends with the present step.
    peak, peak_at
        The largest use from now on, while the policy applies, and its first step; for an average,
        the largest of any window that has not ended, and its first step.
    applies
        Whether it limits anything at the present step (quotas may have times of day).
    window_ms
        Window of an average.
    guarantee
        For a quota that lends, in the resource's smallest unit; use beyond it is borrowed, and
        `limit` includes amounts that may be borrowed.
    """

    tenant: str | None
    queue: str | None
    measure: str
    resource: str | None
    limit: float
    used: float
    peak: float
    peak_at: int
    agent: str | None = None
    applies: bool = True
    window_ms: int | None = None
    guarantee: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class UseSeries:
    """The use of one limit by one account, step by step.

    Attributes
    ----------
    tenant, queue, agent, measure, resource, limit, window_ms, guarantee
        As in `PolicyUse`.
    first
        Step of the first value: the present step.
    used
        int64[n] or float64[n], reserved amount at each step; for an average, over the window that
        ends with that step; for a count, the present reservations that have not ended.
    limits
        int64[n] or float64[n], the amount that may be reserved at each step: `limit`, but for a
        quota that lends only its guarantee in steps too far ahead to borrow.
    applies
        bool[n]: whether the limit applies at each step.
    """

    tenant: str | None
    queue: str | None
    measure: str
    resource: str | None
    limit: float
    first: int
    used: NDArray[np.int64] | NDArray[np.float64]
    limits: NDArray[np.int64] | NDArray[np.float64]
    applies: NDArray[np.bool_]
    agent: str | None = None
    window_ms: int | None = None
    guarantee: int | None = None

    def summary(self, step_ms: int) -> PolicyUse:
        """Return the use at the first step, and the peak."""
        shown = np.where(self.applies, self.used, 0)
        peak = int(shown.argmax()) if len(shown) else 0
        back = 0 if self.window_ms is None else self.window_ms // step_ms - 1
        return PolicyUse(
            self.tenant,
            self.queue,
            self.measure,
            self.resource,
            self.limit,
            self.used[0].item() if len(shown) else 0,
            shown[peak].item() if len(shown) else 0,
            self.first + peak - back,
            self.agent,
            bool(self.applies[0]) if len(shown) else False,
            self.window_ms,
            self.guarantee,
        )


def policy_use(plan: PlanState, policy: Policy) -> list[PolicyUse]:
    """Return the use of every limit of a policy on reservations, the highest share first.

    Accounts without reservations are left out, except those that the policy names. The list is
    empty for policies on applications and on displacement.
    """
    found = [one.summary(plan.cluster.step_ms) for one in _amounts(plan, policy)]
    found += _counted(plan, policy)
    return sorted(found, key=lambda one: (-one.peak / max(one.limit, 1e-9), str(one.tenant)))


def policy_series(plan: PlanState, policy: Policy) -> list[UseSeries]:
    """Return the use over time, from the present to the horizon, of every limit."""
    counts = [_count_over_time(plan, one) for one in _counted(plan, policy)]
    return [*_amounts(plan, policy), *counts]


def _amounts(plan: PlanState, policy: Policy) -> list[UseSeries]:
    """Return the use of limits on amounts."""
    match policy:
        case CapacityOverTime() | Quota():
            accounts = plan.ledger.book.accounts_of(policy)
            return [_average(plan, one) if one.average else _instant(plan, one) for one in accounts]
        case AgentLimit():
            return list(_by_agent(plan, policy))
        case _:
            return []


def _instant(plan: PlanState, account: PolicyAccount) -> UseSeries:
    ledger, policy = plan.ledger, account.policy
    row = ledger.book.rows[account.row]
    offered = limit_of(row, ledger.calendar, ledger.grid, ledger.first)
    used = offered - ledger.free[account.row]
    nominal = plan.cluster.nominal.get(account.resource, 0)
    applies = np.ones(len(offered), dtype=bool)
    guarantee: int | None = None
    if isinstance(policy, Quota) and policy.cohort is not None:
        cohort = plan.cluster.cohorts[policy.cohort]
        limit = cohort.lends_to(policy, account.resource)
        guarantee = dict(policy.guarantee).get(account.resource, 0)
    elif isinstance(policy, Quota):
        limit = dict(policy.limit)[account.resource]
        if policy.needs_origin:
            applies = offered < nominal
    else:
        limit = policy.instant_limit(nominal) or 0
    now = max(0, plan.now - ledger.first)
    return UseSeries(
        *account.account,
        INSTANT,
        account.resource,
        limit,
        plan.now,
        used[now:],
        np.full(len(used) - now, limit) if guarantee is None else offered[now:],
        applies[now:],
        guarantee=guarantee,
    )


def _average(plan: PlanState, account: PolicyAccount) -> UseSeries:
    ledger = plan.ledger
    row, averages = ledger.book.averages[account.row], ledger.averages
    used = row.limit - averages.slack[account.row]
    first = ledger.first - averages.offset
    present = min(max(plan.now + 1 - row.window - first, 0), len(used) - 1)
    shown = used[present:] / row.window
    return UseSeries(
        *account.account,
        AVERAGE,
        account.resource,
        row.limit / row.window,
        first + present + row.window - 1,
        shown,
        np.full(len(shown), row.limit / row.window),
        np.ones(len(shown), dtype=bool),
        window_ms=row.window * plan.cluster.step_ms,
    )


def _counted(plan: PlanState, policy: Policy) -> Iterator[PolicyUse]:
    """Yield how many reservations are accepted, active or degraded, by account or agent."""
    if isinstance(policy, AgentLimit):
        yield from _counted_by_agent(plan, policy)
    if not isinstance(policy, RequestLimits) or policy.max_count is None:
        return
    accounts = {policy.scope.key(*scope) for scope in plan.live_scopes()} - {None}
    if EACH not in (policy.scope.tenant, policy.scope.queue):
        accounts.add((policy.scope.tenant, policy.scope.queue))
    for account in accounts:
        assert account is not None
        count = plan.live_count(*account)
        yield PolicyUse(*account, RESERVATIONS, None, policy.max_count, count, count, plan.now)


def _by_agent(plan: PlanState, policy: AgentLimit) -> Iterator[UseSeries]:
    """Yield the use by agents' reservations."""
    nominal = dict(plan.cluster.nominal.items())
    use = AgentUse(plan)
    now = max(0, plan.now - plan.ledger.first)
    nothing = np.zeros(plan.ledger.free.shape[1], dtype=np.int64)
    for agent in _agents(plan, policy):
        held = use.held_by(agent)
        for resource, limit in policy.amounts(nominal).items():
            amounts = held.get(resource)
            later = (nothing if amounts is None else amounts)[now:]
            yield UseSeries(
                None, None, INSTANT, resource, limit, plan.now, later,
                np.full(len(later), limit), np.ones(len(later), dtype=bool), agent,
            )  # fmt: skip


def _counted_by_agent(plan: PlanState, policy: AgentLimit) -> Iterator[PolicyUse]:
    """Yield the number of reservations of each agent."""
    if policy.max_count is None:
        return
    meta = plan.table.meta
    live = np.isin(meta["state"], [STATE_NUMBERS[state] for state in LIVE])
    for agent in _agents(plan, policy):
        count = int((live & plan.table.is_by_agent(agent)).sum())
        yield PolicyUse(
            None, None, RESERVATIONS, None, policy.max_count, count, count, plan.now, agent
        )


def _count_over_time(plan: PlanState, use: PolicyUse) -> UseSeries:
    """Return how many of the present reservations have not ended, at each step.

    A reservation that lost its whole allocation counts at the present step only.
    """
    table, length = plan.table, plan.grid.horizon - plan.now
    live = np.flatnonzero(np.isin(table.meta["state"], [STATE_NUMBERS[state] for state in LIVE]))
    if use.agent is not None:
        live = live[table.is_by_agent(use.agent)[live]]
    for name, word in (("tenant", use.tenant), ("queue", use.queue)):
        if word is not None:
            column = scope_column(table, live, name)
            live = live[[column.words[place] == word for place in column.place.tolist()]]
    ends = np.clip(table.meta["finish"][live].astype(np.int64) - plan.now, 1, length)
    ended = np.cumsum(np.bincount(ends, minlength=length + 1))[:length]
    return UseSeries(
        use.tenant,
        use.queue,
        RESERVATIONS,
        None,
        use.limit,
        plan.now,
        len(live) - ended,
        np.full(length, use.limit),
        np.ones(length, dtype=bool),
        use.agent,
    )


def _agents(plan: PlanState, policy: AgentLimit) -> list[str]:
    return list(plan.table.agents()) if policy.agent == EACH else [policy.agent]
