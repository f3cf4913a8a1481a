"""Reservations as bars: columns of ids, states, times and rows, for pictures of thousands."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from planner.colours import tenant_slots
from planner.plan.plan import Plan
from planner.plan.table.column_reading import ids_of, row_columns, scope_column
from planner.reservations.reservation import NEVER
from planner.reservations.state import NUMBERED_STATES
from rdl.durations import rfc3339_text
from rdl.time_grid import TimeGrid
from service.access.user import User
from service.calls.plan.bar_choice import EVERY_BAR, BarChoice
from service.problems import ApiError, malformed_problem
from service.windows import Window, WindowBook

#: Most bars in one answer.
MOST_BARS: Final = 20_000

_Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BarSpan:
    """Which bars: of a time in ms from the origin (None: from now, to the horizon), of a tenant.

    `rows` asks for what each holds over time, too; `choice` says which are sent of many.
    """

    start_ms: int | None = None
    end_ms: int | None = None
    tenant: str | None = None
    rows: bool = False
    choice: BarChoice = EVERY_BAR


def bars(
    reading: Callable[[], AbstractContextManager[Plan]],
    book: WindowBook,
    wanted: BarSpan,
    user: User,
) -> dict[str, Any]:
    """Return the reservations that hold something in a time, as columns.

    Only those of tenants that the user acts for; how many others there are is told.

    Parameters
    ----------
    reading
        Holds the newest Plan.
    book
        The windows of its reservations.

    Raises
    ------
    ApiProblemError
        ``malformed`` for a time that is not planned, or too many bars.
    """
    with reading() as plan:
        numbers, total, others = _choose(plan, wanted, user)
        unread = book.unread(plan, numbers)
        ordinals = plan.table.meta["ordinal"][numbers].tolist()
        body = _columns(plan, wanted, numbers)
        held = _row_columns(plan, numbers) if wanted.rows else {}
        grid = plan.grid
    book.read(unread)
    windows = book.windows(ordinals)
    body["window_from"], body["window_until"] = _window_columns(windows, grid)
    return {**body, **held, "total": total, "others": others}


def _choose(plan: Plan, wanted: BarSpan, user: User) -> tuple[_Ints, int, int]:
    """Return the reservations to show, how many there are, and how many there are of others."""
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
        message = f"{len(shown)} bars are more than {MOST_BARS}"
        fix = "ask for a shorter time, or for the most that you need"
        raise malformed_problem([ApiError(message, pointer="?to", fix=fix)])
    return shown, len(held), others


def steps_of_bars(plan: Plan, span: BarSpan) -> tuple[int, int]:
    """Return the first step of a time and the first past it; the past is shown too."""
    grid = plan.grid
    start = plan.now if span.start_ms is None else max(grid.floor(span.start_ms), 0)
    end = grid.horizon if span.end_ms is None else min(grid.ceil(span.end_ms), grid.horizon)
    if start >= end:
        message = f"nothing is planned there; the Plan reaches from 0 to {grid.seconds(end)} s"
        raise malformed_problem([ApiError(message, pointer="?from")])
    return start, end


def _columns(plan: Plan, span: BarSpan, numbers: _Ints) -> dict[str, Any]:
    grid, meta = plan.grid, plan.table.meta
    state, begin, end_step = (meta[name][numbers] for name in ("state", "begin", "finish"))
    start, end = steps_of_bars(plan, span)
    tenants = scope_column(plan.table, numbers, "tenant")
    shown = np.unique(tenants.place)
    slots = tenant_slots(tenants.words)
    place = np.zeros(len(tenants.words) + 1, dtype=np.int64)
    place[shown] = np.arange(len(shown))
    return {
        "version": plan.version,
        "from": grid.seconds(start),
        "to": grid.seconds(end),
        "from_at": rfc3339_text(grid.instant_at(grid.ms(start))),
        "to_at": rfc3339_text(grid.instant_at(grid.ms(end))),
        "now": grid.seconds(plan.now),
        "step": grid.seconds(1),
        "tenants": [
            {"name": name, "slot": slots[name]}
            for name in (tenants.words[n] for n in shown.tolist())
        ],
        "states": [state.value for state in NUMBERED_STATES],
        "id": ids_of(plan.table, numbers),
        "tenant": place[tenants.place].tolist(),
        "state": state.tolist(),
        "begin": _seconds(begin, grid),
        "finish": _seconds(np.minimum(end_step, grid.horizon), grid),
        "endless": np.flatnonzero(end_step == NEVER).tolist(),
    }


def _row_columns(plan: Plan, numbers: _Ints) -> dict[str, Any]:
    """Return the rows of all bars, one after the other, with how many each bar has."""
    columns, grid = row_columns(plan.table, numbers), plan.grid
    place = np.searchsorted(numbers, columns.number)
    start, end, bundles = columns.rows.T
    # A row that begins where the one before it ends is 0: most are, and zeros pack well.
    fresh = np.ones(len(start), dtype=np.bool_)
    fresh[1:] = columns.number[1:] != columns.number[:-1]
    before = np.where(fresh, plan.table.meta["begin"][columns.number], np.roll(end, 1))
    return {
        "rows": np.bincount(place, minlength=len(numbers)).tolist(),
        "row_after": _seconds(start - before, grid),
        "row_length": _seconds(end - start, grid),
        "row_bundles": bundles.tolist(),
    }


def _window_columns(
    windows: list[Window | None], grid: TimeGrid
) -> tuple[list[int | float | None], list[int | float | None]]:
    steps = chain.from_iterable(window or (0, 0) for window in windows)
    known = np.fromiter(steps, np.int64, 2 * len(windows)).reshape(-1, 2)
    first: list[int | float | None] = [*_seconds(known[:, 0], grid)]
    last: list[int | float | None] = [*_seconds(known[:, 1], grid)]
    if None in windows:
        for place, window in enumerate(windows):
            if window is None:
                first[place] = last[place] = None
    return first, last


def _seconds(steps: NDArray[Any], grid: TimeGrid) -> list[int | float]:
    """Return steps as seconds; whole where the Plan's step is."""
    ms = steps.astype(np.int64) * grid.step_ms
    seconds: list[int | float] = (ms // 1000 if grid.step_ms % 1000 == 0 else ms / 1000).tolist()
    return seconds
