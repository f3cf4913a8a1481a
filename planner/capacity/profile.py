"""The free profile: what is left of the cluster, step by step, and of window averages.

A ledger is written by `Plan.apply` alone. Snapshots share it until the next write, which then goes
to a copy, so taking a snapshot costs nothing and holding one costs one copy.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from planner.capacity.block_index import block_count, block_minima
from planner.capacity.capacity_rows import CapacityRows, limit_of, terms_of
from planner.cluster.calendar import Calendar, calendar_of
from planner.reservations.rows import dense
from planner.view import AverageSlack, Demand, ProfileArrays
from rdl.resources import Resources
from rdl.time_grid import TimeGrid


@dataclass(slots=True)
class Cells:
    """The arrays of a ledger; rows past the counts are room to grow.

    Attributes
    ----------
    free, rows
        int64[room, steps], and how many of its rows are filled.
    slack, averages
        int64[room, longest window + steps], and how many of its rows are filled.
    low, slack_low
        Least of each block of `free` and `slack`; no blocks on coarse grids.
    """

    free: NDArray[np.int64]
    slack: NDArray[np.int64]
    low: NDArray[np.int64]
    slack_low: NDArray[np.int64]
    rows: int = 0
    averages: int = 0

    @classmethod
    def empty(cls, rows: int, steps: int, longest: int) -> Cells:
        """Return room for so many rows of `steps` columns, nothing filled."""
        free = np.empty((rows, steps), dtype=np.int64)
        slack = np.empty((0, longest + steps), dtype=np.int64)
        low = np.zeros((rows, block_count(steps)), dtype=np.int64)
        return cls(free, slack, low, np.zeros((0, block_count(longest + steps)), dtype=np.int64))

    def copy(self) -> Cells:
        """Return equal cells that share nothing."""
        return Cells(
            self.free.copy(),
            self.slack.copy(),
            self.low.copy(),
            self.slack_low.copy(),
            self.rows,
            self.averages,
        )

    def index_again(self) -> None:
        """Find the least of every block anew."""
        if self.low.shape[1]:
            self.low[: self.rows] = block_minima(self.free[: self.rows])
        if self.slack_low.shape[1]:
            self.slack_low[: self.averages] = block_minima(self.slack[: self.averages])


def with_spare_rows(array: NDArray[np.int64], filled: int, wanted: int) -> NDArray[np.int64]:
    """Return a copy with room for half as many rows again."""
    grown = np.empty((wanted + wanted // 2, array.shape[1]), dtype=np.int64)
    grown[:filled] = array[:filled]
    return grown


#: (demand, rows int64[m, 3] of one atom with every occurrence listed, sign): what to take.
Taking = tuple[Demand, NDArray[np.int64], int]

#: From so many rows on, differences are summed instead of slices subtracted.
_MANY_ROWS = 48


class FreeProfile:
    """Free amounts over [first, grid.horizon) under one row book.

    Attributes
    ----------
    book, grid, first, calendar
        What the rows mean, and the steps the columns are.
    begin
        int64[2]: `first`, and its place among the window starts of averages.
    """

    __slots__ = (
        "_arrays",
        "_average_view",
        "_demands",
        "_lock",
        "_terms",
        "_view",
        "begin",
        "book",
        "calendar",
        "cells",
        "first",
        "grid",
    )

    def __init__(self, book: CapacityRows, grid: TimeGrid, first: int) -> None:
        self.book = book
        self.grid = grid
        self.first = first
        self.calendar: Calendar = calendar_of(book.cluster, first, grid.horizon)
        steps = grid.horizon - first
        self.cells = Cells.empty(len(book.rows), steps, book.longest_window)
        self._view: NDArray[np.int64] | None = None
        self._average_view: AverageSlack | None = None
        self._arrays: ProfileArrays | None = None
        # Two agents on snapshots of one version may both meet a policy's scope for the first time.
        self._lock = threading.RLock()
        self._demands: dict[tuple[Resources, str | None, str, str], Demand] = {}
        # By identity, since a demand is five tuples to hash; the demand itself keeps its number.
        self._terms: dict[int, tuple[Demand, NDArray[np.int64]]] = {}
        self.begin = np.array([first, book.longest_window], dtype=np.int64)

    def copy(self) -> FreeProfile:
        """Return an equal ledger that shares nothing that is written.

        What a bundle takes does not depend on what is left, so the cache of demands is common.
        """
        twin = copy.copy(self)
        twin.cells = self.cells.copy()
        twin.forget_views()
        return twin

    def forget_views(self) -> None:
        """Make the next readers look at the present cells."""
        self._view = None
        self._average_view = None
        self._arrays = None

    def fill(self) -> None:
        """Give every row of the book its cells."""
        self._add_rows()
        self._add_averages()

    def roll(self, grid: TimeGrid, first: int) -> FreeProfile:
        """Return the ledger of a later [first, horizon): columns move, nothing is rebuilt."""
        later = FreeProfile(self.book, grid, first)
        self.fill()
        later.fill()
        moved = first - self.first
        mine, its = self.cells, later.cells
        kept = min(max(mine.free.shape[1] - moved, 0), its.free.shape[1])
        was = (self.calendar, self.grid, self.first)
        lent = {
            row: its.free[row, :kept] - limit_of(self.book.rows[row], *was)[moved : moved + kept]
            for row in range(mine.rows)
            if self.book.lends(row)
        }
        its.free[: mine.rows, :kept] = mine.free[: mine.rows, moved : moved + kept]
        for row, more in lent.items():
            its.free[row, :kept] += more
        kept = min(max(mine.slack.shape[1] - moved, 0), its.slack.shape[1])
        its.slack[: mine.averages, :kept] = mine.slack[: mine.averages, moved : moved + kept]
        its.index_again()
        return later

    @property
    def free(self) -> NDArray[np.int64]:
        """int64[row, step - first], read-only and contiguous; gains rows when the book does."""
        view = self._view
        if view is None or len(view) < len(self.book.rows):
            self._add_rows()
            view = self.cells.free[: self.cells.rows]
            view.flags.writeable = False
            self._view = view
        return view

    @property
    def averages(self) -> AverageSlack:
        """Slack of every window average met so far; columns from first - longest window."""
        view = self._average_view
        if view is None or len(view.windows) < len(self.book.averages):
            self._add_averages()
            known = self.book.averages[: self.cells.averages]
            slack = self.cells.slack[: len(known)]
            slack.flags.writeable = False
            windows = np.array([row.window for row in known], dtype=np.int64)
            names = tuple((row.policy, row.resource) for row in known)
            view = AverageSlack(windows, slack, self.book.longest_window, names)
            self._average_view = view
        return view

    def demand(self, bundle: Resources, label: str | None, tenant: str, queue: str) -> Demand:
        """Return what `bundle` takes; cached."""
        key = (bundle, label, tenant, queue)
        known = self._demands.get(key)
        if known is None:
            known = self.book.demand(bundle, label, tenant, queue, self.calendar)
            self._demands[key] = known
        return known

    def terms(self, demand: Demand) -> NDArray[np.int64]:
        """Return what a bundle takes as compiled code reads it; cached."""
        known = self._terms.get(id(demand))
        if known is None:
            known = self._terms[id(demand)] = (demand, terms_of(demand, self.book))
        return known[1]

    def arrays(self) -> ProfileArrays:
        """Return the cells as compiled code reads them."""
        cells, arrays = self.cells, self._arrays
        rows, averages = len(self.book.rows), len(self.book.averages)
        if arrays is None or len(arrays.free) < rows or len(arrays.slack) < averages:
            self.fill()
            rows, averages = cells.rows, cells.averages
            arrays = self._arrays = ProfileArrays(
                cells.free[:rows],
                cells.low[:rows],
                cells.slack[:averages],
                cells.slack_low[:averages],
            )
        return arrays

    def plainly_free(self, pieces: Sequence[tuple[Demand, NDArray[np.int64]]]) -> bool:
        """Return whether rows that stand one after the other are all free, averages included.

        Sufficient, not necessary: `planner.capacity.shortage` looks closer at what is not.
        """
        if not pieces:
            return True
        told = [(self.terms(demand), rows) for demand, rows in pieces]
        return bool(_moves().plainly_free(self.arrays(), self.begin, told))

    def room_over(self, demand: Demand, low: int, high: int) -> NDArray[np.int64]:
        """Return int64[high - low]: bundles that rows and machines leave room for at each step."""
        arrays, breaks = self.arrays(), self.calendar.breaks
        terms, span = self.terms(demand), (low, high)
        found: NDArray[np.int64] = _moves().room_over(arrays, terms, breaks, self.first, span)
        return found

    def take(self, takings: Iterable[Taking]) -> None:
        """Subtract rows (sign 1) or give them back (sign -1), in place."""
        arrays, move = self.arrays(), _moves().move
        for demand, rows, sign in takings:
            if len(rows) > _MANY_ROWS:
                self._take_many(demand, rows, sign)
            elif len(rows):
                move(arrays, self.begin, self.terms(demand), rows, sign)

    def _take_many(self, demand: Demand, rows: NDArray[np.int64], sign: int) -> None:
        """Sum differences up instead of taking row by row."""
        use = self.use_of(rows) * sign
        for row, amount in zip(demand.rows, demand.amounts, strict=True):
            self.cells.free[row] -= use * amount
        if demand.averages:
            self._take_averages(demand, rows, sign)
        self.cells.index_again()

    def close(self, columns: NDArray[np.bool_]) -> None:
        """Leave nothing free of the machines at some columns, in place."""
        self.fill()
        pool = slice(len(self.book.cluster.resources))  # whatever machines give is taken of these
        free = self.cells.free[pool]
        free[:, columns] = np.minimum(free[:, columns], 0)
        self.cells.index_again()

    def use_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return int64[steps]: bundles held at each column by `rows`."""
        return dense(rows, self.first, self.cells.free.shape[1])

    def _take_averages(self, demand: Demand, rows: NDArray[np.int64], sign: int) -> None:
        """Subtract from the slack, only where a window touches the rows."""
        before = self.first - self.book.longest_window
        columns = self.cells.slack.shape[1]
        known: dict[int, tuple[int, NDArray[np.int64]]] = {}
        for number, amount in zip(demand.averages, demand.average_amounts, strict=True):
            window = self.book.averages[number].window
            if window not in known:
                known[window] = window_use(rows, window)
            start, use = known[window]
            low, high = max(start - before, 0), min(start - before + len(use), columns)
            if low < high:
                skipped = low - (start - before)
                piece = use[skipped : skipped + high - low]
                self.cells.slack[number, low:high] -= piece * (sign * amount)

    def _add_rows(self) -> None:
        if self.cells.rows < len(self.book.rows):
            with self._lock:
                self._fill_rows(len(self.book.rows))

    def _fill_rows(self, wanted: int) -> None:
        cells = self.cells
        if cells.rows >= wanted:
            return
        if wanted > len(cells.free):
            cells.free = with_spare_rows(cells.free, cells.rows, wanted)
            cells.low = with_spare_rows(cells.low, cells.rows, wanted)
        for number in range(cells.rows, wanted):
            row = self.book.rows[number]
            cells.free[number] = limit_of(row, self.calendar, self.grid, self.first)
        if cells.low.shape[1]:
            cells.low[cells.rows : wanted] = block_minima(cells.free[cells.rows : wanted])
        cells.rows = wanted
        self._view = None

    def _add_averages(self) -> None:
        if self.cells.averages < len(self.book.averages):
            with self._lock:
                self._fill_averages(len(self.book.averages))

    def _fill_averages(self, wanted: int) -> None:
        cells = self.cells
        if cells.averages >= wanted:
            return
        if wanted > len(cells.slack):
            cells.slack = with_spare_rows(cells.slack, cells.averages, wanted)
            cells.slack_low = with_spare_rows(cells.slack_low, cells.averages, wanted)
        for number in range(cells.averages, wanted):
            limit = self.book.averages[number].limit
            cells.slack[number] = cells.slack_low[number] = limit
        cells.averages = wanted
        self._average_view = None


@cache
def _moves() -> ModuleType:
    """Return the compiled part, loaded when first needed: it takes a moment."""
    from planner.capacity import profile_moves as ledger_moves

    return ledger_moves


def window_use(rows: NDArray[np.int64], window: int) -> tuple[int, NDArray[np.int64]]:
    """Return (first tau, bundle-steps of `rows` inside [tau, tau + window) from there on).

    All windows that touch a row are covered.
    """
    start, end = int(rows[:, 0].min()), int(rows[:, 1].max())
    change = np.zeros(end - start + 1, dtype=np.int64)
    np.add.at(change, rows[:, 0] - start, rows[:, 2])
    np.subtract.at(change, rows[:, 1] - start, rows[:, 2])
    held = np.cumsum(np.cumsum(change[:-1]))
    use = np.concatenate([held, np.full(window - 1, held[-1])])
    use[window:] -= held[:-1]
    return start - window + 1, use
