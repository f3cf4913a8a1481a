"""Pack requests into arrays for the kernels.

A work graph already consists of a few arrays, so packing is a concatenation (greedy.md 3.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from planner.agents.greedy.kernels.arrays import Averages, Profile, Tables
from planner.capacity.block_index import block_minima
from planner.request import Request
from planner.view import Demand, PlanView
from rdl.work_graph import BUNDLE, END, LABEL, START, WorkGraph

I64 = NDArray[np.int64]

Lists = tuple[I64, I64, I64]


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """A batch of requests as arrays, and the range of steps that they can use.

    Attributes
    ----------
    tables
        The concatenated work graphs.
    takes
        The distinct demands, in the order of their numbers in the tables.
    base, end
        Steps [base, end) that any of the requests may use.
    vertices, edges
        Numbers of vertices and edges of the largest request.
    """

    tables: Tables
    takes: DemandArrays
    base: int
    end: int
    vertices: int
    edges: int

    @property
    def count(self) -> int:
        """Number of requests."""
        return len(self.tables.labels)

    def profile(self, view: PlanView) -> Profile:
        """Copy the free capacity on [base, end) of the rows used; the view is never changed."""
        columns = slice(self.base - view.first, self.end - view.first)
        free = _copy(view.free, self.takes.rows, columns)
        segments = view.segments - self.base
        span = np.array([0, self.end - self.base], dtype=np.int64)
        takes = self.takes
        return Profile(free, span, segments, *takes.row_lists, takes.fit, block_minima(free))

    def average_limits(self, view: PlanView) -> Averages:
        """Copy the remaining budgets on [base, end) of the averages that apply to any demand."""
        taken = self.takes.averages
        windows, offset = _NONE, 0
        slack = np.zeros((0, self.end - self.base), dtype=np.int64)
        if taken:
            known = view.averages
            windows, offset = known.windows[list(taken)], known.offset
            columns = slice(self.base - view.first, self.end - view.first + offset)
            slack = _copy(known.slack, taken, columns)
        place = np.array([offset, self.end - self.base], dtype=np.int64)
        low = block_minima(slack)
        return Averages(windows, slack, *self.takes.average_lists, place, low)


def _copy(array: I64, rows: tuple[int, ...], columns: slice) -> I64:
    """Return a writable copy of some rows and columns; views are never written."""
    if len(rows) == array.shape[0]:
        return array[:, columns].copy()
    part = array[:, columns]
    copy = np.empty((len(rows), part.shape[1]), dtype=np.int64)
    for index, row in enumerate(rows):
        copy[index] = part[row]
    return copy


class _BatchDemands:
    """Numbers the demands of a batch in order of appearance."""

    def __init__(self, view: PlanView) -> None:
        self._demand = view.demand
        self._numbers: dict[int, int] = {}
        # Requests of a batch often share a bundle object; looking up its identity avoids hashing
        # it.
        self._plain: dict[tuple[int, str, str], int] = {}
        self.distinct: list[Demand] = []
        self.table: list[int] = []

    def _number(self, graph: WorkGraph, bundle: int, label: int, request: Request) -> int:
        name = graph.labels[label] if label >= 0 else None
        demand = self._demand(graph.bundles[bundle], name, request.tenant, request.queue)
        number = self._numbers.get(id(demand))
        if number is None:
            number = self._numbers[id(demand)] = len(self.distinct)
            self.distinct.append(demand)
        return number

    def add_all(self, requests: Sequence[Request]) -> list[int]:
        """Append the demands of requests by (bundle, label); return each request's end index."""
        table, plain, ends = self.table, self._plain, [0]
        for request in requests:
            graph = request.graph
            if graph.labels:
                self._add_labelled(request)
            else:
                for index, bundle in enumerate(graph.bundles):
                    key = (id(bundle), request.tenant, request.queue)
                    number = plain.get(key)
                    if number is None:
                        number = plain[key] = self._number(graph, index, -1, request)
                    table.append(number)
            ends.append(len(table))
        return ends

    def _add_labelled(self, request: Request) -> None:
        graph = request.graph
        width = len(graph.labels) + 1
        slots = [-1] * (len(graph.bundles) * width)
        atoms = graph.vertices[graph.atoms]
        for bundle, label in {(int(a[BUNDLE]), int(a[LABEL])) for a in atoms}:
            slots[bundle * width + label + 1] = self._number(graph, bundle, label, request)
        self.table.extend(slots)


