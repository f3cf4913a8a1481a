"""How much of each policy is used: reserved amounts against its limits, account by account."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from planner.capacity.capacity_rows import PolicyAccount, limit_of
from planner.cluster.policy import EACH, AgentLimit, CapacityOverTime, Policy, Quota, RequestLimits
from planner.plan.batch.agent_limits import AgentUse
from planner.plan.state import PlanState
from planner.reservations.state import LIVE, STATE_NUMBERS

#: What a limit counts: amounts at an instant, their average over a window, or reservations.
INSTANT: Final = "instant"
AVERAGE: Final = "average"
RESERVATIONS: Final = "reservations"
MEASURES: Final = (INSTANT, AVERAGE, RESERVATIONS)


@dataclass(frozen=True, slots=True)
class PolicyUse:
    """The use of one limit by one account.

    Attributes
    ----------
    tenant, queue, agent
        The account; None counts all together.
    measure
        One of `MEASURES`.
    resource
        None for a count of reservations.
    limit
        In the resource's smallest unit; of an average, the average amount.
    used
        Now; of an average, over the window that ends with the present step.
    peak, peak_at
        The most from now on, while the policy applies, and the first step of it; of an average, the
        most of any window that is not over, and its first step.
    applies
        Whether it limits anything at the present step (quotas may have times of day).
    window_ms
        Of an average.
    guarantee
        Of a quota that lends, in the resource's smallest unit; what is used beyond it is borrowed,
        and `limit` is the most with what may be borrowed.
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


def policy_use(plan: PlanState, policy: Policy) -> list[PolicyUse]:
    """Return the use of every limit of a policy that counts reservations, the fullest first.

    Accounts without any reservation are left out, but for those that the policy names. Policies of
    applications and of displacement count no reservations: the list is empty.
    """
    match policy:
        case CapacityOverTime() | Quota():
            found = list(_reserved(plan, policy))
        case RequestLimits():
            found = list(_counted(plan, policy))
        case AgentLimit():
            found = list(_by_agent(plan, policy))
        case _:
            found = []
    return sorted(found, key=lambda one: (-one.peak / max(one.limit, 1e-9), str(one.tenant)))


def _reserved(plan: PlanState, policy: CapacityOverTime | Quota) -> Iterator[PolicyUse]:
    """Yield amounts reserved at an instant and on average, from the rows of the free profile."""
    for account in plan.ledger.book.accounts_of(policy):
        yield _average(plan, account) if account.average else _instant(plan, account)


def _instant(plan: PlanState, account: PolicyAccount) -> PolicyUse:
    ledger, policy = plan.ledger, account.policy
    row = ledger.book.rows[account.row]
    offered = limit_of(row, ledger.calendar, ledger.grid, ledger.first)
    used = offered - ledger.free[account.row]
    nominal = plan.cluster.nominal.get(account.resource, 0)
    guarantee: int | None = None
    if isinstance(policy, Quota) and policy.cohort is not None:
        cohort = plan.cluster.cohorts[policy.cohort]
        limit = cohort.lends_to(policy, account.resource)
        guarantee = dict(policy.guarantee).get(account.resource, 0)
        applies = np.ones(len(offered), dtype=bool)
    elif isinstance(policy, Quota):
        limit = dict(policy.limit)[account.resource]
        applies = offered < nominal if policy.needs_origin else np.ones(len(offered), dtype=bool)
    else:
        limit = policy.instant_limit(nominal) or 0
        applies = np.ones(len(offered), dtype=bool)
    now = max(0, plan.now - ledger.first)
    later = np.where(applies, used, 0)[now:]
    peak = int(later.argmax()) if len(later) else 0
    return PolicyUse(
        *account.account,
        INSTANT,
        account.resource,
        limit,
        int(used[now]) if len(later) else 0,
        int(later[peak]) if len(later) else 0,
        plan.now + peak,
        applies=bool(applies[now]) if len(later) else False,
        guarantee=guarantee,
    )


def _average(plan: PlanState, account: PolicyAccount) -> PolicyUse:
    ledger = plan.ledger
    row, averages = ledger.book.averages[account.row], ledger.averages
    used = row.limit - averages.slack[account.row]
    first = ledger.first - averages.offset
    present = min(max(plan.now + 1 - row.window - first, 0), len(used) - 1)
    peak = present + int(used[present:].argmax())
    return PolicyUse(
        *account.account,
        AVERAGE,
        account.resource,
        row.limit / row.window,
        float(used[present]) / row.window,
        float(used[peak]) / row.window,
        first + peak,
        window_ms=row.window * plan.cluster.step_ms,
    )


def _counted(plan: PlanState, policy: RequestLimits) -> Iterator[PolicyUse]:
    """Yield how many reservations are accepted, active or degraded, by account."""
    if policy.max_count is None:
        return
    accounts = {policy.scope.key(*scope) for scope in plan.live_scopes()} - {None}
    if EACH not in (policy.scope.tenant, policy.scope.queue):
        accounts.add((policy.scope.tenant, policy.scope.queue))
    for account in accounts:
        assert account is not None
        count = plan.live_count(*account)
        yield PolicyUse(*account, RESERVATIONS, None, policy.max_count, count, count, plan.now)


def _by_agent(plan: PlanState, policy: AgentLimit) -> Iterator[PolicyUse]:
    """Yield what agents' reservations hold, and how many there are."""
    nominal = dict(plan.cluster.nominal.items())
    use, meta = AgentUse(plan), plan.table.meta
    now = max(0, plan.now - plan.ledger.first)
    live = np.isin(meta["state"], [STATE_NUMBERS[state] for state in LIVE])
    agents = plan.table.agents() if policy.agent == EACH else [policy.agent]
    for agent in agents:
        held = use.held_by(agent)
        for resource, limit in policy.amounts(nominal).items():
            amounts = held.get(resource)
            later = np.zeros(1, dtype=np.int64) if amounts is None else amounts[now:]
            peak = int(later.argmax())
            yield PolicyUse(
                None, None, INSTANT, resource, limit, int(later[0]), int(later[peak]),
                plan.now + peak, agent,
            )  # fmt: skip
        if policy.max_count is not None:
            count = int((live & plan.table.is_by_agent(agent)).sum())
            yield PolicyUse(
                None, None, RESERVATIONS, None, policy.max_count, count, count, plan.now, agent
            )
