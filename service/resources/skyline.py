"""The skyline: allocation of a resource over time, divided by tenant, queue or state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from planner.cluster.calendar import calendar_of
from planner.colours import tenant_slots
from planner.placement import Code
from planner.plan.column_reading import row_columns, scope_column
from planner.plan.plan import Plan
from planner.reservations.state import NUMBERED_STATES
from rdl.durations import rfc3339_text
from rdl.errors import did_you_mean
from service.access.user import User
from service.http.kinds import Word, choice
from service.http.kit import (
    PLAN_TAG,
    Answer,
    Calls,
    Count,
    IfNoneMatch,
    Input,
    Instant,
    doc,
    one_of,
    unchanged,
)
from service.problems import ApiError, malformed_problem
from service.resources.plan import UNITS, Bucket, From, PlanSpan, To, plain_amounts, steps_of
from service.response import Response
from service.runtime import Runtime

#: The possible divisions of a skyline.
DIVISIONS: Final = ("tenant", "queue", "state")

#: The most amounts in one answer: buckets times layers.
MOST_AMOUNTS: Final = 1_000_000

_Ints = NDArray[np.int64]


#: The permanent, unique index of a tenant, which determines its colour in every picture.
TenantSlot: TypeAlias = Annotated[
    Count | None, doc("Rank of the tenant in order of first appearance; it never changes.")
]


class SkylineQuery(Input):
    resource: Annotated[Word | None, doc("The resource; default: the scarcest.")] = None
    by: Annotated[str, choice(DIVISIONS), doc("What each layer represents.")] = "tenant"
    from_: From = None
    to: To = None
    step: Bucket = None


class SkylineLayer(Answer):
    name: Annotated[str | None, doc("Null: all others that you may not see.")]
    slot: TenantSlot
    amounts: list[float]


class Skyline(Answer):
    version: Count
    from_: float
    to: float
    step: float
    from_at: Instant
    to_at: Instant
    now: float
    resource: str
    unit: str
    by: Annotated[str, one_of(DIVISIONS)]
    capacity: list[float]
    free: list[float]
    layers: Annotated[
        list[SkylineLayer],
        doc("For each bucket, the allocation at the step with the largest total."),
    ]


calls = Calls()


@calls.get(
    "/v1/plan/skyline",
    "The layers of one resource.",
    also={304: "The Plan is at the version of If-None-Match."},
    headers=PLAN_TAG,
    fails=(Code.MALFORMED,),
)
def get_skyline(
    runtime: Runtime, user: User, tags: IfNoneMatch, query: SkylineQuery
) -> Annotated[Response, Skyline]:
    """The allocation of a resource over time by tenant, queue or state."""
    span = PlanSpan(runtime.resolve(query.from_), runtime.resolve(query.to), query.step)
    with runtime.reading() as plan:
        tag = str(plan.version)
        known = unchanged(tags, tag)
        if known is not None:
            return known
        body = skyline(plan, span, query.resource, query.by, user)
    return Response(200, body, {"ETag": f'"{tag}"'})


@dataclass(frozen=True, slots=True)
class Layers:
    """The layers of a skyline, and the layer of each of n reservations.

    Attributes
    ----------
    names
        Names of the layers; None for the layer of tenants that the user may not see.
    slots
        The index of each layer's tenant (`GET /v1/tenants`); None for other layers.
    place
        int64[n]: the layer of each reservation.
    """

    names: Sequence[str | None]
    slots: Sequence[int | None]
    place: _Ints


def skyline(plan: Plan, span: PlanSpan, resource: str | None, division: str, user: User) -> Skyline:
    """Return one resource over time: capacity, and the allocation of each layer.

    A bucket has the values of its step with the largest total: so the layers add up to
    ``allocated`` of ``GET /v1/plan``. The span may include the past that is still in the Plan. The
    caller holds the Plan's lock.

    Raises
    ------
    ApiProblemError
        ``malformed`` for an unknown resource, or too many amounts for one answer.
    """
    row, resource = _resource_of(plan, resource)
    start, end, bucket = steps_of(plan, span, past=True)
    table = plan.table
    held = table.holding_between(np.arange(len(table)), start, end)
    layers = _layers_of(plan, held, division, user)
    buckets = -(-(end - start) // bucket)
    if buckets * len(layers.names) > MOST_AMOUNTS:
        message = f"{buckets} buckets of {len(layers.names)} layers are more than {MOST_AMOUNTS}"
        raise malformed_problem([ApiError(message, pointer="?step", fix="use a longer step")])
    amounts = _amounts(plan, held, layers, (start, end, resource))
    peaks = _peaks(amounts.sum(axis=0), bucket)
    calendar = calendar_of(plan.cluster, start, end)
    capacity = calendar.dense(calendar.capacity(resource))
    free = _free(plan, row, capacity - amounts.sum(axis=0), start, end)
    unit, size = UNITS.get(resource, ("units", 1))
    edges = np.arange(0, end - start, bucket)
    grid = plan.grid
    return Skyline(
        version=plan.version,
        from_=grid.seconds(start),
        to=grid.seconds(end),
        step=grid.seconds(bucket),
        from_at=rfc3339_text(grid.instant_at(grid.ms(start))),
        to_at=rfc3339_text(grid.instant_at(grid.ms(end))),
        now=grid.seconds(plan.now),
        resource=resource,
        unit=unit,
        by=division,
        capacity=plain_amounts(np.minimum.reduceat(capacity, edges), size),
        free=plain_amounts(np.minimum.reduceat(free, edges), size),
        layers=[
            SkylineLayer(name=name, slot=slot, amounts=plain_amounts(amounts[place, peaks], size))
            for place, (name, slot) in enumerate(zip(layers.names, layers.slots, strict=True))
        ],
    )


def _free(plan: Plan, row: int, unheld: _Ints, start: int, end: int) -> _Ints:
    """Return the free amount at each step; in the past, the amount that was not allocated."""
    first = plan.ledger.first
    free = np.maximum(unheld, 0)
    free[max(first - start, 0) :] = plan.ledger.free[row, max(start - first, 0) : end - first]
    return free


def _resource_of(plan: Plan, asked: str | None) -> tuple[int, str]:
    known = list(plan.cluster.resources)
    if asked is None:
        return _scarcest(plan), known[_scarcest(plan)]
    if asked not in known:
        fix = did_you_mean(asked, known)
        message = f"there is no resource {asked!r}"
        raise malformed_problem([ApiError(message, pointer="?resource", fix=fix)])
    return known.index(asked), asked


def _scarcest(plan: Plan) -> int:
    """Return the index of the resource with the smallest free share over the planned time."""
    rows = len(plan.cluster.resources)
    free = plan.ledger.free[:rows].sum(axis=1, dtype=np.float64)
    nominal = np.array(
        [max(1, plan.cluster.nominal.get(name, 0)) for name in plan.cluster.resources]
    )
    return int(np.argmin(free / nominal))


def _layers_of(plan: Plan, held: _Ints, division: str, user: User) -> Layers:
    if division == "state":
        place = plan.table.meta["state"][held].astype(np.int64)
        words: Sequence[str] = [state.value for state in NUMBERED_STATES]
        visible = [True] * len(words)
    else:
        column = scope_column(plan.table, held, division)
        place, words = column.place, column.words
        visible = [division == "queue" or user.acts_for(word) for word in words]
    there = np.bincount(place, minlength=len(words)) > 0
    shown = [n for n, seen in enumerate(visible) if seen and there[n]]
    others = [n for n, seen in enumerate(visible) if not seen and there[n]]
    target = np.full(len(words), len(shown), dtype=np.int64)
    target[shown] = np.arange(len(shown))
    names: list[str | None] = [words[n] for n in shown]
    place_of = tenant_slots(words) if division == "tenant" else {}
    slots: list[int | None] = [place_of.get(words[n]) for n in shown]
    if others:
        names, slots = [*names, None], [*slots, None]
    return Layers(names, slots, target[place])


def _amounts(
    plan: Plan, held: _Ints, layers: Layers, part: tuple[int, int, str]
) -> NDArray[np.int64]:
    """Return int64[layers, steps]: allocation of a resource to each layer at each step."""
    start, end, resource = part
    steps = end - start
    columns = row_columns(plan.table, held)
    size = np.array([bundle.get(resource, 0) for bundle in columns.bundles], dtype=np.int64)
    layer_of = np.zeros(len(plan.table) + 1, dtype=np.int64)
    layer_of[held] = layers.place
    first = np.clip(columns.rows[:, 0] - start, 0, steps)
    last = np.clip(columns.rows[:, 1] - start, 0, steps)
    amount = columns.rows[:, 2] * size[columns.kind]
    changes = np.zeros((len(layers.names), steps + 1), dtype=np.int64)
    layer = layer_of[columns.number]
    np.add.at(changes, (layer, first), amount)
    np.add.at(changes, (layer, last), -amount)
    totals: NDArray[np.int64] = np.add.accumulate(changes[:, :-1], axis=1)
    return totals


def _peaks(total: _Ints, bucket: int) -> _Ints:
    """Return int64[buckets]: the step of each bucket with the largest total."""
    if bucket == 1:
        return np.arange(len(total))
    padded = np.full(-(-len(total) // bucket) * bucket, -1, dtype=np.int64)
    padded[: len(total)] = total
    within = padded.reshape(-1, bucket).argmax(axis=1)
    peaks: _Ints = np.arange(len(within)) * bucket + within
    return peaks
