"""Check the sharing policies of a whole plan at every instant and every window position."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, time, timedelta
from fractions import Fraction
from zoneinfo import ZoneInfo

import numpy as np

from planner.cluster.cluster import Cluster
from planner.cluster.policy import (
    EACH,
    AgentLimit,
    ApplicationQuota,
    CapacityOverTime,
    DisplacementRule,
    Policy,
    Quota,
    RequestLimits,
)
from planner.validation.capacity import Steps, excess_violation, excesses, used_by
from planner.validation.document import Held, PlanViolation
from rdl.compile.compiler import compile_expression
from rdl.compile.context import CompileContext
from rdl.errors import RdlError
from rdl.oracle.periods import first_instant
from rdl.time_grid import TimeGrid
from rdl.work_graph import END, START

#: States that count against `max_count`.
STANDING = ("accepted", "active", "degraded")

_FAR = np.iinfo(np.int64).max


def policy_violations(
    held: Sequence[Held], cluster: Cluster, grid: TimeGrid, now: int = 0
) -> list[PlanViolation]:
    """Return where an account of a policy exceeds the policy's limit.

    Parameters
    ----------
    now
        The current step: lending quotas have lent their capacity near it.
    """
    found = _cohorts(held, cluster, grid, now)
    for policy in cluster.policies:
        for account, mine in sorted(_accounts(policy, held).items()):
            where = " ".join([f"policy:{policy.name}", *account])
            match policy:
                case CapacityOverTime():
                    found += _over_time(policy, where, mine, cluster, grid)
                case Quota():
                    found += _quota(policy, where, mine, grid)
                case RequestLimits():
                    found += _limits(policy, where, mine, cluster, grid)
                case AgentLimit():
                    found += _agent_limit(policy, where, mine, cluster, grid)
                case ApplicationQuota() | DisplacementRule():
                    pass  # limits running work or commits; not visible in a plan
    return found


def _accounts(policy: Policy, held: Sequence[Held]) -> Mapping[tuple[str, ...], list[Held]]:
    """Return reservations in scope by account: a name, ``*`` for each, None for all together."""
    accounts: dict[tuple[str, ...], list[Held]] = {}
    for reservation in held:
        key: list[str] = []
        inside = True
        agent = policy.agent if isinstance(policy, AgentLimit) else None
        for wanted, mine in (
            (policy.scope.tenant, reservation.tenant),
            (policy.scope.queue, reservation.queue),
            (agent, reservation.agent),
        ):
            inside = inside and wanted in (None, EACH, mine)
            key += [mine] if wanted == EACH else []
        if inside:
            accounts.setdefault(tuple(key), []).append(reservation)
    return accounts


def _use(held: Sequence[Held], resource: str, grid: TimeGrid) -> Steps:
    return used_by((atom for entry in held for atom in entry.atoms), resource, grid.horizon)


def _over_time(
    policy: CapacityOverTime, where: str, held: Sequence[Held], cluster: Cluster, grid: TimeGrid
) -> Iterator[PlanViolation]:
    for resource, nominal in cluster.nominal.items():
        used = _use(held, resource, grid)
        if policy.instant is not None:
            most = Fraction(policy.instant) * nominal
            limit = np.full(grid.horizon, most.numerator // most.denominator)
            for run in excesses(used, limit):
                yield excess_violation(where, "policy", resource, run, (used, limit))
        if policy.average is None or policy.window_ms is None:
            continue
        integral, start = largest_integral(used, policy.window_ms, grid.step_ms)
        allowed = Fraction(policy.average) * nominal * policy.window_ms
        if integral > allowed:
            share = Fraction(integral, nominal * policy.window_ms)
            detail = (
                f"{float(share):.6g} of {resource} on average over the window of "
                f"{policy.window_ms} ms that starts at {start} ms, above {policy.average}"
            )
            amount, limit_steps = integral // grid.step_ms, int(allowed) // grid.step_ms
            at = grid.floor(start)
            yield PlanViolation(where, "policy", detail, None, at, amount, limit_steps)


def largest_integral(used: Steps, window_ms: int, step_ms: int) -> tuple[int, int]:
    """Return the largest integral of the use over a window, and the first instant it starts at.

    Over *every* position of the window, on the grid or not; outside the horizon the use counts 0.
    The integral is piecewise linear in its start, with breaks only where the start or the end of
    the window meets a change of the use, so its maximum is at one of these breaks.

    Returns
    -------
    integral, start
        In amount-ms and ms from the origin; exact.
    """
    padded = np.concatenate(([0], used, [0]))
    changes = np.flatnonzero(np.diff(padded))
    if not len(changes):
        return 0, 0
    at = [int(step) * step_ms for step in changes]
    height = [int(amount) for amount in padded[changes + 1]]  # from at[i] on
    total = [0]
    for i in range(1, len(at)):
        total.append(total[-1] + height[i - 1] * (at[i] - at[i - 1]))

    def until(instant: int) -> int:
        i = bisect_right(at, instant) - 1
        return 0 if i < 0 else total[i] + height[i] * (instant - at[i])

    starts = sorted({*at, *(instant - window_ms for instant in at)})
    best = max(starts, key=lambda start: (until(start + window_ms) - until(start), -start))
    return until(best + window_ms) - until(best), best


def _quota(
    policy: Quota, where: str, held: Sequence[Held], grid: TimeGrid
) -> Iterator[PlanViolation]:
    holds = np.zeros(grid.horizon, dtype=bool)
    if policy.start is None and not policy.days:
        holds[:] = True
    elif grid.origin is None:
        detail = "a quota at times of day needs a cluster with an origin"
        yield PlanViolation(where, "policy", detail)
        return
    else:
        for start, end in _times_of_day(policy, grid, grid.origin):
            # Use in a step also counts in the part of the step that the quota covers.
            holds[max(0, grid.floor(start)) : max(0, grid.ceil(end))] = True
    for resource, amount in dict(policy.limit).items():
        used = _use(held, resource, grid)
        limit = np.where(holds, amount, _FAR)
        for run in excesses(used, limit):
            yield excess_violation(where, "policy", resource, run, (used, limit))


def _cohorts(
    held: Sequence[Held], cluster: Cluster, grid: TimeGrid, now: int
) -> list[PlanViolation]:
    """Return where lending quotas together exceed their guarantees, or lend too early."""
    lending = [one for one in cluster.policies if isinstance(one, Quota) and one.cohort is not None]
    found: list[PlanViolation] = []
    for name in sorted({one.cohort for one in lending if one.cohort is not None}):
        mine = [one for one in lending if one.cohort == name]
        resources = sorted({resource for one in mine for resource, _ in one.guarantee})
        for resource in resources:
            own = [dict(one.guarantee).get(resource, 0) for one in mine]
            total = np.zeros(grid.horizon, dtype=np.int64)
            for quota, amount in zip(mine, own, strict=True):
                ours = [entry for group in _accounts(quota, held).values() for entry in group]
                used = _use(ours, resource, grid)
                total += used
                limit = np.full(grid.horizon, amount, dtype=np.int64)
                limit[: now + quota.lend_ms // grid.step_ms] = _FAR
                where = f"policy:{quota.name}"
                for run in excesses(used, limit):
                    found.append(excess_violation(where, "policy", resource, run, (used, limit)))
            whole = np.full(grid.horizon, sum(own), dtype=np.int64)
            for run in excesses(total, whole):
                where = f"policy:cohort {name}"
                found.append(excess_violation(where, "policy", resource, run, (total, whole)))
    return found


def _times_of_day(policy: Quota, grid: TimeGrid, origin: datetime) -> Iterator[tuple[int, int]]:
    """Yield [start, end) in ms from the origin of each interval that overlaps the horizon."""
    zone = ZoneInfo(policy.zone)
    step = timedelta(milliseconds=1)
    end_of_plan = origin + grid.horizon_ms * step
    day = origin.astimezone(zone).date() - timedelta(days=1)
    while day <= end_of_plan.astimezone(zone).date():
        start = policy.start or time()
        end = policy.end or time()
        until = day if policy.start is not None and end > start else day + timedelta(days=1)
        first = first_instant(datetime.combine(day, start), zone)
        last = first_instant(datetime.combine(until, end), zone)
        if not policy.days or day.weekday() in policy.days:
            yield (first - origin) // step, (last - origin) // step
        day += timedelta(days=1)


def _count_limit(most: int | None, where: str, held: Sequence[Held]) -> Iterator[PlanViolation]:
    """Yield the violation of a limit on the number of reservations."""
    standing = sum(entry.state in STANDING for entry in held)
    if most is not None and standing > most:
        detail = f"{standing} reservations stand, above {most}"
        yield PlanViolation(where, "policy", detail, None, None, standing, most)


def _agent_limit(
    policy: AgentLimit, where: str, held: Sequence[Held], cluster: Cluster, grid: TimeGrid
) -> Iterator[PlanViolation]:
    yield from _count_limit(policy.max_count, where, held)
    limits = dict(policy.limit)
    for resource, nominal in cluster.nominal.items() if policy.instant is not None else ():
        most = Fraction(policy.instant or 0) * nominal
        share = most.numerator // most.denominator
        limits[resource] = min(share, limits.get(resource, share))
    for resource, amount in sorted(limits.items()):
        used, limit = _use(held, resource, grid), np.full(grid.horizon, amount)
        for run in excesses(used, limit):
            yield excess_violation(where, "policy", resource, run, (used, limit))


def _limits(
    policy: RequestLimits, where: str, held: Sequence[Held], cluster: Cluster, grid: TimeGrid
) -> Iterator[PlanViolation]:
    yield from _count_limit(policy.max_count, where, held)
    if policy.max_priority is not None:
        for entry in held:
            if entry.priority > policy.max_priority:
                detail = f"priority {entry.priority} is above {policy.max_priority}"
                at, amounts = f"{where} {entry.where}", (entry.priority, policy.max_priority)
                yield PlanViolation(at, "policy", detail, entry.id, None, *amounts)
    of_windows = (policy.max_window_ms, policy.min_lead_ms, policy.max_lead_ms)
    for entry in held if of_windows != (None, None, None) else ():
        between = window_ms(entry, cluster, grid)
        if between is None:
            continue
        window, lead = between[1] - between[0], max(0, between[0] - entry.submitted_ms)
        broken = [
            (what, amount, limit)
            for what, amount, limit in (
                ("window is longer", window, policy.max_window_ms),
                ("lead is longer", lead, policy.max_lead_ms),
            )
            if limit is not None and amount > limit
        ]
        if policy.min_lead_ms is not None and lead < policy.min_lead_ms:
            broken.append(("lead is shorter", lead, policy.min_lead_ms))
        for what, amount, limit in broken:
            detail = f"its {what} than {limit} ms: {amount} ms"
            yield PlanViolation(f"{where} {entry.where}", "policy", detail, entry.id, None, amount)


def window_ms(entry: Held, cluster: Cluster, grid: TimeGrid) -> tuple[int, int] | None:
    """Return the window [start, end) of a request in ms, rounded inward.

    Computed by the compiler for the whole request, with inner windows as in the planner. None for a
    void request, and if the oracle or the reader reports an error.
    """
    context = CompileContext(grid, entry.submitted_ms, cluster.shapes(), cluster.max_period_ms)
    try:
        graph = compile_expression(entry.expression, context)
    except RdlError:
        return None
    if not len(graph.vertices):
        return None
    return grid.ms(int(graph.vertices[-1, START])), grid.ms(int(graph.vertices[-1, END]))