def _offsets(lengths: list[int]) -> I64:
    offsets = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


_NONE = np.zeros(0, dtype=np.int64)
_NO_EDGES = np.zeros((0, 4), dtype=np.int64)
_NO_EFFORT = np.zeros(0, dtype=np.float64)
# Compiled code reads these; nothing writes tables.


def pack(requests: Sequence[Request], view: PlanView) -> PackedBatch:
    """Concatenate the work graphs of requests.

    Graphs of one vertex have no children, edges or efforts, so that packing a batch of plain atoms
    takes two concatenations.
    """
    demands = _BatchDemands(view)
    ends = demands.add_all(requests)
    graphs = [request.graph for request in requests]
    vertices = [graph.vertices for graph in graphs]
    sizes = [len(one) for one in vertices]
    if len(graphs) == 1:
        tables = _pack_one(graphs[0], demands.table)
    elif min(sizes) == max(sizes) == 1:
        tables = _pack_atoms(graphs, vertices, demands.table, ends)
    else:
        tables = _pack_many(graphs, vertices, demands.table, ends)
    base, end = _span(tables, view)
    return PackedBatch(
        tables=tables,
        takes=_demand_arrays_of(tuple(demands.distinct)),
        base=base,
        end=end,
        vertices=max(sizes),
        edges=max([len(g.edges) for g, size in zip(graphs, sizes, strict=True) if size > 1] or [0]),
    )


def is_single_atom(request: Request) -> bool:
    """Return whether a request is one atom, once, on any machine."""
    graph = request.graph
    if len(graph.vertices) != 1 or len(graph.shifts) != 1:
        return False
    return len(graph.bundles) == 1 and not graph.labels


def _pack_one(graph: WorkGraph, demands: list[int]) -> Tables:
    """Return the tables of one graph; copies, as read-only arrays have another compiled type."""
    group = len(graph.vertices) > 1
    children = graph.children.copy() if group else _NONE
    edges = graph.edges.copy() if group else _NO_EDGES
    effort = graph.root_effort.copy() if group else _NO_EFFORT
    lengths = [len(graph.vertices), len(children), len(edges), len(graph.shifts), len(effort)]
    ends = np.zeros((6, 2), dtype=np.int64)
    ends[:, 1] = [*lengths, len(demands)]
    return Tables(
        vertices=graph.vertices.copy(),
        children=children,
        edges=edges,
        shifts=graph.shifts.copy(),
        effort=effort,
        vertex_first=ends[0],
        child_first=ends[1],
        edge_first=ends[2],
        shift_first=ends[3],
        effort_first=ends[4],
        demand_of=np.array(demands, dtype=np.int64),
        demand_first=ends[5],
        labels=np.array([len(graph.labels)], dtype=np.int64),
    )


def _pack_atoms(
    graphs: list[WorkGraph], vertices: list[I64], demands: list[int], ends: list[int]
) -> Tables:
    """Return the tables of graphs of one atom each."""
    count = len(graphs)
    shifts = [graph.shifts for graph in graphs]
    one_each, none = np.arange(count + 1, dtype=np.int64), np.zeros(count + 1, dtype=np.int64)
    joined = np.concatenate(shifts)
    return Tables(
        vertices=np.concatenate(vertices),
        children=_NONE,
        edges=_NO_EDGES,
        shifts=joined,
        effort=_NO_EFFORT,
        vertex_first=one_each,
        child_first=none,
        edge_first=none,
        shift_first=one_each if len(joined) == count else _offsets([len(s) for s in shifts]),
        effort_first=none,
        demand_of=np.array(demands, dtype=np.int64),
        demand_first=np.array(ends, dtype=np.int64),
        labels=np.array([len(graph.labels) for graph in graphs], dtype=np.int64),
    )


