"""Bars: many reservations as columns, for charts; also counts by state, and tenants."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any, Final

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from planner.colours import tenant_slots
from planner.placement import Code
from planner.plan.column_reading import (
    ids_of,
    lost_between,
    row_columns,
    scope_column,
    tenants_of,
)
from planner.plan.plan import Plan
from planner.plan.table import ReservationTable
from planner.reservations.reservation import NEVER
from planner.reservations.state import NUMBERED_STATES, State
from rdl.durations import rfc3339_text
from rdl.time_grid import TimeGrid
from service.access.user import User
from service.http.kinds import Flag, Word, choice, integer, text
from service.http.kit import (
    PLAN_TAG,
    Answer,
    Calls,
    Count,
    IfNoneMatch,
    Input,
    Instant,
    doc,
    unchanged,
)
from service.ownership import own_filter
from service.problems import ApiError, malformed_problem
from service.resources.plan import From, To
from service.resources.skyline import TenantSlot
from service.response import Response
from service.runtime import Runtime
from service.windows import Window, WindowBook

#: The most bars in one answer.
MOST_BARS: Final = 20_000

#: The possible orders of bars.
ORDERS: Final = ("admission", "tenant", "begin", "finish")

#: States of reservations that may have lost or released capacity.
_SHORT: Final = (State.DEGRADED, State.FAILED, State.CANCELLED)

_Ints = NDArray[np.int64]


class BarQuery(Input):
    from_: From = None
    to: To = None
    tenant: Annotated[Word | None, doc("Only of this tenant.")] = None
    rows: Annotated[Flag, doc("Add the allocation of each reservation over time.")] = False
    most: Annotated[int | None, integer(1, MOST_BARS), doc("Maximum number of bars.")] = None
    order: Annotated[
        str, choice(ORDERS), doc("Order that selects the bars if there are more than `most`.")
    ] = "admission"
    spread: Annotated[Flag, doc("Select bars evenly spaced in that order, not the first ones.")] = (
        False
    )
    find: Annotated[str, text(), doc("Only reservations whose id contains this text.")] = ""


class TenantPlace(Answer):
    name: str
    slot: TenantSlot


class Bars(Answer):
    version: Count
    from_: float
    to: float
    from_at: Instant
    to_at: Instant
    now: float
    step: float
    tenants: list[TenantPlace]
    states: Annotated[list[str], doc("Names of the states, indexed by `state`.")]
    id: list[str]
    tenant: Annotated[list[Count], doc("Index in `tenants`.")]
    state: Annotated[list[Count], doc("Index in `states`.")]
    begin: Annotated[list[float], doc("Seconds from the origin.")]
    finish: Annotated[list[float], doc("Ends; the horizon for bars without an end.")]
    endless: Annotated[list[Count], doc("Indices of the bars without an end.")]
    window_from: Annotated[list[float | None], doc("Start of the request's window.")] = (
        msgspec.field(default_factory=list)
    )
    window_until: Annotated[list[float | None], doc("End of the request's window.")] = (
        msgspec.field(default_factory=list)
    )
    rows: Annotated[list[Count] | UnsetType, doc("Number of rows of each bar, in order.")] = UNSET
    row_after: Annotated[
        list[float] | UnsetType,
        doc(
            "Seconds after the end of the bar's previous row, or after the bar's "
            "start; negative if atoms overlap in time."
        ),
    ] = UNSET
    row_length: Annotated[list[float] | UnsetType, doc("Seconds.")] = UNSET
    row_bundles: list[Count] | UnsetType = UNSET
    total: Annotated[Count, doc("Number of bars, including those not sent.")] = 0
    others: Annotated[Count, doc("Number of reservations that you may not see.")] = 0


class PlanCounts(Answer):
    version: Count
    from_: float
    to: float
    from_at: Instant
    to_at: Instant
    now: float
    states: Annotated[
        dict[str, Count], doc("Number per state; `refused` counts refusals by their submission.")
    ]


class TenantList(Answer):
    version: Count
    tenants: list[TenantPlace]
    others: Annotated[Count, doc("Number of tenants that you may not see.")]


@dataclass(frozen=True, slots=True)
class BarChoice:
    """Which bars to send if there are more than a chart needs.

    Attributes
    ----------
    most
        The most bars; None: all, or an error if they are too many for one answer.
    order
        One of `ORDERS`.
    spread
        Whether to send evenly spaced bars in that order, instead of the first ones.
    find
        Part of the id; empty: all.
    """

    most: int | None = None
    order: str = "admission"
    spread: bool = False
    find: str = ""

    def found(self, table: ReservationTable, numbers: _Ints) -> _Ints:
        """Return the reservations whose ids contain `find`."""
        if not self.find:
            return numbers
        text = self.find.lower()
        has = [text in id_.lower() for id_ in ids_of(table, numbers)]
        return numbers[np.array(has, dtype=np.bool_)] if len(numbers) else numbers

    def part(self, table: ReservationTable, numbers: _Ints) -> _Ints:
        """Return at most `most` of the reservations, in order of admission."""
        if self.most is None or len(numbers) <= self.most:
            return numbers
        order = self._order(table, numbers)
        places = np.arange(self.most)
        if self.spread:
            places = places * len(numbers) // self.most
        chosen: _Ints = np.sort(numbers[order[places]])
        return chosen

    def _order(self, table: ReservationTable, numbers: _Ints) -> _Ints:
        if self.order == "admission":
            return np.arange(len(numbers))
        meta = table.meta[numbers]
        if self.order == "tenant":
            tenant = scope_column(table, numbers, "tenant").place
            return np.lexsort((meta["begin"], tenant))
        return np.argsort(meta[self.order], kind="stable")


#: All bars.
EVERY_BAR: Final = BarChoice()


@dataclass(frozen=True, slots=True)
class BarSpan:
    """A time in ms from the origin (None: now and the horizon), and a filter of bars.

    `rows` adds the allocation of each bar over time; `choice` selects from many bars.
    """

    start_ms: int | None = None
    end_ms: int | None = None
    tenant: str | None = None
    rows: bool = False
    choice: BarChoice = EVERY_BAR


calls = Calls()


@calls.get(
    "/v1/plan/bars",
    "One entry per bar in each column.",
    also={304: "The Plan is at the version of If-None-Match."},
    headers=PLAN_TAG,
    fails=(Code.MALFORMED,),
)
def get_bars(
    runtime: Runtime, user: User, tags: IfNoneMatch, query: BarQuery
) -> Annotated[Response, Bars]:
    """The reservations with an allocation in a period, as columns."""
    tenant = own_filter(user, query.tenant)
    if tags:
        with runtime.reading() as plan:
            known = unchanged(tags, str(plan.version))
        if known is not None:
            return known
    part = BarChoice(query.most, query.order, query.spread, query.find)
    start, end = runtime.resolve(query.from_), runtime.resolve(query.to)
    body = bars(
        runtime.reading, runtime.windows, BarSpan(start, end, tenant, query.rows, part), user
    )
    return Response(200, body, {"ETag": f'"{body.version}"'})


@calls.get("/v1/plan/counts", "Counts by state.", fails=(Code.MALFORMED,))
def get_plan_counts(runtime: Runtime, user: User, from_: From = None, to: To = None) -> PlanCounts:
    """Number of reservations in each state in a period, and of refused requests."""
    span = BarSpan(runtime.resolve(from_), runtime.resolve(to))
    with runtime.reading() as plan:
        return counts(plan, span, user)


@calls.get("/v1/tenants", "The tenants, in order of first appearance.")
def list_tenants(runtime: Runtime, user: User) -> TenantList:
    """All tenants that have ever had a reservation, each with its permanent rank."""
    with runtime.reading() as plan:
        names, version = tenants_of(plan.table), plan.version
    slots = tenant_slots(names)
    known = [TenantPlace(name=name, slot=slots[name]) for name in slots if user.acts_for(name)]
    return TenantList(version=version, tenants=known, others=len(names) - len(known))


def bars(
    reading: Callable[[], AbstractContextManager[Plan]],
    book: WindowBook,
    wanted: BarSpan,
    user: User,
) -> Bars:
    """Return the reservations with an allocation in a time, as columns.

    Only those of tenants for which the user acts; the others are counted.

    Parameters
    ----------
    reading
        Locks the newest Plan for reading.
    book
        The windows of its reservations.

    Raises
    ------
    ApiProblemError
        ``malformed`` for a time outside the Plan, or too many bars.
    """
    with reading() as plan:
        numbers, total, others = _choose(plan, wanted, user)
        unread = book.unread(plan, numbers)
        ordinals = plan.table.meta["ordinal"][numbers].tolist()
        body = _columns(plan, wanted, numbers)
        if wanted.rows:
            _add_row_columns(body, plan, numbers)
        grid = plan.grid
    book.read(unread)
    windows = book.windows(ordinals)
    body.window_from, body.window_until = _window_columns(windows, grid)
    body.total, body.others = total, others
    return body


def _choose(plan: Plan, wanted: BarSpan, user: User) -> tuple[_Ints, int, int]:
    """Return the reservations to send, their number before the choice, and that of others."""
    start, end = steps_of_bars(plan, wanted)
    table = plan.table
    whole = table.select(range(len(table)), wanted.tenant)
    held = table.holding_between(whole, start, end)
    others = 0
    if not user.sees_all:
        column = scope_column(table, held, "tenant")
        seen = np.array([user.acts_for(word) for word in column.words], dtype=np.bool_)
        mine = seen[column.place] if len(held) else np.zeros(0, dtype=np.bool_)
        others, held = int((~mine).sum()), held[mine]
    held = wanted.choice.found(table, held)
    shown = wanted.choice.part(table, held)
    if len(shown) > MOST_BARS:
        message = f"{len(shown)} bars exceed the limit of {MOST_BARS}"
        fix = "request a shorter period, or limit the number with `most`"
        raise malformed_problem([ApiError(message, pointer="?to", fix=fix)])
    return shown, len(held), others


def steps_of_bars(plan: Plan, span: BarSpan) -> tuple[int, int]:
    """Return the first step of a time and the step after its last; it may include the past."""
    grid = plan.grid
    start = plan.now if span.start_ms is None else max(grid.floor(span.start_ms), 0)
    end = grid.horizon if span.end_ms is None else min(grid.ceil(span.end_ms), grid.horizon)
    if start >= end:
        message = f"that period is outside the Plan, which reaches from 0 to {grid.seconds(end)} s"
        raise malformed_problem([ApiError(message, pointer="?from")])
    return start, end


def _columns(plan: Plan, span: BarSpan, numbers: _Ints) -> Bars:
    grid, meta = plan.grid, plan.table.meta
    state, begin, end_step = (meta[name][numbers] for name in ("state", "begin", "finish"))
    start, end = steps_of_bars(plan, span)
    tenants = scope_column(plan.table, numbers, "tenant")
    shown = np.unique(tenants.place)
    slots = tenant_slots(tenants.words)
    place = np.zeros(len(tenants.words) + 1, dtype=np.int64)
    place[shown] = np.arange(len(shown))
    return Bars(
        version=plan.version,
        from_=grid.seconds(start),
        to=grid.seconds(end),
        from_at=rfc3339_text(grid.instant_at(grid.ms(start))),
        to_at=rfc3339_text(grid.instant_at(grid.ms(end))),
        now=grid.seconds(plan.now),
        step=grid.seconds(1),
        tenants=[
            TenantPlace(name=name, slot=slots[name])
            for name in (tenants.words[n] for n in shown.tolist())
        ],
        states=[state.value for state in NUMBERED_STATES],
        id=ids_of(plan.table, numbers),
        tenant=place[tenants.place].tolist(),
        state=state.tolist(),
        begin=_seconds(begin, grid),
        finish=_seconds(np.minimum(end_step, grid.horizon), grid),
        endless=np.flatnonzero(end_step == NEVER).tolist(),
    )


def _add_row_columns(body: Bars, plan: Plan, numbers: _Ints) -> None:
    """Add the concatenated rows of all bars, and the number of rows of each bar."""
    columns, grid = row_columns(plan.table, numbers), plan.grid
    place = np.searchsorted(numbers, columns.number)
    start, end, bundles = columns.rows.T
    # Starts relative to the previous end are mostly 0, which compresses well.
    fresh = np.ones(len(start), dtype=np.bool_)
    fresh[1:] = columns.number[1:] != columns.number[:-1]
    before = np.where(fresh, plan.table.meta["begin"][columns.number], np.roll(end, 1))
    body.rows = np.bincount(place, minlength=len(numbers)).tolist()
    body.row_after = _seconds(start - before, grid)
    body.row_length = _seconds(end - start, grid)
    body.row_bundles = bundles.tolist()


def _window_columns(
    windows: list[Window | None], grid: TimeGrid
) -> tuple[list[float | None], list[float | None]]:
    steps = chain.from_iterable(window or (0, 0) for window in windows)
    known = np.fromiter(steps, np.int64, 2 * len(windows)).reshape(-1, 2)
    first: list[float | None] = [*_seconds(known[:, 0], grid)]
    last: list[float | None] = [*_seconds(known[:, 1], grid)]
    if None in windows:
        for place, window in enumerate(windows):
            if window is None:
                first[place] = last[place] = None
    return first, last


def _seconds(steps: NDArray[Any], grid: TimeGrid) -> list[float]:
    """Return steps as seconds, whole numbers if the Plan's step is a whole number."""
    ms = steps.astype(np.int64) * grid.step_ms
    seconds: list[float] = (ms // 1000 if grid.step_ms % 1000 == 0 else ms / 1000).tolist()
    return seconds


def counts(plan: Plan, span: BarSpan, user: User) -> PlanCounts:
    """Return counts by state of the reservations in a time, and of the refusals in it.

    A reservation counts if it has an allocation in the time. A degraded, failed or cancelled one
    also counts if it had one there that was lost or released. Only tenants for which the user acts
    are counted. The caller holds the Plan's lock.

    Raises
    ------
    ApiProblemError
        ``malformed`` for a time outside the Plan.
    """
    start, end = steps_of_bars(plan, span)
    table, grid = plan.table, plan.grid
    held = table.holding_between(np.arange(len(table)), start, end)
    held = np.union1d(held, lost_between(table, grid.ms(start), grid.ms(end), _SHORT))
    if not user.sees_all and len(held):
        column = scope_column(table, held, "tenant")
        seen = np.array([user.acts_for(word) for word in column.words], dtype=np.bool_)
        held = held[seen[column.place]]
    found = np.bincount(table.meta["state"][held], minlength=len(NUMBERED_STATES))
    states = {state.value: int(n) for state, n in zip(NUMBERED_STATES, found, strict=True)}
    first, last = grid.ms(start), grid.ms(end)
    states[State.REFUSED.value] = sum(
        first <= one.submitted_ms < last and user.acts_for(one.tenant) for one in plan.refusals
    )
    return PlanCounts(
        version=plan.version,
        from_=grid.seconds(start),
        to=grid.seconds(end),
        from_at=rfc3339_text(grid.instant_at(first)),
        to_at=rfc3339_text(grid.instant_at(last)),
        now=grid.seconds(plan.now),
        states=states,
    )
