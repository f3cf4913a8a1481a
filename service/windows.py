"""The times of a reservation: those of its allocation, and the window of its request."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.plan.plan import Plan
from planner.plan.records.reservation_records import WORK_ENDED, WORK_RUNS_ON
from planner.reservations.reservation import NEVER, Reservation
from planner.reservations.state import State
from rdl.compile.compiler import compile_source
from rdl.compile.context import CompileContext
from rdl.durations import rfc3339_text
from rdl.errors import RdlError
from rdl.time_grid import TimeGrid
from rdl.work_graph import END, START, WorkGraph

#: A window in steps: the first, and the one after the last.
Window = tuple[int, int]

#: Name of the job in a note; tasks of an array share a name.
_JOB: Final = re.compile(r"job \d+|a task of array \d+")

#: Cached windows of reservations that have left the Plan.
_SPARE: Final = 1_000

#: Window of a request that has none, or cannot be compiled any more on a changed grid.
_UNKNOWN: Final = (-1, -1)


class HeldTimes(NamedTuple):
    """Times of a reservation's allocation, and the window of its request, in steps.

    `window` is None if it is unknown.
    """

    begin: int
    finish: int
    window: Window | None

    def to_json(self, grid: TimeGrid) -> dict[str, Any]:
        """Return the times as in the API; `finish` is null without an end."""
        endless = self.finish == NEVER
        return {
            "begin": grid.seconds(self.begin),
            "begin_at": _at(self.begin, grid),
            "finish": None if endless else grid.seconds(self.finish),
            "finish_at": None if endless else _at(self.finish, grid),
            "window": None if self.window is None else [grid.seconds(one) for one in self.window],
            "window_at": None if self.window is None else [_at(one, grid) for one in self.window],
        }

    def beside(self, entry: Mapping[str, Any], grid: TimeGrid) -> dict[str, Any]:
        """Return a document of the reservation with its times, and dates next to all seconds."""
        return {**with_dates(entry, grid), **self.to_json(grid)}


class UnreadWindow(NamedTuple):
    """A reservation whose window is not cached, with the input to compile it."""

    ordinal: int
    revision: int
    expression: str
    context: CompileContext


class WindowBook:
    """Cached windows by a reservation's constant ordinal and its revision.

    A window is only in the request's expression, which takes a tenth of a millisecond to compile,
    so each is compiled once.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, Window]] = {}
        self._lock = threading.Lock()

    def unread(self, plan: Plan, numbers: NDArray[np.int64]) -> list[UnreadWindow]:
        """Return the reservations without cached windows; the caller holds the Plan's lock."""
        meta = plan.table.meta
        known, found = self._known, []
        if len(known) > 2 * len(meta) + _SPARE:  # most of them have left the Plan
            there = set(meta["ordinal"].tolist())
            with self._lock:
                self._known = known = {one: known[one] for one in known if one in there}
        revisions, ordinals = meta["revision"][numbers].tolist(), meta["ordinal"][numbers].tolist()
        for number, ordinal, revision in zip(numbers.tolist(), ordinals, revisions, strict=True):
            entry = known.get(ordinal)
            if entry is None or entry[0] != revision:
                text = plan.table.details.get(number).text
                found.append(UnreadWindow(ordinal, revision, text, _context(plan, number)))
        return found

    def read(self, unread: Sequence[UnreadWindow]) -> None:
        """Compile unknown windows; this is slow, and needs no Plan."""
        for one in unread:
            window = _compile(one.expression, one.context)
            with self._lock:
                self._known[one.ordinal] = one.revision, window

    def windows(self, ordinals: Sequence[int]) -> list[Window | None]:
        """Return the windows of reservations after `read`; None for unknown ones."""
        found = (self._known[ordinal][1] for ordinal in ordinals)
        return [None if window == _UNKNOWN else window for window in found]


def window_of(graph: WorkGraph) -> Window | None:
    """Return the window of a compiled request; None for a session, which is not planned."""
    if not len(graph.vertices):
        return None
    root = graph.vertices[-1]
    return int(root[START]), int(root[END])


def _at(step: int, grid: TimeGrid) -> str:
    return _date_of(grid.ms(step), grid.origin)


def with_dates(entry: Mapping[str, Any], grid: TimeGrid) -> dict[str, Any]:
    """Return a document of a reservation with the dates of each allocation, row by row."""
    origin = grid.origin
    atoms = [
        {
            **atom,
            "allocation_at": [
                [_date_of(round(begin * 1000), origin), _date_of(round(end * 1000), origin)]
                for begin, end, _ in atom["allocation"]
            ],
        }
        for atom in entry["atoms"]
    ]
    return {**entry, "atoms": atoms}


def history_of(reservation: Reservation, grid: TimeGrid) -> Iterator[dict[str, Any]]:
    """Yield the history as in the API, with the date of each instant."""
    for one in reservation.history:
        entry = one.to_json()
        yield {"at": entry["at"], "at_at": rfc3339_text(grid.instant_at(one.at_ms)), **entry}


def work_entry(reservation: Reservation) -> dict[str, Any]:
    """Return a field that says that a job still runs after its reservation's end; empty if none."""
    if reservation.state is not State.COMPLETED:
        return {}
    running = set()
    for one in reservation.history:
        job = _JOB.match(one.detail)
        if one.what == WORK_RUNS_ON and job:
            running.add(job[0])
        elif one.what == WORK_ENDED and job:
            running.discard(job[0])
    return {"runs_on": True} if running else {}


@lru_cache(maxsize=16_384)
def _date_of(ms: int, origin: datetime | None) -> str:
    """Return a date, cached because many reservations share the same dates."""
    return rfc3339_text(TimeGrid(1, 1, origin).instant_at(ms))


def times_now(plan: Plan, id_: str, graph: WorkGraph | None = None) -> HeldTimes:
    """Return the times of a reservation in the Plan; the caller holds its lock.

    Parameters
    ----------
    graph
        Its compiled request, if available.
    """
    number = plan.table.number_of(id_)
    assert number is not None
    begin, finish = plan.table.meta[["begin", "finish"]][number].tolist()
    if graph is not None:
        return HeldTimes(begin, finish, window_of(graph))
    window = _compile(plan.table.details.get(number).text, _context(plan, number))
    return HeldTimes(begin, finish, None if window == _UNKNOWN else window)


def _context(plan: Plan, number: int) -> CompileContext:
    """Return the context in which a request is compiled for its window.

    It has no machines, because a window does not depend on them.
    """
    submitted_ms = int(plan.table.meta[number]["submitted"])
    return CompileContext(plan.grid, submitted_ms, max_period_ms=plan.cluster.max_period_ms)


def _compile(expression: str, context: CompileContext) -> Window:
    try:
        return window_of(compile_source(expression, context)) or _UNKNOWN
    except RdlError:
        return _UNKNOWN
