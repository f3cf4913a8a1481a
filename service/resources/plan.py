"""The Plan: capacity, allocated and free amounts over time, and export as a plan file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, TypeAlias

import numpy as np
from msgspec import UNSET, Meta, UnsetType
from numpy.typing import NDArray

from planner.cluster.calendar import calendar_of
from planner.files import PlanDocument
from planner.placement import Code
from planner.plan.plan import Plan
from planner.promise import PromiseLevel
from planner.reservations.reservation import Reservation
from planner.workload.plan import document_of
from planner.workload.reload import metrics_of
from rdl.durations import rfc3339_text
from rdl.resources import CPU, MEMORY
from rdl.time_grid import TimeGrid
from service.access.user import Role, User
from service.http.kinds import Flag, QueryLength, QueryTime
from service.http.kit import (
    PLAN_TAG,
    Calls,
    Count,
    IfNoneMatch,
    Instant,
    OpenAnswer,
    doc,
    unchanged,
)
from service.http.route import json_of
from service.jobs.job import whole_cluster
from service.problems import ApiError, malformed_problem
from service.response import Response
from service.runtime import Runtime

#: The order of the file, by admission.
_ORDER: Final = "submitted"

#: The most buckets in one answer.
MOST_BUCKETS = 20_000
#: The most reservations in one answer.
MOST_RESERVATIONS = 10_000

#: The displayed unit of a resource, and its size in units of the Plan; else "units".
UNITS = {CPU: ("cores", 1000), MEMORY: ("MiB", 1)}


_FILE: Final = {"type": "object"}
_RESERVATIONS: Final = Meta(extra_json_schema={"items": json_of("Reservation")})

From: TypeAlias = Annotated[
    QueryTime | None, doc("Start; now when absent. Rounded down to a step.")
]
To: TypeAlias = Annotated[
    QueryTime | None, doc("End; the horizon when absent. Rounded up to a step.")
]
Bucket: TypeAlias = Annotated[
    QueryLength | None, doc("Length of a bucket, a multiple of the Plan's step.")
]


class ResourceSeries(OpenAnswer):
    unit: str
    capacity: list[float]
    allocated: list[float]
    free: list[float]


class PlanSeriesView(OpenAnswer):
    version: Count
    from_: Annotated[float, doc("Seconds from the origin.")]
    to: Annotated[float, doc("Seconds from the origin.")]
    step: float
    from_at: Instant
    to_at: Instant
    now: Annotated[float, doc("Seconds from the origin.")]
    promises: Annotated[dict[str, Count], doc("Number of current reservations by promise level.")]
    resources: dict[str, ResourceSeries]
    reservations: Annotated[list[Any] | UnsetType, _RESERVATIONS] = UNSET


@dataclass(frozen=True, slots=True)
class PlanSpan:
    """A part of the Plan, in ms from the origin; None: now, the horizon, each step."""

    start_ms: int | None = None
    end_ms: int | None = None
    bucket_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """Amounts of one resource, int64[buckets] each."""

    resource: str
    capacity: NDArray[np.int64]
    allocated: NDArray[np.int64]
    free: NDArray[np.int64]

    def shown(self) -> ResourceSeries:
        """Return amounts in the displayed unit: cores, MiB, or units."""
        unit, size = UNITS.get(self.resource, ("units", 1))
        return ResourceSeries(
            unit=unit,
            capacity=plain_amounts(self.capacity, size),
            allocated=plain_amounts(self.allocated, size),
            free=plain_amounts(self.free, size),
        )


@dataclass(frozen=True, slots=True)
class PlanSeries:
    """The answer of ``GET /v1/plan``."""

    version: int
    grid: TimeGrid
    now: int
    start: int
    end: int
    bucket: int
    series: tuple[Series, ...]
    reservations: tuple[Reservation, ...] | None
    promises: Mapping[PromiseLevel, int]

    def shown(self) -> PlanSeriesView:
        """Return the body of the answer."""
        grid = self.grid
        held = self.reservations
        return PlanSeriesView(
            version=self.version,
            from_=grid.seconds(self.start),
            to=grid.seconds(self.end),
            step=grid.seconds(self.bucket),
            from_at=rfc3339_text(grid.instant_at(grid.ms(self.start))),
            to_at=rfc3339_text(grid.instant_at(grid.ms(self.end))),
            now=grid.seconds(self.now),
            promises={level.value: count for level, count in self.promises.items()},
            resources={one.resource: one.shown() for one in self.series},
            reservations=UNSET if held is None else [one.to_json(grid) for one in held],
        )


calls = Calls()


@calls.get(
    "/v1/plan",
    "For each bucket, the smallest capacity, the smallest free and the largest allocated amount.",
    also={304: "The Plan is at the version of If-None-Match."},
    headers=PLAN_TAG,
    fails=(Code.MALFORMED,),
)
def get_plan(
    runtime: Runtime,
    user: User,
    tags: IfNoneMatch,
    from_: From = None,
    to: To = None,
    step: Bucket = None,
    *,
    reservations: Annotated[
        Flag, doc("Add the reservations with an allocation in that period.")
    ] = False,
) -> Annotated[Response, PlanSeriesView]:
    """Total, allocated and free capacity of each resource over time."""
    span = PlanSpan(runtime.resolve(from_), runtime.resolve(to), step)
    with runtime.reading() as plan:
        tag = str(plan.version)
        known = unchanged(tags, tag)
        if known is not None:
            return known
        series = capture(plan, span, reservations=reservations)
    held = series.reservations
    if held is not None and not user.sees_all:
        held = tuple(one for one in held if user.acts_for(one.tenant))
    return Response(200, replace(series, reservations=held).shown(), {"ETag": f'"{tag}"'})


@calls.get("/v1/plan/export", "A plan file.", role=Role.OPERATOR)
def export_plan(runtime: Runtime) -> Annotated[Response, _FILE]:
    """The whole Plan as a file for `agenda validate`, `optimize` and `plan-diff`."""
    headers = {"Content-Disposition": 'attachment; filename="plan.json"'}
    return Response(200, exported_plan(runtime).to_text().encode(), headers)


def exported_plan(runtime: Runtime) -> PlanDocument:
    """Return the Plan in the form of plan files, with new metrics.

    The horizon of its cluster is that of the Plan by now, so that it includes all allocations.
    """
    with runtime.reading() as plan:
        twin = plan.copy()
    twin.cluster = whole_cluster(twin)
    agents = ", ".join(sorted({one.agent for one in twin.reservations()})) or "none"
    return document_of(twin, agents, _ORDER, replace(metrics_of(twin), runtime_ms=0.0))


def capture(plan: Plan, span: PlanSpan, *, reservations: bool) -> PlanSeries:
    """Copy a part of the Plan; the caller holds the Plan's lock.

    Raises
    ------
    ApiProblemError
        ``malformed`` for a span that is empty or outside the Plan, or for too many buckets.
    """
    start, end, bucket = steps_of(plan, span)
    first = plan.ledger.first
    edges = np.arange(start, end, bucket) - start
    calendar = calendar_of(plan.cluster, start, end)
    free_rows = plan.ledger.free
    series = []
    for row, resource in enumerate(plan.cluster.resources):
        capacity = calendar.dense(calendar.capacity(resource))
        free = free_rows[row, start - first : end - first]
        series.append(
            Series(
                resource,
                np.minimum.reduceat(capacity, edges),
                np.maximum.reduceat(capacity - free, edges),
                np.minimum.reduceat(free, edges),
            )
        )
    held = tuple(_holding_in(plan, start, end)) if reservations else None
    promises = plan.table.live_by_level()
    return PlanSeries(
        plan.version, plan.grid, plan.now, start, end, bucket, tuple(series), held, promises
    )


def steps_of(plan: Plan, span: PlanSpan, *, past: bool = False) -> tuple[int, int, int]:
    """Return the first step of a span, the step after its last, and the steps of a bucket.

    With `past`, a span may begin before the present.

    Raises
    ------
    ApiProblemError
        ``malformed``, as in :func:`capture`.
    """
    grid = plan.grid
    start, end = ends_of(plan, span, past=past)
    bucket = 1
    if span.bucket_ms is not None:
        bucket = grid.floor(span.bucket_ms)
        if bucket < 1 or span.bucket_ms % grid.step_ms:
            message = f"a bucket is a multiple of the step, {grid.seconds(1)} seconds"
            raise malformed_problem([ApiError(message, pointer="?step")])
    count = -(-(end - start) // bucket)
    if count > MOST_BUCKETS:
        longer = grid.seconds(-(-(end - start) // MOST_BUCKETS))
        message = f"{count} buckets exceed the limit of {MOST_BUCKETS}"
        raise malformed_problem(
            [ApiError(message, pointer="?step", fix=f"use step={longer} or more")]
        )
    return start, end, bucket


def ends_of(plan: Plan, span: PlanSpan, *, past: bool = False) -> tuple[int, int]:
    """Return the first step of a span and the step after its last, without a limit of steps.

    With `past`, a span may begin before the present.

    Raises
    ------
    ApiProblemError
        ``malformed`` if the span is outside the Plan.
    """
    grid, first = plan.grid, plan.ledger.first
    least = 0 if past else first
    start = first if span.start_ms is None else max(grid.floor(span.start_ms), least)
    end = grid.horizon if span.end_ms is None else min(grid.ceil(span.end_ms), grid.horizon)
    if start >= end:
        low, high = grid.seconds(least), grid.seconds(grid.horizon)
        message = f"that period is outside the Plan, which reaches from {low} to {high} seconds"
        raise malformed_problem([ApiError(message, pointer="?from")])
    return start, end


def _holding_in(plan: Plan, start: int, end: int) -> list[Reservation]:
    """Return the reservations with an allocation in [start, end), in order of admission.

    Raises
    ------
    ApiProblemError
        ``malformed`` if they are too many for one answer.
    """
    numbers = plan.table.holding_between(np.arange(len(plan.table)), start, end)
    if len(numbers) > MOST_RESERVATIONS:
        message = f"{len(numbers)} reservations exceed the limit of {MOST_RESERVATIONS}"
        raise malformed_problem(
            [ApiError(message, pointer="?reservations", fix="request a shorter period")]
        )
    return [plan.table.read(number) for number in numbers.tolist()]


def plain_amounts(amounts: NDArray[np.int64], size: int) -> list[int | float]:
    """Return amounts in units of `size`, as integers where they are whole."""
    if size == 1:
        whole: list[int | float] = amounts.tolist()
        return whole
    return [a // size if a % size == 0 else a / size for a in amounts.tolist()]
