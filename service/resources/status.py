"""The status: a cluster at one look, for who runs it and for who waits for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Final

import msgspec
import numpy as np

from planner.cluster.cluster import Cluster, Outage
from planner.plan.column_reading import histories_of
from planner.plan.plan import Plan
from planner.reservations.state import LIVE, STATE_NUMBERS, State
from rdl.time_grid import seconds_of
from service.access.user import User
from service.http.kit import Calls, Count, Instant, OpenAnswer, doc, one_of
from service.problems import ApiProblemError
from service.resources.executors import NO_EXECUTOR, served_machines
from service.resources.plan import UNITS, PlanSpan, capture, plain_amounts
from service.runtime import Runtime
from service.sentences import counted

#: How far promises are looked ahead, and how far back refusals and failures count, ms.
_AHEAD_MS: Final = 86_400_000
_REFUSED_MS: Final = 3_600_000
_FAILED_MS: Final = 86_400_000

#: Most ends, and most promises at risk, that are listed.
_ENDS: Final = 5
_AT_RISK: Final = 20

#: What a reservation at risk may be, beside its state: its work lacks machines that it is owed.
_BELOW: Final = "below"
_LACKS: Final = "its work has fewer machines than its entitlement"

#: The kind of outage that nobody planned.
_LOSS: Final = "loss"


class PresentOutage(OpenAnswer):
    id: str
    kind: str
    machines: Annotated[str, doc("Their group, or the pool.")]
    count: Count
    end_at: Annotated[str | None, doc("Null for a loss: unknown.")]
    reason: str


class MachineSummary(OpenAnswer):
    total: Count
    up: Count
    outages: list[PresentOutage]


class PromisedShare(OpenAnswer):
    resource: str
    unit: str
    now: float
    capacity: Annotated[float, doc("Of the machines that are up.")]
    now_share: float
    peak_share: Annotated[
        float, doc("Peak of the next 24 hours, relative to the machines that are up then.")
    ]
    peak_at: Instant


class WorkCounts(OpenAnswer):
    running: Count
    waiting: Count
    components: Count


class NextEnd(OpenAnswer):
    id: str
    tenant: str
    state: str
    end_at: Instant


class PromiseAtRisk(OpenAnswer):
    id: str
    tenant: str
    state: Annotated[str, one_of(("degraded", "failed", "below"))]
    reason: str
    since_at: Instant | None


class RefusalCount(OpenAnswer):
    code: str
    count: Count


class ClusterStatus(OpenAnswer):
    version: Count
    at: Instant
    machines: MachineSummary
    promised: list[PromisedShare]
    ends: Annotated[list[NextEnd], doc("The next five reservations to end.")]
    at_risk: Annotated[
        list[PromiseAtRisk],
        doc(
            "The newest 20 promises that are degraded, failed within a day, or have fewer machines "
            "than their entitlement."
        ),
    ]
    at_risk_count: Count
    refused: Annotated[list[RefusalCount], doc("Requests of the last hour, by cause.")]
    work: WorkCounts
    attention: Annotated[
        list[str],
        doc(
            "Short descriptions of problems: promises at risk, lost machines, failures. Shown "
            "by lists of commands and pages."
        ),
    ]
    problems: Annotated[
        list[str],
        doc(
            "Stale or failed parts: clock, database, repair, dispatcher, executors. Empty if all "
            "work."
        ),
    ]


calls = Calls()


@calls.get("/v1/status", "Ids are of tenants that you act for.", fails=("unavailable",))
def get_status(runtime: Runtime, user: User) -> ClusterStatus:
    """Overview of the cluster: machines, promised shares, work, next ends, promises at risk,
    refusals of the last hour, and stale components.
    """
    now_ms = runtime.now_ms()
    assignment = msgspec.json.decode(runtime.dispatcher.rows.assignment())
    work = runtime.dispatcher.rows.counts()
    with runtime.reading() as plan:
        at_risk = _at_risk(runtime, plan, user, set(assignment.get("below", ())))
        machines = _machines(runtime, plan, now_ms)
        problems = list(_problems(runtime, waits=bool(work.get("queued"))))
        return ClusterStatus(
            version=plan.version,
            at=runtime.calendar(now_ms),
            machines=machines,
            promised=_promised(runtime, plan, now_ms),
            ends=_ends(runtime, plan, user),
            at_risk=at_risk[:_AT_RISK],
            at_risk_count=len(at_risk),
            refused=_refused(plan, user, now_ms),
            work=WorkCounts(
                running=work.get("running", 0) + work.get("starting", 0),
                waiting=work.get("queued", 0),
                components=len(assignment.get("rows", ())),
            ),
            attention=_attention(plan, now_ms, at_risk, problems),
            problems=problems,
        )


def _machines(runtime: Runtime, plan: Plan, now_ms: int) -> MachineSummary:
    """Return how many machines there are, and which outages take some, or of a pool, now."""
    cluster = plan.cluster
    total = sum(group.count for group in cluster.machines)
    of_machines = cluster.outages_at(now_ms)
    away = {(one.machines, index) for one in of_machines for index in one.indices}
    outages = []
    for one in (*of_machines, *_pool_outages(cluster, now_ms)):
        outages.append(
            PresentOutage(
                id=one.id,
                kind=one.kind,
                machines=one.machines,
                count=len(one.indices),
                # Nobody knows when what was lost comes back.
                end_at=None if one.kind == _LOSS else runtime.calendar(one.end_ms),
                reason=one.reason,
            )
        )
    return MachineSummary(total=total, up=total - len(away), outages=outages)


def _pool_outages(cluster: Cluster, now_ms: int) -> list[Outage]:
    """Return the outages that take units of a pool now."""
    found = cluster.pool_outages_between(now_ms, now_ms + 1)
    return [one for one in found if one.start_ms <= now_ms < one.end_ms]


def _attention(
    plan: Plan, now_ms: int, at_risk: list[PromiseAtRisk], problems: list[str]
) -> list[str]:
    """Return short descriptions of problems; planned outages are none."""
    lines = [f"{counted(len(at_risk), 'promise')} at risk"] if at_risk else []
    cluster = plan.cluster
    losses = [one for one in cluster.outages_at(now_ms) if one.kind == _LOSS]
    # Outages may overlap: a machine that two of them have is lost once.
    lost = {(one.machines, index) for one in losses for index in one.indices}
    if lost:
        lines.append(f"{counted(len(lost), 'machine')} lost")
    units = Counter[str]()
    for one in _pool_outages(cluster, now_ms):
        if one.kind == _LOSS:
            units[one.machines] += len(one.indices)
    lines += [f"{count:,} {name} lost" for name, count in units.items()]
    return lines + problems


def _promised(runtime: Runtime, plan: Plan, now_ms: int) -> list[PromisedShare]:
    """Return the promised share now and its peak of the next day, by resource."""
    end_ms = min(now_ms + _AHEAD_MS, plan.grid.horizon_ms)
    if end_ms <= plan.grid.ms(plan.ledger.first):
        return []
    found = capture(plan, PlanSpan(None, end_ms), reservations=False)
    rows = []
    for one in found.series:
        unit, size = UNITS.get(one.resource, ("units", 1))
        share = one.allocated / np.maximum(one.capacity, 1)
        peak = int(share.argmax())
        amounts = plain_amounts(np.array([one.allocated[0], one.capacity[0]]), size)
        rows.append(
            PromisedShare(
                resource=one.resource,
                unit=unit,
                now=amounts[0],
                capacity=amounts[1],
                now_share=round(float(share[0]), 4),
                peak_share=round(float(share[peak]), 4),
                peak_at=runtime.calendar(found.grid.ms(found.start + peak * found.bucket)),
            )
        )
    return rows


def _ends(runtime: Runtime, plan: Plan, user: User) -> list[NextEnd]:
    """Return the reservations that end next of those that have not."""
    meta, grid = plan.table.meta, plan.grid
    live = np.isin(meta["state"], [STATE_NUMBERS[state] for state in LIVE])
    there = live & (meta["finish"] > plan.now) & (meta["begin"] < grid.horizon)
    numbers = np.flatnonzero(there)
    ordered = numbers[np.argsort(meta["finish"][numbers], kind="stable")]
    found = []
    for number in ordered.tolist():
        tenant, _ = plan.table.scope(number)
        if not user.acts_for(tenant):
            continue
        found.append(
            NextEnd(
                id=plan.table.id_of(number),
                tenant=tenant,
                state=plan.table.state(number).value,
                end_at=runtime.calendar(grid.ms(int(meta["finish"][number]))),
            )
        )
        if len(found) == _ENDS:
            break
    return found


def _at_risk(runtime: Runtime, plan: Plan, user: User, below: set[str]) -> list[PromiseAtRisk]:
    """Return the promises that are short of something now, or failed within a day, and why."""
    meta, table = plan.table.meta, plan.table
    states = np.isin(meta["state"], [STATE_NUMBERS[one] for one in (State.DEGRADED, State.FAILED)])
    numbers = set(np.flatnonzero(states).tolist())
    known = (table.number_of(id_) for id_ in below)
    numbers |= {number for number in known if number is not None}
    histories = histories_of(table, np.array(sorted(numbers), dtype=np.int64))
    since_ms = plan.grid.ms(plan.now) - _FAILED_MS
    found = []
    for number in sorted(numbers):
        id_, (tenant, _) = table.id_of(number), table.scope(number)
        last = next(iter(reversed(histories.get(number, ()))), None)
        state = table.state(number)
        is_old = state is State.FAILED and (last is None or last.at_ms < since_ms)
        if is_old or not user.acts_for(tenant):
            continue
        is_short = state not in (State.DEGRADED, State.FAILED)
        entry = PromiseAtRisk(
            id=id_,
            tenant=tenant,
            state=_BELOW if is_short else state.value,
            reason=_LACKS if is_short else "" if last is None else last.detail,
            since_at=None if last is None else runtime.calendar(last.at_ms),
        )
        found.append((is_short, -(0 if last is None else last.at_ms), entry))
    found.sort(key=lambda one: one[:2])
    return [entry for _, _, entry in found]


def _refused(plan: Plan, user: User, now_ms: int) -> list[RefusalCount]:
    """Return how many requests of the last hour were refused, by cause, the most frequent first."""
    recent = (one for one in plan.refusals if one.submitted_ms >= now_ms - _REFUSED_MS)
    counts = Counter(one.code.value for one in recent if user.acts_for(one.tenant))
    return [RefusalCount(code=code, count=count) for code, count in counts.most_common()]


def _problems(runtime: Runtime, *, waits: bool) -> Iterator[str]:
    """Yield reasons why Plan, dispatcher or back-end are not up to date, as texts."""
    try:
        runtime.require_clock()
        runtime.require_writable()
    except ApiProblemError as error:
        yield error.document.detail
    if failure := runtime.planner.adapter.failure:
        yield failure
    until_ms = runtime.dispatcher.rows.led_until_ms()
    late_ms = runtime.clock_ms() - until_ms
    if waits and until_ms >= 0 and late_ms > 0:
        yield f"no process has dispatched for {seconds_of(late_ms):g} s, but work is waiting"
    if runtime.config.executors and served_machines(runtime) == 0:
        yield NO_EXECUTOR
