"""Checks of a request that need no agent: its id, its queue, its level and request limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from planner.cluster.cluster import Cluster
from planner.cluster.policy import Policy, RequestLimits
from planner.placement import Binding, Code, PlacementResult
from planner.plan.state import PlanState
from planner.request import Request
from rdl.time_grid import duration_text
from rdl.work_graph import END, START

_NONE: Mapping[tuple[str, str], int] = {}


def screen(plan: PlanState, request: Request) -> PlacementResult | None:
    """Return the refusal of a request for a reason that needs no agent, or None.

    Checks duplicate ids, queues that are not reservable, levels that cannot be chosen, `limits`
    policies, and whether the profile has space for the rows of a new tenant or queue.
    """
    if plan.knows(request.id):
        return PlacementResult(Code.DUPLICATE_ID, f"the id {request.id!r} is taken")
    return rule_refusal(plan, request)


def rule_refusal(plan: PlanState, request: Request) -> PlacementResult | None:
    """Return the refusal by the rules of queues, levels and `limits` policies, or None."""
    queue = plan.cluster.queue(request.queue)
    if queue is None:
        known = ", ".join(one.name for one in plan.cluster.queues)
        detail = f"there is no queue {request.queue!r}; queues are {known}"
        return PlacementResult(Code.MALFORMED, detail)
    if not queue.reservable:
        detail = f"queue {request.queue!r} serves best-effort work and takes no reservations"
        return PlacementResult(Code.MALFORMED, detail)
    level = level_refusal(plan.cluster, request)
    return level or limit_refusal(plan, request, _NONE) or _scope_refusal(plan, request)


def level_refusal(cluster: Cluster, request: Request) -> PlacementResult | None:
    """Return the refusal if the cluster does not let a request choose its level, or None."""
    level, free = request.promise, (cluster.promise, *cluster.promise_choices)
    if level is None or level in free:
        return None
    words = ", ".join(dict.fromkeys(free))
    detail = (
        f"a request cannot choose {level}: requests_may_choose of the cluster's promises leaves it "
        f"{words}"
    )
    return PlacementResult(Code.MALFORMED, detail, binding=Binding("", "promise"))


def _scope_refusal(plan: PlanState, request: Request) -> PlacementResult | None:
    """Return the refusal if the profile has no space for rows of this tenant or queue, or None."""
    ledger = plan.ledger
    if ledger.book.has_room_for(request.tenant, request.queue, ledger.grid.horizon - ledger.first):
        return None
    detail = (
        f"policies that count each tenant or queue apart have no free capacity to count "
        f"{request.tenant!r} in {request.queue!r}: the profile has {len(ledger.book.rows):,} rows"
    )
    binding = Binding("", "policy", free=0)
    return PlacementResult(Code.COUNT_LIMIT, detail, binding=binding)


def limits_of(policies: Iterable[Policy], tenant: str, queue: str) -> tuple[RequestLimits, ...]:
    """Return the `limits` policies that apply to a request of (tenant, queue)."""
    return tuple(
        policy
        for policy in policies
        if isinstance(policy, RequestLimits) and policy.scope.key(tenant, queue) is not None
    )


def window_refusal(limits: Iterable[RequestLimits], request: Request) -> PlacementResult | None:
    """Return the refusal of a request's window by `limits` that apply to it, or None.

    Needs no Plan, since it does not count reservations.
    """
    refusals = (_window_refusal(policy, request) for policy in limits)
    return next((refused for refused in refusals if refused is not None), None)


def limit_refusal(
    plan: PlanState, request: Request, added: Mapping[tuple[str, str], int]
) -> PlacementResult | None:
    """Return the refusal by a `limits` policy, or None.

    Parameters
    ----------
    added
        Reservations that the batch has added so far, by (tenant, queue).
    """
    for policy in plan.cluster.policies:
        if not isinstance(policy, RequestLimits):
            continue
        account = policy.scope.key(request.tenant, request.queue)
        if account is None:
            continue
        refused = (
            _priority_refusal(policy, request)
            or _window_refusal(policy, request)
            or _account_refusal(plan, policy, account, added)
        )
        if refused is not None:
            return refused
    return None


def count_refusal(
    plan: PlanState, scope: tuple[str, str], added: Mapping[tuple[str, str], int]
) -> PlacementResult | None:
    """Return the refusal if (tenant, queue) has as many reservations as allowed, or None.

    Parameters
    ----------
    added
        As for :func:`limit_refusal`.
    """
    for policy in limits_of(plan.cluster.policies, *scope):
        account = policy.scope.key(*scope)
        refused = None if account is None else _account_refusal(plan, policy, account, added)
        if refused is not None:
            return refused
    return None


def _account_refusal(
    plan: PlanState,
    policy: RequestLimits,
    account: tuple[str | None, str | None],
    added: Mapping[tuple[str, str], int],
) -> PlacementResult | None:
    """Return the refusal if an account has as many reservations as allowed, or None."""
    if policy.max_count is None:
        return None
    standing = plan.live_count(*account)
    standing += sum(
        count
        for (tenant, queue), count in added.items()
        if account[0] in (None, tenant) and account[1] in (None, queue)
    )
    return _count_refusal(policy, policy.max_count, standing)


def raised_priority_refusal(
    plan: PlanState, request: Request, present: int
) -> PlacementResult | None:
    """Return the refusal of a change that raises a priority above what policies allow, or None."""
    if request.priority <= present:
        return None
    limits = limits_of(plan.cluster.policies, request.tenant, request.queue)
    refusals = (_priority_refusal(policy, request) for policy in limits)
    return next((refused for refused in refusals if refused is not None), None)


def _priority_refusal(policy: RequestLimits, request: Request) -> PlacementResult | None:
    most = policy.max_priority
    if most is None or request.priority <= most:
        return None
    detail = f"priority {request.priority} is too high; policy {policy.name} allows {most}"
    binding = Binding("", "policy", needed=request.priority, free=most, policy=policy.name)
    return PlacementResult(Code.PRIORITY_LIMIT, detail, binding=binding)


def _window_refusal(policy: RequestLimits, request: Request) -> PlacementResult | None:
    graph = request.graph
    if not len(graph.vertices):
        return None
    grid = graph.grid
    start, end = int(graph.vertices[-1, START]), int(graph.vertices[-1, END])
    binding = Binding("", "policy", start, policy=policy.name)
    length = grid.ms(end - start)
    if policy.max_window_ms is not None and length > policy.max_window_ms:
        detail = (
            f"the window is {duration_text(length)} long; policy {policy.name} allows "
            f"{duration_text(policy.max_window_ms)}"
        )
        return PlacementResult(Code.WINDOW_LIMIT, detail, binding=binding)
    lead = max(0, grid.ms(start) - request.submitted_ms)
    if policy.min_lead_ms is not None and lead < policy.min_lead_ms:
        detail = (
            f"the window starts {duration_text(lead)} after submission; policy {policy.name} "
            f"asks for at least {duration_text(policy.min_lead_ms)}"
        )
        return PlacementResult(Code.LEAD_TIME, detail, binding=binding)
    if policy.max_lead_ms is not None and lead > policy.max_lead_ms:
        detail = (
            f"the window starts {duration_text(lead)} after submission; policy {policy.name} "
            f"allows {duration_text(policy.max_lead_ms)}"
        )
        return PlacementResult(Code.LEAD_TIME, detail, binding=binding)
    return None


def _count_refusal(policy: RequestLimits, most: int, standing: int) -> PlacementResult | None:
    if standing < most:
        return None
    detail = f"{standing} reservations exist; policy {policy.name} allows {most}"
    binding = Binding("", "policy", needed=standing + 1, free=most, policy=policy.name)
    return PlacementResult(Code.COUNT_LIMIT, detail, binding=binding)
