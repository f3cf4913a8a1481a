"""Columns of the Rayon MILP: map variables of the model to atoms and vertices.

Every family of variables is one block of the model; an atom or vertex owns a contiguous range of
it. Steps are absolute steps of the plan's grid.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

import rdl.work_graph as wg
from lp.model import Entries, LinearModel
from planner.request import Request
from planner.view import Demand, PlanView
from rdl.compound import parts_of
from rdl.work_graph import WorkGraph

Ints: TypeAlias = NDArray[np.int64]
Floats: TypeAlias = NDArray[np.float64]


@dataclass(slots=True)
class AtomColumns:
    """One atom of one request, heights in multiples (g, h, w divided by `multiple`).

    Attributes
    ----------
    x
        First column of x_jt for t in [start, end); the height is `multiple` x_jt.
    busy
        First column of the binaries of (6), -1 if multiples suffice for the gang.
    change
        First column of y_jt for t in [start, end] (8)-(9), both borders, -1 if none.
    rise
        First column of the bundles acquired at t in [start, end), -1 if no lease needs them.
    overflow
        Column of o_j of the atom's vertex.
    bundles
        Bundles per multiple: `multiple`, or those of all members of a `together`.
    """

    request: int
    vertex: int
    start: int
    end: int
    minimum: int
    maximum: int
    multiple: int
    bundles: int
    lease: int
    work: int
    shifts: NDArray[np.int64]
    demand: Demand
    x: int = -1
    busy: int = -1
    change: int = -1
    rise: int = -1
    overflow: int = -1

    @property
    def steps(self) -> int:
        """Number of steps of the window."""
        return self.end - self.start

    @property
    def rigid(self) -> bool:
        """Whether (7) applies: one block of exactly `lease` steps at one height."""
        return self.minimum == self.maximum and self.work == self.maximum * self.lease

    @property
    def gang(self) -> bool:
        """Whether heights between zero and the minimum must be ruled out by a binary."""
        return self.minimum > 1


@dataclass(slots=True)
class VertexColumns:
    """One vertex of one request: overflow o (1 = not placed) and, if ordered, s and f.

    Attributes
    ----------
    alive
        False for an option that no plan can satisfy, and for its descendants.
    started, unfinished
        First columns of s_t and f_t for t in [start, end), -1 if no order involves the vertex.
    """

    request: int
    vertex: int
    start: int
    end: int
    alive: bool = True
    overflow: int = -1
    started: int = -1
    unfinished: int = -1


@dataclass(slots=True)
class ModelColumns:
    """All columns of a model, by request and vertex.

    Attributes
    ----------
    ordered
        For each request, the vertices with s and f: ends of edges and their descendants.
    """

    requests: list[Request]
    atoms: list[AtomColumns] = field(default_factory=list)
    vertices: list[list[VertexColumns]] = field(default_factory=list)
    ordered: list[set[int]] = field(default_factory=list)


def lay_out(requests: list[Request], view: PlanView) -> ModelColumns:
    """Collect atoms and vertices of all requests; columns are numbered by the model's blocks."""
    columns = ModelColumns(requests)
    for index, request in enumerate(requests):
        graph = request.graph
        alive = _alive(graph)
        own = []
        for vertex, row in enumerate(graph.vertices):
            start, end = int(row[wg.START]), int(row[wg.END])
            own.append(VertexColumns(index, vertex, start, end, alive[vertex]))
            if row[wg.KIND] == wg.ATOM and alive[vertex]:
                columns.atoms.append(_atom(index, vertex, request, view))
        columns.vertices.append(own)
        columns.ordered.append(_order_members(request))
    return columns


