"""The free profile: free capacity at each step, and slack of window averages.

Only `Plan.apply` writes a ledger. Snapshots share it until the next write, which then goes to a
copy, so taking a snapshot costs nothing and keeping one costs one copy.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner.capacity import profile_kernels as ledger_kernels
from planner.capacity.block_index import block_count, block_minima
from planner.capacity.capacity_rows import CapacityRows, limit_of, terms_of
from planner.cluster.calendar import Calendar, calendar_of
from planner.reservations.rows import dense
from planner.view import AverageSlack, Demand, ProfileArrays
from rdl.resources import Resources
from rdl.time_grid import TimeGrid

I64 = NDArray[np.int64]
_ALL_FIRST = np.zeros(1024, dtype=np.int64)


@dataclass(slots=True)
class Cells:
    """The arrays of a ledger; rows beyond the counts are spare.

    Attributes
    ----------
    free, rows
        int64[room, steps], and how many of its rows are filled.
    slack, averages
        int64[room, longest window + steps], and how many of its rows are filled.
    low, slack_low
        Minima of the blocks of `free` and `slack`; no blocks on coarse grids.
    """

    free: NDArray[np.int64]
    slack: NDArray[np.int64]
    low: NDArray[np.int64]
    slack_low: NDArray[np.int64]
    rows: int = 0
    averages: int = 0

    @classmethod
    def empty(cls, rows: int, steps: int, longest: int) -> Cells:
        """Return cells with space for `rows` rows of `steps` columns, none filled."""
        free = np.empty((rows, steps), dtype=np.int64)
        slack = np.empty((0, longest + steps), dtype=np.int64)
        low = np.zeros((rows, block_count(steps)), dtype=np.int64)
        return cls(free, slack, low, np.zeros((0, block_count(longest + steps)), dtype=np.int64))

    def copy(self) -> Cells:
        """Return an independent copy."""
        return Cells(
            self.free.copy(),
            self.slack.copy(),
            self.low.copy(),
            self.slack_low.copy(),
            self.rows,
            self.averages,
        )

    def index_again(self) -> None:
        """Recompute the minimum of every block."""
        if self.low.shape[1]:
            self.low[: self.rows] = block_minima(self.free[: self.rows])
        if self.slack_low.shape[1]:
            self.slack_low[: self.averages] = block_minima(self.slack[: self.averages])


def with_spare_rows(array: NDArray[np.int64], filled: int, wanted: int) -> NDArray[np.int64]:
    """Return a copy with space for `wanted` rows and half as many more."""
    grown = np.empty((wanted + wanted // 2, array.shape[1]), dtype=np.int64)
    grown[:filled] = array[:filled]
    return grown


#: (demand, rows int64[m, 3] of one atom with all its occurrences, sign): what to take.
Taking = tuple[Demand, NDArray[np.int64], int]

#: With more rows than this, differences are summed instead of subtracting slices.
_MANY_ROWS = 48


class FreeProfile:
    """Free amounts over [first, grid.horizon) with one set of rows.

    Attributes
    ----------
    book, grid, first, calendar
        The meaning of rows and columns.
    begin
        int64[2]: `first`, and its index among the window starts of averages.
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
        # Two agents on snapshots of one version may both add rows for a new scope.
        self._lock = threading.RLock()
        self._demands: dict[tuple[Resources, str | None, str, str], Demand] = {}
        # By identity, since hashing a demand hashes five tuples; the reference keeps the id valid.
        self._terms: dict[int, tuple[Demand, NDArray[np.int64]]] = {}
        self.begin = np.array([first, book.longest_window], dtype=np.int64)

    def copy(self) -> FreeProfile:
        """Return an equal ledger that shares no mutable arrays.

        The cache of demands is shared, since a bundle's use does not depend on free capacity.
        """
        twin = copy.copy(self)
        twin.cells = self.cells.copy()
        twin.forget_views()
        return twin

    def forget_views(self) -> None:
        """Drop the cached views, so that the next readers see the present cells."""
        self._view = None
        self._average_view = None
        self._arrays = None

    def fill(self) -> None:
        """Fill cells for all rows of the book."""
        self._add_rows()
        self._add_averages()

    def roll(self, grid: TimeGrid, first: int) -> FreeProfile:
        """Return the ledger of a later [first, horizon): columns move, without a rebuild."""
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
        """int64[row, step - first], read-only and contiguous; new rows of the book are added."""
        view = self._view
        if view is None or len(view) < len(self.book.rows):
            self._add_rows()
            view = self.cells.free[: self.cells.rows]
            view.flags.writeable = False
            self._view = view
        return view

    @property
    def averages(self) -> AverageSlack:
        """Slack of every window average used so far; columns from first - longest window."""
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
        """Return the use of `bundle`; cached."""
        key = (bundle, label, tenant, queue)
        known = self._demands.get(key)
        if known is None:
            known = self.book.demand(bundle, label, tenant, queue, self.calendar)
            self._demands[key] = known
        return known

    def terms(self, demand: Demand) -> NDArray[np.int64]:
        """Return a bundle's use in the form for kernels; cached."""
        known = self._terms.get(id(demand))
        if known is None:
            known = self._terms[id(demand)] = (demand, terms_of(demand, self.book))
        return known[1]

    def arrays(self) -> ProfileArrays:
        """Return the cells in the form for kernels."""
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
        """Return whether consecutive rows are all free, averages included.

        Sufficient, not necessary: if False, `planner.capacity.shortage` checks precisely.
        """
        if not pieces:
            return True
        told = [(self.terms(demand), rows) for demand, rows in pieces]
        return bool(plainly_free(self.arrays(), self.begin, told))

    def room_over(self, demand: Demand, low: int, high: int) -> NDArray[np.int64]:
        """Return int64[high - low]: free bundles in rows and on machines at each step."""
        arrays, breaks = self.arrays(), self.calendar.breaks
        terms, span = self.terms(demand), (low, high)
        return room_over(arrays, terms, breaks, self.first, span)

    def take(self, takings: Iterable[Taking]) -> None:
        """Take rows (sign 1) or release them (sign -1), in place."""
        arrays = self.arrays()
        for demand, rows, sign in takings:
            if len(rows) > _MANY_ROWS:
                self._take_many(demand, rows, sign)
            elif len(rows):
                move(arrays, self.begin, self.terms(demand), rows, sign)

    def _take_many(self, demand: Demand, rows: NDArray[np.int64], sign: int) -> None:
        """Take many rows by summing differences, instead of row by row."""
        use = self.use_of(rows) * sign
        for row, amount in zip(demand.rows, demand.amounts, strict=True):
            self.cells.free[row] -= use * amount
        if demand.averages:
            self._take_averages(demand, rows, sign)
        self.cells.index_again()

    def close(self, columns: NDArray[np.bool_]) -> None:
        """Set the free capacity of the machines to at most 0 at some columns, in place."""
        self.fill()
        pool = slice(len(self.book.cluster.resources))  # every bundle takes some of these rows
        free = self.cells.free[pool]
        free[:, columns] = np.minimum(free[:, columns], 0)
        self.cells.index_again()

    def use_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return int64[steps]: bundles of `rows` at each column."""
        return dense(rows, self.first, self.cells.free.shape[1])

    def _take_averages(self, demand: Demand, rows: NDArray[np.int64], sign: int) -> None:
        """Subtract from the slack of the windows that overlap the rows."""
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


def window_use(rows: NDArray[np.int64], window: int) -> tuple[int, NDArray[np.int64]]:
    """Return (first tau, bundle-steps of `rows` inside [tau, tau + window) from there on).

    Covers all windows that overlap a row.
    """
    start, end = int(rows[:, 0].min()), int(rows[:, 1].max())
    change = np.zeros(end - start + 1, dtype=np.int64)
    np.add.at(change, rows[:, 0] - start, rows[:, 2])
    np.subtract.at(change, rows[:, 1] - start, rows[:, 2])
    held = np.cumsum(np.cumsum(change[:-1]))
    use = np.concatenate([held, np.full(window - 1, held[-1])])
    use[window:] -= held[:-1]
    return start - window + 1, use


def move(arrays: ProfileArrays, begin: I64, terms: I64, rows: I64, sign: int) -> None:
    """Take the rows of one demand from a ledger (sign 1), or release them (sign -1).

    Parameters
    ----------
    begin
        int64[2]: step of column 0, and the index of that step among window starts.
    terms
        The capacity that a bundle takes, in the layout of `planner.capacity.profile_kernels`.
    rows
        int64[m, 3]; the parts outside the columns are cut off.
    """
    # A copy, since numba would compile a second version for read-only arrays.
    ledger_kernels.move(*arrays, terms, _places(len(rows)), rows.copy(), begin, sign)


def plainly_free(arrays: ProfileArrays, begin: I64, pieces: Sequence[tuple[I64, I64]]) -> bool:
    """Return whether consecutive rows are all free; False also if the fast check is inconclusive.

    `pieces` are (terms, rows) of each atom.
    """
    if len(pieces) == 1:
        terms, rows = pieces[0]
        places, joined = _places(len(rows)), rows.copy()
    else:
        terms = np.concatenate([one for one, _ in pieces])
        joined = np.concatenate([rows for _, rows in pieces])
        ends = np.cumsum([len(one) for one, _ in pieces])
        starts = np.array([0, *ends[:-1]], dtype=np.int64)
        places = np.repeat(starts, [len(rows) for _, rows in pieces])
    return bool(ledger_kernels.all_free(*arrays, terms, places, joined, begin))


def room_over(
    arrays: ProfileArrays, terms: I64, breaks: I64, first: int, span: tuple[int, int]
) -> I64:
    """Return int64[steps]: free bundles in rows and on machines at each step of a span."""
    found: I64 = ledger_kernels.room_over(arrays.free, terms, breaks.copy(), first, *span)
    return found


def _places(count: int) -> I64:
    """Return the index of each row's terms when all rows share them."""
    if count > len(_ALL_FIRST):
        return np.zeros(count, dtype=np.int64)
    return _ALL_FIRST
