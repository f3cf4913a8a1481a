"""From requests to the arrays of the compiled planner.

Objects stay at the edges: a work graph is a few arrays already, so packing is a concatenation
(greedy.md 3.3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner import kernels
from planner.request import Request
from planner.view import Demand, PlanView
from rdl.work_graph import BUNDLE, END, LABEL, START, WorkGraph

I64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class WorkTable:
    """A batch of requests as arrays, and the part of the profile they can touch.

    Attributes
    ----------
    tables
        The concatenated work graphs.
    demands
        The distinct demands, in the order the tables number them.
    base, end
        Steps [base, end) that any of the requests may use.
    """

    tables: kernels.Tables
    demands: tuple[Demand, ...]
    base: int
    end: int

    @property
    def count(self) -> int:
        """Number of requests."""
        return len(self.tables.labels)

    def profile(self, view: PlanView) -> kernels.Profile:
        """Copy what is free on [base, end); the view itself is never changed."""
        free = view.free[:, self.base - view.first : self.end - view.first]
        return profile_of(np.array(free, order="C"), view.segments - self.base, self.demands)


def profile_of(free: I64, segments: I64, demands: Sequence[Demand]) -> kernels.Profile:
    """Join free capacity and demands; `segments` are columns of `free`, and `free` is kept."""
    first = np.zeros(len(demands) + 1, dtype=np.int64)
    rows: list[int] = []
    amounts: list[int] = []
    for index, demand in enumerate(demands):
        rows.extend(demand.rows)
        amounts.extend(demand.amounts)
        first[index + 1] = len(rows)
    return kernels.Profile(
        free=free,
        segments=segments,
        demand_first=first,
        demand_rows=np.array(rows, dtype=np.int64),
        demand_amounts=np.array(amounts, dtype=np.int64),
        fit=np.array([demand.fit for demand in demands], dtype=np.int64).reshape(
            len(demands), len(segments) - 1
        ),
    )


def averages_of(view: PlanView, base: int, end: int, demands: Sequence[Demand]) -> kernels.Averages:
    """Copy what window averages leave to steps [base, end), if any of the demands counts."""
    known = view.averages
    first = _offsets([len(demand.averages) for demand in demands])
    windows, slack, offset = known.windows, known.slack, known.offset
    if first[-1]:
        slack = np.array(slack[:, base - view.first : end - view.first + offset], order="C")
    else:
        windows, slack, offset = _NONE, np.zeros((0, end - base), dtype=np.int64), 0
    return kernels.Averages(
        windows=windows,
        slack=slack,
        first=first,
        rows=np.array([row for d in demands for row in d.averages], dtype=np.int64),
        amounts=np.array([a for d in demands for a in d.average_amounts], dtype=np.int64),
        offset=np.array([offset], dtype=np.int64),
        work=np.zeros((2, slack.shape[1] + 1), dtype=np.int64),
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


def _joined(parts: list[I64], empty: I64) -> I64:
    return np.concatenate(parts) if len(parts) > 1 else parts[0] if parts else empty


_NONE = np.zeros(0, dtype=np.int64)
_NO_EDGES = np.zeros((0, 4), dtype=np.int64)
_NO_EFFORT = np.zeros(0, dtype=np.float64)


def pack(requests: Sequence[Request], view: PlanView) -> WorkTable:
    """Concatenate the work graphs of requests.

    Graphs of one vertex carry no children, edges or efforts, so that a batch of plain atoms is
    two concatenations.
    """
    graphs = [request.graph for request in requests]
    vertices = [graph.vertices for graph in graphs]
    large = [graph if len(graph.vertices) > 1 else None for graph in graphs]
    groups = [graph for graph in large if graph is not None]
    demands = _Demands(view)
    demand_ends = [0]
    for request in requests:
        demands.add(request)
        demand_ends.append(len(demands.table))
    tables = kernels.Tables(
        vertices=np.concatenate(vertices) if len(vertices) > 1 else vertices[0],
        children=_joined([g.children for g in groups], _NONE),
        edges=_joined([g.edges for g in groups], _NO_EDGES),
        shifts=_joined([g.shifts for g in graphs], _NONE),
        effort=np.concatenate([g.root_effort for g in groups]) if groups else _NO_EFFORT,
        vertex_first=_offsets([len(v) for v in vertices]),
        child_first=_offsets([0 if g is None else len(g.children) for g in large]),
        edge_first=_offsets([0 if g is None else len(g.edges) for g in large]),
        shift_first=_offsets([len(g.shifts) for g in graphs]),
        effort_first=_offsets([0 if g is None else len(g.vertices) for g in large]),
        demand_of=np.array(demands.table, dtype=np.int64),
        demand_first=np.array(demand_ends, dtype=np.int64),
        labels=np.array([len(graph.labels) for graph in graphs], dtype=np.int64),
    )
    base, end = _span(tables, view)
    return WorkTable(tables, tuple(demands.found), base, end)


def _span(tables: kernels.Tables, view: PlanView) -> tuple[int, int]:
    """Return the steps that the roots' windows cover, inside the view."""
    counts = np.diff(tables.vertex_first)
    roots = tables.vertices[tables.vertex_first[1:][counts > 0] - 1]
    last = view.first + view.free.shape[1]
    if not len(roots):
        return view.first, min(view.first + 1, last)
    base = min(max(view.first, int(roots[:, START].min())), last - 1)
    return base, min(last, max(base + 1, int(roots[:, END].max())))