def _atom(index: int, vertex: int, request: Request, view: PlanView) -> AtomColumns:
    graph = request.graph
    row = graph.vertices[vertex]
    multiple = int(row[wg.MULTIPLE])
    label = None if row[wg.LABEL] < 0 else graph.labels[int(row[wg.LABEL])]
    first, bundle = int(row[wg.SHIFT_FIRST]), graph.bundles[int(row[wg.BUNDLE])]
    return AtomColumns(
        request=index,
        vertex=vertex,
        start=int(row[wg.START]),
        end=int(row[wg.END]),
        minimum=-(-int(row[wg.MIN_HEIGHT]) // multiple),
        maximum=int(row[wg.MAX_HEIGHT]) // multiple,
        multiple=multiple,
        bundles=multiple * sum(member.count for _, member in parts_of(graph, vertex)),
        lease=int(row[wg.LEASE]),
        work=int(row[wg.WORK]) // multiple,
        shifts=graph.shifts[first : first + int(row[wg.SHIFT_COUNT])],
        demand=view.demand(bundle, label, request.tenant, request.queue),
    )


def _alive(graph: WorkGraph) -> list[bool]:
    alive = [bool(flag) for flag in graph.vertices[:, wg.SATISFIABLE]]
    for vertex in range(len(alive) - 2, -1, -1):
        alive[vertex] = alive[vertex] and alive[int(graph.vertices[vertex, wg.PARENT])]
    return alive


def _order_members(request: Request) -> set[int]:
    graph = request.graph
    pending = {int(vertex) for edge in graph.edges for vertex in edge[:2]}
    ordered: set[int] = set()
    while pending:
        vertex = pending.pop()
        ordered.add(vertex)
        first = int(graph.vertices[vertex, wg.CHILD_FIRST])
        count = int(graph.vertices[vertex, wg.CHILD_COUNT])
        children = {int(child) for child in graph.children[first : first + count]}
        pending |= children - ordered
    return ordered


class ConstraintRows:
    """Rows of one family, collected as arrays and added to the model in one call."""

    def __init__(self) -> None:
        self._rows: list[Ints] = []
        self._columns: list[Ints] = []
        self._values: list[Floats] = []
        self._lower: list[Floats] = []
        self._upper: list[Floats] = []
        self._shifts: list[tuple[Ints, Floats, bool]] = []
        self.count = 0

    def open(self, count: int, *, lower: float = -np.inf, upper: float = np.inf) -> Ints:
        """Add `count` rows with the same bounds; return their numbers in the family."""
        self._lower.append(np.full(count, lower))
        self._upper.append(np.full(count, upper))
        self.count += count
        return np.arange(self.count - count, self.count)

    def put(self, rows: Ints | int, columns: Ints | int, values: float) -> None:
        """Add one coefficient to each of some rows (broadcast)."""
        row_array, column_array = np.broadcast_arrays(np.atleast_1d(rows), np.atleast_1d(columns))
        self._rows.append(row_array.astype(np.int64))
        self._columns.append(column_array.astype(np.int64))
        self._values.append(np.full(row_array.shape, float(values)))

    def put_each(self, rows: Ints, columns: Ints, values: Floats) -> None:
        """Add individual coefficients to one row or to as many rows."""
        row_array, column_array = np.broadcast_arrays(rows, columns)
        self._rows.append(row_array.astype(np.int64))
        self._columns.append(column_array.astype(np.int64))
        self._values.append(values.astype(np.float64))

    def shift(
        self, rows: Ints, *, lower: Floats | None = None, upper: Floats | None = None
    ) -> None:
        """Shift the bounds of some rows by constants from the left-hand side."""
        if lower is not None:
            self._shifts.append((rows, lower, True))
        if upper is not None:
            self._shifts.append((rows, upper, False))

    def add_to(self, model: LinearModel, name: str) -> None:
        """Add the family to the model under the name of its equation."""
        if not self.count:
            return
        entries = Entries(
            np.concatenate(self._rows), np.concatenate(self._columns), np.concatenate(self._values)
        )
        lower, upper = np.concatenate(self._lower), np.concatenate(self._upper)
        for rows, by, is_lower in self._shifts:
            (lower if is_lower else upper)[rows] += by
        model.add_rows(name, self.count, entries, lower=lower, upper=upper)
