"""The use of a policy over time: reserved amounts and limits per bucket."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from planner.placement import Code
from planner.plan.plan import Plan
from planner.policy_use import MEASURES, UseSeries, policy_series
from rdl.durations import rfc3339_text
from rdl.time_grid import duration_text
from service.access.user import User
from service.http.kit import Answer, Calls, Count, Input, Instant, doc, one_of
from service.ownership import shown_cluster
from service.problems import problem
from service.resources.plan import Bucket, From, PlanSpan, To, steps_of
from service.resources.policies import unit_of
from service.runtime import Runtime


class PolicyTimeQuery(Input):
    from_: From = None
    to: To = None
    step: Bucket = None


class LimitSeries(Answer):
    tenant: Annotated[
        str | None, doc("Null: the total of a policy that does not count accounts separately.")
    ]
    queue: str | None
    agent: str | None
    measure: Annotated[str, one_of(MEASURES)]
    resource: Annotated[str | None, doc("Null for a number of reservations.")]
    unit: str
    window: Annotated[str | None, doc("Of an average.")]
    limit: Annotated[float, doc("The largest limit at any time.")]
    guarantee: Annotated[float | None, doc("Of a quota that lends.")]
    limits: Annotated[
        list[float],
        doc(
            "For each bucket, the most that may be reserved: `limit`, or the "
            "guarantee of a lending quota while borrowing is not yet allowed."
        ),
    ]
    used: Annotated[
        list[float],
        doc(
            "The largest use in each bucket; of an average, over windows that end in "
            "it; of a number of reservations, the present ones that have not ended."
        ),
    ]
    applies: Annotated[
        list[bool], doc("For each bucket, whether the limit applies at some time in it.")
    ]


class PolicySeries(Answer):
    version: Count
    name: str
    from_: float
    to: float
    step: float
    from_at: Instant
    to_at: Instant
    use: Annotated[
        list[LimitSeries],
        doc("By account, fullest first."),
    ]


calls = Calls()


@calls.get("/v1/policies/{name}/use", "The usage over time.", fails=(Code.MALFORMED, "not_found"))
def get_policy_use(runtime: Runtime, user: User, name: str, query: PolicyTimeQuery) -> PolicySeries:
    """The use of a policy's limits over time by your tenants."""
    span = PlanSpan(runtime.resolve(query.from_), runtime.resolve(query.to), query.step)
    with runtime.reading() as plan:
        policies = shown_cluster(plan.cluster, user).policies
        policy = next((one for one in policies if one.name == name), None)
        if policy is None:
            raise problem("not_found", f"there is no policy {name!r}")
        start, end, bucket = steps_of(plan, span)
        shown = [
            _shown(plan, one, start, end, bucket)
            for one in policy_series(plan, policy)
            if user.sees_all or (one.tenant is not None and user.acts_for(one.tenant))
        ]
        shown.sort(key=lambda one: (-max(one.used) / max(one.limit, 1e-9), str(one.tenant)))
        grid = plan.grid
        return PolicySeries(
            version=plan.version,
            name=name,
            from_=grid.seconds(start),
            to=grid.seconds(end),
            step=grid.seconds(bucket),
            from_at=rfc3339_text(grid.instant_at(grid.ms(start))),
            to_at=rfc3339_text(grid.instant_at(grid.ms(end))),
            use=shown,
        )


def _shown(plan: Plan, series: UseSeries, start: int, end: int, bucket: int) -> LimitSeries:
    """Return a series in buckets; unknown steps count as unused."""
    used, limits = np.zeros(end - start), np.full(end - start, float(series.limit))
    applies = np.zeros(end - start, dtype=bool)
    first, last = max(start, series.first), min(end, series.first + len(series.used))
    if first < last:
        known = slice(first - series.first, last - series.first)
        used[first - start : last - start] = series.used[known]
        limits[first - start : last - start] = series.limits[known]
        applies[first - start : last - start] = series.applies[known]
    edges = np.arange(0, end - start, bucket)
    unit, size = unit_of(series.measure, series.resource)
    window, guarantee = series.window_ms, series.guarantee
    return LimitSeries(
        tenant=series.tenant,
        queue=series.queue,
        agent=series.agent,
        measure=series.measure,
        resource=series.resource,
        unit=unit,
        window=None if window is None else duration_text(window),
        limit=series.limit / size,
        guarantee=None if guarantee is None else guarantee / size,
        limits=(np.maximum.reduceat(limits, edges) / size).tolist(),
        used=(np.maximum.reduceat(used, edges) / size).tolist(),
        applies=np.logical_or.reduceat(applies, edges).tolist(),
    )