def _pack_many(
    graphs: list[WorkGraph], vertices: list[I64], demands: list[int], ends: list[int]
) -> Tables:
    large = [graph if len(graph.vertices) > 1 else None for graph in graphs]
    groups = [graph for graph in large if graph is not None]
    return Tables(
        vertices=np.concatenate(vertices),
        children=np.concatenate([g.children for g in groups]) if groups else _NONE,
        edges=np.concatenate([g.edges for g in groups]) if groups else _NO_EDGES,
        shifts=np.concatenate([g.shifts for g in graphs]),
        effort=np.concatenate([g.root_effort for g in groups]) if groups else _NO_EFFORT,
        vertex_first=_offsets([len(v) for v in vertices]),
        child_first=_offsets([0 if g is None else len(g.children) for g in large]),
        edge_first=_offsets([0 if g is None else len(g.edges) for g in large]),
        shift_first=_offsets([len(g.shifts) for g in graphs]),
        effort_first=_offsets([0 if g is None else len(g.vertices) for g in large]),
        demand_of=np.array(demands, dtype=np.int64),
        demand_first=np.array(ends, dtype=np.int64),
        labels=np.array([len(graph.labels) for graph in graphs], dtype=np.int64),
    )


def _span(tables: Tables, view: PlanView) -> tuple[int, int]:
    """Return the steps that the roots' windows cover, inside the view."""
    last = view.first + view.free.shape[1]
    ends = tables.vertex_first[1:]
    if len(ends) > 1:
        ends = ends[np.diff(tables.vertex_first) > 0]
    if not len(ends) or not ends[-1]:
        return view.first, min(view.first + 1, last)
    if len(ends) == 1:
        root = tables.vertices[-1]
        base = min(max(view.first, int(root[START])), last - 1)
        return base, min(last, max(base + 1, int(root[END])))
    roots = tables.vertices[ends - 1]
    base = min(max(view.first, int(roots[:, START].min())), last - 1)
    return base, min(last, max(base + 1, int(roots[:, END].max())))


@dataclass(frozen=True, slots=True)
class DemandArrays:
    """Several demands as arrays of the kernels.

    Attributes
    ----------
    rows, averages
        Rows of the view's `free` and `averages` that any demand uses, ascending.
    row_lists, average_lists
        (first, rows, amounts) of all demands; rows are positions in `rows` and `averages`, as in a
        copy of only those rows.
    fit
        int64[demand, segment].
    """

    rows: tuple[int, ...]
    averages: tuple[int, ...]
    row_lists: Lists
    average_lists: Lists
    fit: I64


@lru_cache(maxsize=4096)
def _demand_arrays_of(demands: tuple[Demand, ...]) -> DemandArrays:
    """Join demands; cached, because online requests repeat the same few."""
    rows = tuple(sorted({row for demand in demands for row in demand.rows}))
    averages = tuple(sorted({row for demand in demands for row in demand.averages}))
    row_lists = _lists([(demand.rows, demand.amounts) for demand in demands], rows)
    average_lists = _lists(
        [(demand.averages, demand.average_amounts) for demand in demands], averages
    )
    return DemandArrays(
        rows,
        averages,
        row_lists,
        average_lists,
        np.array([demand.fit for demand in demands] or np.empty((0, 0)), dtype=np.int64),
    )


def _lists(
    pairs: Sequence[tuple[tuple[int, ...], tuple[int, ...]]], known: tuple[int, ...]
) -> tuple[I64, I64, I64]:
    """Return (first, rows as positions in `known`, amounts) of lists of unequal length."""
    first = [0]
    rows: list[int] = []
    amounts: list[int] = []
    position = {row: index for index, row in enumerate(known)}
    for some, their_amounts in pairs:
        rows += [position[row] for row in some]
        amounts += their_amounts
        first.append(len(rows))
    return (
        np.array(first, dtype=np.int64),
        np.array(rows, dtype=np.int64),
        np.array(amounts, dtype=np.int64),
    )
