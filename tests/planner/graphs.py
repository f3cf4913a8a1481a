"""Work graphs by hand, and a view of plain arrays: what the kernels' own tests stand on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from planner.placement import PlacementResult, shifts_of
from planner.request import Request
from planner.view import AverageSlack, Demand, ProfileArrays
from rdl.compile.shapes import shortest_length
from rdl.expressions import Atom
from rdl.resources import Resources
from rdl.time_grid import TimeGrid
from rdl.work_graph import (
    ALL,
    ANY,
    ATOM,
    BUNDLE,
    CHILD_COUNT,
    CHILD_FIRST,
    COLUMNS,
    DOMAIN,
    END,
    EVERY,
    HANDOVER,
    KIND,
    LABEL,
    LAST_SHIFT,
    LEASE,
    MAX_HEIGHT,
    MIN_HEIGHT,
    MULTIPLE,
    PARENT,
    SATISFIABLE,
    SHIFT_COUNT,
    SHIFT_FIRST,
    SHORTEST,
    START,
    VALUES,
    WITHIN,
    WORK,
    WorkGraph,
)

ONE_CPU = Resources.of({"cpu": 1})


@dataclass(frozen=True, slots=True)
class Piece:
    """An atom or a group of a work graph to be; times in steps."""

    kind: int
    children: tuple[Piece, ...] = ()
    numbers: tuple[int, int, int, int, int] = (0, 0, 0, 0, 1)  # g, h, l, w, multiple
    edges: tuple[tuple[int, int, int, int], ...] = ()
    shifts: tuple[int, ...] = (0,)
    window: tuple[int, int] = (0, 1 << 40)
    bundle: Resources = ONE_CPU


def atom(
    g: int, h: int, lease: int, work: int, multiple: int = 1, bundle: Resources = ONE_CPU
) -> Piece:
    """Return an atom; work must be reachable."""
    return Piece(ATOM, numbers=(g, h, lease, work, multiple), bundle=bundle)


def all_of(*children: Piece) -> Piece:
    """Return a group without order."""
    return Piece(ALL, children)


def order(*children: Piece, gap: tuple[int, int] = (0, -1)) -> Piece:
    """Return a chain; `gap` is least and largest (-1 = none)."""
    edges = tuple((i, i + 1, *gap) for i in range(len(children) - 1))
    return Piece(ALL, children, edges=edges)


def graph_of(children: Sequence[Piece], edges: Sequence[tuple[int, int]]) -> Piece:
    """Return a group with arrows between children."""
    return Piece(ALL, tuple(children), edges=tuple((a, b, 0, -1) for a, b in edges))


def any_of(*options: Piece) -> Piece:
    """Return a choice."""
    return Piece(ANY, options)


def every(shifts: Sequence[int], child: Piece) -> Piece:
    """Return a recurrence with occurrences at these shifts."""
    return Piece(EVERY, (child,), shifts=tuple(shifts))


def within(start: int, end: int, piece: Piece) -> Piece:
    """Return the piece with a window of its own."""
    return Piece(
        piece.kind,
        piece.children,
        piece.numbers,
        piece.edges,
        piece.shifts,
        (start, end),
        piece.bundle,
    )


@dataclass(slots=True)
class _Build:
    """Rows of the graph being made."""

    rows: list[NDArray[np.int64]] = field(default_factory=list)
    children: list[int] = field(default_factory=list)
    edges: list[tuple[int, int, int, int]] = field(default_factory=list)
    shifts: list[int] = field(default_factory=list)
    effort: list[float] = field(default_factory=list)
    bundles: list[Resources] = field(default_factory=list)

    def add(self, piece: Piece, shifts: tuple[int, ...]) -> int:
        """Append a piece in post-order; return its vertex."""
        inner = piece.shifts if piece.kind == EVERY else shifts
        kids = [self.add(child, inner) for child in piece.children]
        row = np.zeros(COLUMNS, dtype=np.int64)
        row[[KIND, PARENT, LABEL, DOMAIN, WITHIN, VALUES]] = piece.kind, -1, -1, -1, -1, 1
        row[[SATISFIABLE, SHIFT_COUNT]] = 1
        row[START], row[END] = piece.window
        row[CHILD_FIRST], row[CHILD_COUNT] = len(self.children), len(kids)
        vertex = len(self.rows)
        self.rows.append(row)
        self.children.extend(kids)
        for kid in kids:
            self.rows[kid][PARENT] = vertex
        self.edges.extend((kids[a], kids[b], low, high) for a, b, low, high in piece.edges)
        if piece.kind == ATOM:
            self._atom(row, piece, shifts)
        else:
            self._group(row, piece, kids)
        return vertex

    def _atom(self, row: NDArray[np.int64], piece: Piece, shifts: tuple[int, ...]) -> None:
        g, h, lease, work, multiple = piece.numbers
        row[[MIN_HEIGHT, MAX_HEIGHT, LEASE, WORK, MULTIPLE]] = g, h, lease, work, multiple
        row[SHORTEST] = shortest_length(g, h, multiple, lease, work)
        row[HANDOVER] = g < h
        if piece.bundle not in self.bundles:
            self.bundles.append(piece.bundle)
        row[BUNDLE] = self.bundles.index(piece.bundle)
        row[SHIFT_FIRST], row[SHIFT_COUNT] = len(self.shifts), len(shifts)
        self.shifts.extend(shifts)
        self.effort.append(sqrt(work))

    def _group(self, row: NDArray[np.int64], piece: Piece, kids: list[int]) -> None:
        lengths = [int(self.rows[kid][SHORTEST]) for kid in kids]
        efforts = [self.effort[kid] for kid in kids]
        finish = list(lengths)
        for a, b, low, _high in piece.edges:  # edges run from earlier to later children
            finish[b] = max(finish[b], finish[a] + low + lengths[b])
        row[SHORTEST] = min(lengths) if piece.kind == ANY else max(finish)
        chain = bool(piece.edges)
        self.effort.append(
            efforts[0]
            if piece.kind == ANY
            else sum(efforts)
            if chain
            else sqrt(sum(e * e for e in efforts))
        )
        if piece.kind == EVERY:
            row[LAST_SHIFT] = piece.shifts[-1]
            row[SHORTEST] = lengths[0] + piece.shifts[-1]

    def tighten(self, horizon: int) -> None:
        """Push windows down and along the edges, with the shortest lengths."""
        self.rows[-1][END] = min(self.rows[-1][END], horizon)
        for vertex in range(len(self.rows) - 1, -1, -1):
            row = self.rows[vertex]
            first = row[CHILD_FIRST]
            kids = self.children[first : first + row[CHILD_COUNT]]
            last = row[LAST_SHIFT] if row[KIND] == EVERY else 0
            for kid in kids:
                self.rows[kid][START] = max(self.rows[kid][START], row[START])
                self.rows[kid][END] = min(self.rows[kid][END], row[END] - last)
            mine = [edge for edge in self.edges if edge[0] in kids]
            for _ in kids:
                for a, b, low, _high in mine:
                    before, after = self.rows[a], self.rows[b]
                    after[START] = max(after[START], before[START] + before[SHORTEST] + low)
                    before[END] = min(before[END], after[END] - after[SHORTEST] - low)


def graph(piece: Piece, horizon: int) -> WorkGraph:
    """Return the work graph of a piece on a grid of one-second steps."""
    build = _Build()
    build.add(piece, (0,))
    build.tighten(horizon)
    count = len(build.rows)
    return WorkGraph(
        expression=Atom(ONE_CPU, 1, 1, 1, 1),
        grid=TimeGrid(1000, horizon),
        submitted=0,
        vertices=np.array(build.rows, dtype=np.int64),
        paths=tuple(str(vertex) for vertex in range(count)),
        children=np.array(build.children, dtype=np.int64),
        edges=np.array(build.edges, dtype=np.int64).reshape(-1, 4),
        shifts=np.array(build.shifts, dtype=np.int64),
        bundles=tuple(build.bundles),
        labels=(),
        prefer=np.ones(count),
        root_effort=np.array(build.effort),
    )


def request(piece: Piece, horizon: int, name: str = "r", priority: int = 0) -> Request:
    """Return a request for a piece."""
    return Request(name, "t", "default", 0, 1.0, priority, graph(piece, horizon))


@dataclass
class ArrayView:
    """A PlanView of one array of free capacity; row i is resource i of `resources`."""

    free: NDArray[np.int64]
    resources: tuple[str, ...] = ("cpu",)
    first: int = 0
    version: int = 1
    fit: int = 1 << 30

    def __post_init__(self) -> None:
        """Freeze the array."""
        self.free = np.atleast_2d(np.array(self.free, dtype=np.int64))
        self.free.flags.writeable = False
        self._known: dict[Resources, Demand] = {}

    @property
    def grid(self) -> TimeGrid:
        """One-second steps."""
        return TimeGrid(1000, self.first + self.free.shape[1])

    @property
    def nominal(self) -> Resources:
        """The most that is free at any step."""
        return Resources.of(zip(self.resources, self.free.max(axis=1).tolist(), strict=True))

    @property
    def reference(self) -> Resources:
        """One machine has it all."""
        return self.nominal

    @property
    def row_names(self) -> tuple[tuple[str, str], ...]:
        """All rows are the pool's."""
        return tuple(("pool", name) for name in self.resources)

    @property
    def segments(self) -> NDArray[np.int64]:
        """One segment."""
        return np.array([self.first, self.first + self.free.shape[1]], dtype=np.int64)

    @property
    def averages(self) -> AverageSlack:
        """No averages."""
        return AverageSlack()

    @property
    def prices(self) -> None:
        """No prices."""
        return None

    def arrays(self) -> ProfileArrays | None:
        """Nothing to share."""
        return None

    def demand(self, bundle: Resources, label: str | None, tenant: str, queue: str) -> Demand:
        """Return what the bundle takes of each row."""
        if bundle not in self._known:
            rows = tuple(self.resources.index(name) for name in bundle)
            self._known[bundle] = Demand(rows, tuple(bundle.values()), (self.fit,))
        return self._known[bundle]


def heights(result: PlacementResult, vertex: int, horizon: int) -> list[int]:
    """Return what an atom holds at every step (first occurrence)."""
    held = [0] * horizon
    for at, rows in result.atoms():
        if at == vertex:
            for start, end, bundles in rows.tolist():
                for step in range(start, end):
                    held[step] += bundles
    return held


def use(results: Sequence[PlacementResult], requests: Sequence[Request]) -> NDArray[np.int64]:
    """Return cpu used at every step by all that is placed, every occurrence."""
    total = np.zeros(requests[0].graph.grid.horizon, dtype=np.int64)
    for result, asked in zip(results, requests, strict=True):
        for vertex, rows in result.atoms():
            bundle = asked.graph.bundles[int(asked.graph.vertices[vertex, BUNDLE])]
            for shift in shifts_of(asked.graph, vertex).tolist():
                for start, end, bundles in rows.tolist():
                    total[start + shift : end + shift] += bundles * bundle["cpu"]
    return total
