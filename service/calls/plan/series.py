"""The Plan over time: capacity, allocated and free of each resource, in buckets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planner.cluster.calendar import calendar_of
from planner.plan.plan import Plan
from planner.promise import PromiseLevel
from planner.reservations.reservation import Reservation
from rdl.durations import rfc3339_text
from rdl.resources import CPU, MEMORY
from rdl.time_grid import TimeGrid
from service.problems import ApiError, malformed_problem

#: Most buckets in one answer.
MOST_BUCKETS = 20_000
#: Most reservations in one answer.
MOST_RESERVATIONS = 10_000

#: The unit that people use for a resource, and how many of the Plan's are one; else "units".
UNITS = {CPU: ("cores", 1000), MEMORY: ("MiB", 1)}


@dataclass(frozen=True, slots=True)
class PlanSpan:
    """What part of the Plan, in ms from the origin; None: from now, to the horizon, each step."""

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

    def to_json(self) -> dict[str, Any]:
        """Return amounts in the unit people use: cores, MiB, or units."""
        unit, size = UNITS.get(self.resource, ("units", 1))
        return {
            "unit": unit,
            "capacity": plain_amounts(self.capacity, size),
            "allocated": plain_amounts(self.allocated, size),
            "free": plain_amounts(self.free, size),
        }


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

    def to_json(self) -> dict[str, Any]:
        """Return the body."""
        grid = self.grid
        body: dict[str, Any] = {
            "version": self.version,
            "from": grid.seconds(self.start),
            "to": grid.seconds(self.end),
            "step": grid.seconds(self.bucket),
            "from_at": rfc3339_text(grid.instant_at(grid.ms(self.start))),
            "to_at": rfc3339_text(grid.instant_at(grid.ms(self.end))),
            "now": grid.seconds(self.now),
            "promises": {level.value: count for level, count in self.promises.items()},
            "resources": {one.resource: one.to_json() for one in self.series},
        }
        if self.reservations is not None:
            body["reservations"] = [one.to_json(grid) for one in self.reservations]
        return body


def capture(plan: Plan, span: PlanSpan, *, reservations: bool) -> PlanSeries:
    """Copy a part of the Plan; the caller holds it.

    Raises
    ------
    ApiProblemError
        ``malformed`` for a span that is empty, outside the planned time, or too finely divided.
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
    """Return the first step of a span, the first past it, and the steps of a bucket.

    With `past` a span that asks for it begins before the present.

    Raises
    ------
    ApiProblemError
        ``malformed``, as :func:`capture`.
    """
    grid, first = plan.grid, plan.ledger.first
    least = 0 if past else first
    start = first if span.start_ms is None else max(grid.floor(span.start_ms), least)
    end = grid.horizon if span.end_ms is None else min(grid.ceil(span.end_ms), grid.horizon)
    if start >= end:
        low, high = grid.seconds(least), grid.seconds(grid.horizon)
        message = f"nothing is planned there; the Plan reaches from {low} to {high} seconds"
        raise malformed_problem([ApiError(message, pointer="?from")])
    bucket = 1
    if span.bucket_ms is not None:
        bucket = grid.floor(span.bucket_ms)
        if bucket < 1 or span.bucket_ms % grid.step_ms:
            message = f"a bucket is a multiple of the step, {grid.seconds(1)} seconds"
            raise malformed_problem([ApiError(message, pointer="?step")])
    count = -(-(end - start) // bucket)
    if count > MOST_BUCKETS:
        longer = grid.seconds(-(-(end - start) // MOST_BUCKETS))
        message = f"{count} buckets are more than {MOST_BUCKETS}"
        raise malformed_problem(
            [ApiError(message, pointer="?step", fix=f"ask for step={longer} or more")]
        )
    return start, end, bucket


def _holding_in(plan: Plan, start: int, end: int) -> list[Reservation]:
    """Return the reservations that hold something in [start, end), by admission.

    Raises
    ------
    ApiProblemError
        ``malformed`` when they are more than one answer carries.
    """
    numbers = plan.table.holding_between(np.arange(len(plan.table)), start, end)
    if len(numbers) > MOST_RESERVATIONS:
        message = f"{len(numbers)} reservations are more than {MOST_RESERVATIONS}"
        raise malformed_problem(
            [ApiError(message, pointer="?reservations", fix="ask for a shorter time")]
        )
    return [plan.table.read(number) for number in numbers.tolist()]


def plain_amounts(amounts: NDArray[np.int64], size: int) -> list[int | float]:
    """Return amounts in units of `size`, whole numbers as such."""
    if size == 1:
        whole: list[int | float] = amounts.tolist()
        return whole
    return [a // size if a % size == 0 else a / size for a in amounts.tolist()]
