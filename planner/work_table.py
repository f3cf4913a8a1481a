"""From requests to the arrays of the compiled planner.

Objects stay at the edges: a work graph is a few arrays already, so packing is a concatenation
(greedy.md 3.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from planner import kernels
from planner.request import Request
from planner.view import Demand, PlanView
from rdl.work_graph import BUNDLE, END, LABEL, START, WorkGraph

I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Takes:
    """What several demands take, as the kernels' arrays.

    Attributes
    ----------
    rows, averages
        Rows of the view's `free` and `averages` that any demand takes from, ascending; rows in
        the arrays are positions in them.
    row_lists, average_lists
        (first, rows, amounts) of all demands.
    fit
        int64[demand, segment].
    """

    rows: tuple[int, ...]
    averages: tuple[int, ...]
    row_lists: tuple[I64, I64, I64]
    average_lists: tuple[I64, I64, I64]
    fit: I64


@lru_cache(maxsize=4096)
def takes_of(demands: tuple[Demand, ...]) -> Takes:
    """Join demands; remembered, because online requests repeat the same few."""
    rows = tuple(sorted({row for demand in demands for row in demand.rows}))
    averages = tuple(sorted({row for demand in demands for row in demand.averages}))
    return Takes(
        rows,
        averages,
        _lists([(demand.rows, demand.amounts) for demand in demands], rows),
        _lists([(demand.averages, demand.average_amounts) for demand in demands], averages),
        np.array([demand.fit for demand in demands], dtype=np.int64),
    )


@dataclass(frozen=True, slots=True)
class WorkTable:
    """A batch of requests as arrays, and the part of the profile they can touch.

    Attributes
    ----------
    tables
        The concatenated work graphs.
    takes
        What the distinct demands take, in the order the tables number them.
    base, end
        Steps [base, end) that any of the requests may use.
    vertices, edges
        Of the largest request.
    """

    tables: kernels.Tables
    takes: Takes
    base: int
    end: int
    vertices: int
    edges: int

    @property
    def count(self) -> int:
        """Number of requests."""
        return len(self.tables.labels)

    def profile(self, view: PlanView) -> kernels.Profile:
        """Copy what is free on [base, end) in the rows used; the view itself is never changed."""
        takes = self.takes
        columns = slice(self.base - view.first, self.end - view.first)
        segments = view.segments - self.base
        first, rows, amounts = takes.row_lists
        fit = takes.fit.reshape(len(first) - 1, len(segments) - 1)
        free = _copied(view.free, takes.rows, columns)
        return kernels.Profile(free, segments, first, rows, amounts, fit)

    def average_limits(self, view: PlanView) -> kernels.Averages:
        """Copy what the window averages that any demand counts against leave to [base, end)."""
        taken = self.takes.averages
        first, rows, amounts = self.takes.average_lists
        windows, slack, offset = _NONE, np.zeros((0, self.end - self.base), dtype=np.int64), 0
        if taken:
            known = view.averages
            windows, offset = known.windows[list(taken)], known.offset
            columns = slice(self.base - view.first, self.end - view.first + offset)
            slack = _copied(known.slack, taken, columns)
        work = np.zeros((2, slack.shape[1] + 1), dtype=np.int64)
        offsets = np.array([offset], dtype=np.int64)
        return kernels.Averages(windows, slack, first, rows, amounts, offsets, work)


def _copied(array: I64, rows: tuple[int, ...], columns: slice) -> I64:
    """Return a writable copy of some rows and columns; views are never written."""
    if len(rows) == array.shape[0]:
        return array[:, columns].copy()
    part = array[:, columns]
    copy = np.empty((len(rows), part.shape[1]), dtype=np.int64)
    for index, row in enumerate(rows):
        copy[index] = part[row]
    return copy


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


class _Demands:
    """Numbers the demands of a batch in the order they are met."""

    def __init__(self, view: PlanView) -> None:
        self._demand = view.demand
        self._numbers: dict[int, int] = {}
        # Requests of a batch often share a bundle object; asking by identity spares its hash.
        self._plain: dict[tuple[int, str, str], int] = {}
        self.found: list[Demand] = []
        self.table: list[int] = []

    def _number(self, graph: WorkGraph, bundle: int, label: int, request: Request) -> int:
        name = graph.labels[label] if label >= 0 else None
        demand = self._demand(graph.bundles[bundle], name, request.tenant, request.queue)
        number = self._numbers.get(id(demand))
        if number is None:
            number = self._numbers[id(demand)] = len(self.found)
            self.found.append(demand)
        return number

    def add(self, request: Request) -> None:
        """Append the request's demands by (bundle, label)."""
        graph = request.graph
        if graph.labels:
            self._add_labelled(request)
            return
        for index, bundle in enumerate(graph.bundles):
            key = (id(bundle), request.tenant, request.queue)
            number = self._plain.get(key)
            if number is None:
                number = self._plain[key] = self._number(graph, index, -1, request)
            self.table.append(number)

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


def pack(requests: Sequence[Request], view: PlanView) -> WorkTable:
    """Concatenate the work graphs of requests.

    Graphs of one vertex carry no children, edges or efforts, so that a batch of plain atoms is
    two concatenations.
    """
    demands = _Demands(view)
    ends = [0]
    for request in requests:
        demands.add(request)
        ends.append(len(demands.table))
    graphs = [request.graph for request in requests]
    tables = _one(graphs[0], demands.table) if len(graphs) == 1 else _many(graphs, demands, ends)
    base, end = _span(tables, view)
    return WorkTable(
        tables=tables,
        takes=takes_of(tuple(demands.found)),
        base=base,
        end=end,
        vertices=max(len(graph.vertices) for graph in graphs),
        edges=max(len(graph.edges) for graph in graphs),
    )


def _one(graph: WorkGraph, demands: list[int]) -> kernels.Tables:
    """Return the tables of a single graph; copies, since compiled code tells read-only apart."""
    group = len(graph.vertices) > 1
    children = graph.children.copy() if group else _NONE
    edges = graph.edges.copy() if group else _NO_EDGES
    effort = graph.root_effort.copy() if group else _NO_EFFORT
    lengths = [len(graph.vertices), len(children), len(edges), len(graph.shifts), len(effort)]
    ends = np.zeros((6, 2), dtype=np.int64)
    ends[:, 1] = [*lengths, len(demands)]
    return kernels.Tables(
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


def _many(graphs: list[WorkGraph], demands: _Demands, ends: list[int]) -> kernels.Tables:
    vertices = [graph.vertices for graph in graphs]
    large = [graph if len(graph.vertices) > 1 else None for graph in graphs]
    groups = [graph for graph in large if graph is not None]
    return kernels.Tables(
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
        demand_of=np.array(demands.table, dtype=np.int64),
        demand_first=np.array(ends, dtype=np.int64),
        labels=np.array([len(graph.labels) for graph in graphs], dtype=np.int64),
    )


def _span(tables: kernels.Tables, view: PlanView) -> tuple[int, int]:
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
