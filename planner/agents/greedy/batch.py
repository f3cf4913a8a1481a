"""A batch of requests placed by the kernels on a copy of the profile.

Results stay in arrays; a `PlacementResult` is a view of them made on demand (greedy.md 3.3).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planner.agents.greedy.kernels import codes
from planner.agents.greedy.kernels.arrays import Averages, Output, PlaceOrder, Profile, Scratch
from planner.agents.greedy.kernels.batch import place
from planner.agents.greedy.kernels.scratch import ROWS_FULL, STATE_CELLS, STEP_ROWS, VERTEX_ROWS
from planner.agents.greedy.packing import PackedBatch, pack
from planner.capacity.block_index import block_minima
from planner.request import Request
from planner.view import PlanView

I64 = NDArray[np.int64]


class Workspace:
    """Scratch arrays, reused between calls and grown when a batch needs more."""

    def __init__(self) -> None:
        self._columns = self._vertices = self._edges = 0
        self._rows = 4096
        self._scratch: Scratch | None = None

    def scratch(self, table: PackedBatch) -> Scratch:
        """Return scratch arrays large enough for every request of `table`."""
        return self.room(table.end - table.base, table.vertices, table.edges)

    def room(self, columns: int, vertices: int = 1, edges: int = 0) -> Scratch:
        """Return scratch arrays for requests of up to this many columns, vertices and edges."""
        columns = max(8, columns + 1)  # some rows use only a few cells
        vertices, edges = vertices + 1, edges + 1
        ready = self._scratch is not None and self._scratch.rows.shape[0] >= self._rows
        fits = columns <= self._columns and vertices <= self._vertices and edges <= self._edges
        if not (ready and fits):
            self._columns = max(columns, self._columns)
            self._vertices = max(vertices, self._vertices)
            self._edges = max(edges, self._edges)
            self._scratch = Scratch(
                steps=np.zeros((STEP_ROWS, self._columns), dtype=np.int64),
                vertex=np.zeros((VERTEX_ROWS, self._vertices), dtype=np.int64),
                edge=np.zeros((2, self._edges), dtype=np.int64),
                effort=np.zeros((1, self._vertices), dtype=np.float64),
                rows=np.zeros((self._rows, 3), dtype=np.int64),
                state=np.zeros(STATE_CELLS, dtype=np.int64),
            )
        assert self._scratch is not None
        return self._scratch

    def grow_rows(self) -> None:
        """Allocate space for more rows in one request."""
        self._rows *= 4


_LOCAL = threading.local()


def workspace() -> Workspace:
    """Return this thread's workspace."""
    found = getattr(_LOCAL, "workspace", None)
    if found is None:
        found = _LOCAL.workspace = Workspace()
    return found


def _output(table: PackedBatch) -> Output:
    count, vertices = table.count, len(table.tables.vertices)
    return Output(
        vertices=np.empty(vertices, dtype=np.int64),
        first=np.empty(vertices + count, dtype=np.int64),
        rows=np.empty((8 * vertices + 64, 3), dtype=np.int64),
        choices=np.empty((vertices, 2), dtype=np.int64),
        extents=np.zeros((count, codes.EXTENT_COLUMNS), dtype=np.int64),
        status=np.zeros((count, codes.STATUS_COLUMNS), dtype=np.int64),
        used=np.zeros(4, dtype=np.int64),
    )


@dataclass(slots=True)
class Batch:
    """Requests to be placed one by one on a copy of a view's profile.

    Attributes
    ----------
    table, profile, out
        Requests, free capacity, and results.
    view
        Provides the names of rows for refusals.
    """

    table: PackedBatch
    profile: Profile
    averages: Averages
    out: Output
    view: PlanView

    @classmethod
    def of(cls, requests: Sequence[Request], view: PlanView) -> Batch:
        """Pack requests and copy the free capacity of the steps where they may run."""
        table = pack(requests, view)
        averages = table.average_limits(view)
        return cls(table, table.profile(view), averages, _output(table), view)

    def again(self, free: I64, slack: I64) -> Batch:
        """Return a batch of the same requests, unplaced, on copies of the given free capacity."""
        profile = self.profile._replace(free=free.copy(), low=block_minima(free))
        averages = self.averages._replace(slack=slack.copy(), low=block_minima(slack))
        out = _output(self.table)
        return Batch(self.table, profile, averages, out, self.view)

    def place(self, order: I64, passes: I64, early: bool = False) -> None:
        """Place or refuse the requests in `order`; subtract placements from the profile."""
        begin = 0
        space = workspace()
        while begin < len(order):
            scratch = space.scratch(self.table)
            scratch.state[:] = 0
            asked = PlaceOrder(order, passes, self.table.base, int(early))
            begin = place(
                self.table.tables, self.profile, self.averages, scratch, self.out, asked, begin
            )
            if begin < len(order):
                self._grow(space, scratch)

    def _grow(self, space: Workspace, scratch: Scratch) -> None:
        if scratch.state[ROWS_FULL]:
            space.grow_rows()
            return
        out = self.out
        rows = np.empty((4 * len(out.rows) + len(scratch.rows), 3), dtype=np.int64)
        rows[: out.used[2]] = out.rows[: out.used[2]]
        self.out = out._replace(rows=rows)

    def choices(self, index: int) -> tuple[tuple[int, int], ...]:
        """Return (vertex of the `any`, option) of a placed request."""
        first = int(self.out.extents[index, codes.CHOICE_FIRST])
        count = int(self.out.extents[index, codes.CHOICE_COUNT])
        return pairs_of(self.out.choices[first : first + count])

    @property
    def row_names(self) -> RowNames:
        """Names of the rows that status rows refer to by number."""
        takes = self.table.takes
        return RowNames(self.view, self.table.base, takes.rows, takes.averages)


def pairs_of(choices: I64) -> tuple[tuple[int, int], ...]:
    """Return (vertex of the `any`, option) as plain integers."""
    return tuple((int(vertex), int(option)) for vertex, option in choices)


def taking_order(requests: Sequence[Request]) -> I64:
    """Return positions by (priority, larger first; submitted; position)."""
    if len(requests) == 1:
        return np.zeros(1, dtype=np.int64)
    submitted = np.array([request.submitted_ms for request in requests], dtype=np.int64)
    priority = np.array([request.priority for request in requests], dtype=np.int64)
    return np.lexsort((submitted, -priority)).astype(np.int64)


class RowNames(NamedTuple):
    """Maps row numbers in a status row to names of the view.

    Attributes
    ----------
    view
        The source of the names.
    base
        Step of column 0.
    rows, averages
        Rows and averages of the view by the numbers in the status row; None if the numbers are the
        view's.
    """

    view: PlanView
    base: int
    rows: tuple[int, ...] | None = None
    averages: tuple[int, ...] | None = None

    def average(self, number: int) -> tuple[str, str]:
        """Return (policy, resource) of an average."""
        return self.view.averages.names[self.averages[number] if self.averages else number]

    def row(self, number: int) -> tuple[str, str | None]:
        """Return a row's kind and resource; None for the resource if no row is the cause."""
        if number < 0:
            return "", None
        return self.view.row_names[self.rows[number] if self.rows else number]
