"""From requests to the arrays of the compiled planner, and back to results.

Objects stay at the edges: packing is a concatenation of work graphs, answers stay arrays, and a
`PlacementResult` is a view of them made on demand (greedy.md 3.3).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planner import kernels
from planner.placement import Binding, Code, PlacementResult
from planner.request import Request
from planner.view import Demand, PlanView
from rdl.work_graph import BUNDLE, END, KIND, LABEL, START, WorkGraph

I64 = NDArray[np.int64]

_KINDS = {
    kernels.NO_ROOM: "capacity",
    kernels.NO_FIT: "fit",
    kernels.NO_WINDOW: "window",
    kernels.NO_GAP: "gap",
    kernels.NO_AVERAGE: "policy",
}
_AVERAGE = kernels.NO_AVERAGE
_POLICY_CODES = {"quota": Code.QUOTA, "capacity_over_time": Code.CAPACITY_OVER_TIME}


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
        if not graph.labels:
            for bundle in range(len(graph.bundles)):
                self.table.append(self._number(graph, bundle, -1, request))
            return
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


class Workspace:
    """Scratch and output arrays, kept between calls and grown when a batch needs more."""

    def __init__(self) -> None:
        self._columns = self._vertices = self._edges = 0
        self._rows = 4096
        self._scratch: kernels.Scratch | None = None

    def scratch(self, table: WorkTable) -> kernels.Scratch:
        """Return scratch that is large enough for every request of `table`."""
        columns = table.end - table.base + 1
        tables = table.tables
        vertices = int(np.diff(tables.vertex_first).max(initial=0)) + 1
        edges = int(np.diff(tables.edge_first).max(initial=0)) + 1
        ready = self._scratch is not None and self._scratch.rows.shape[0] >= self._rows
        fits = columns <= self._columns and vertices <= self._vertices and edges <= self._edges
        if not (ready and fits):
            self._columns = max(columns, self._columns)
            self._vertices = max(vertices, self._vertices)
            self._edges = max(edges, self._edges)
            self._scratch = kernels.Scratch(
                steps=np.zeros((kernels.STEP_ROWS, self._columns), dtype=np.int64),
                vertex=np.zeros((kernels.VERTEX_ROWS, self._vertices), dtype=np.int64),
                edge=np.zeros((2, self._edges), dtype=np.int64),
                effort=np.zeros((1, self._vertices), dtype=np.float64),
                rows=np.zeros((self._rows, 3), dtype=np.int64),
                state=np.zeros(kernels.STATE_CELLS, dtype=np.int64),
            )
        assert self._scratch is not None
        return self._scratch

    def grow_rows(self) -> None:
        """Make room for more rows in one request."""
        self._rows *= 4


_LOCAL = threading.local()


def workspace() -> Workspace:
    """Return this thread's workspace."""
    found = getattr(_LOCAL, "workspace", None)
    if found is None:
        found = _LOCAL.workspace = Workspace()
    return found


def _output(table: WorkTable) -> kernels.Output:
    count, vertices = table.count, len(table.tables.vertices)
    return kernels.Output(
        vertices=np.empty(vertices, dtype=np.int64),
        first=np.empty(vertices + count, dtype=np.int64),
        rows=np.empty((8 * vertices + 64, 3), dtype=np.int64),
        choices=np.empty((vertices, 2), dtype=np.int64),
        extents=np.zeros((count, kernels.EXTENT_COLUMNS), dtype=np.int64),
        status=np.zeros((count, kernels.STATUS_COLUMNS), dtype=np.int64),
        used=np.zeros(4, dtype=np.int64),
    )


@dataclass(slots=True)
class Batch:
    """Requests being placed one after the other on a copy of a view's profile.

    Attributes
    ----------
    table, profile, out
        What is asked, what is left, what was answered.
    row_names
        Names of the rows of `profile.free`, for refusals.
    """

    table: WorkTable
    profile: kernels.Profile
    averages: kernels.Averages
    out: kernels.Output
    row_names: tuple[tuple[str, str], ...]
    average_names: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, requests: Sequence[Request], view: PlanView) -> Batch:
        """Pack requests and copy what is free where they may run."""
        table = pack(requests, view)
        profile = table.profile(view)
        averages = averages_of(view, table.base, table.end, table.demands)
        names = view.averages.names
        return cls(table, profile, averages, _output(table), view.row_names, names)

    def again(self, free: I64, slack: I64) -> Batch:
        """Return the same requests on copies of what was free, nothing answered yet."""
        profile = self.profile._replace(free=free.copy())
        averages = self.averages._replace(slack=slack.copy())
        out = _output(self.table)
        return Batch(self.table, profile, averages, out, self.row_names, self.average_names)

    def place(self, order: I64, passes: I64, early: bool = False) -> None:
        """Place or refuse the requests in `order`; what is placed is taken from the profile."""
        begin = 0
        space = workspace()
        while begin < len(order):
            scratch = space.scratch(self.table)
            scratch.state[:] = 0
            begin = kernels.place(
                self.table.tables,
                self.profile,
                self.averages,
                scratch,
                self.out,
                order,
                begin,
                len(order),
                passes,
                self.table.base,
                int(early),
            )
            if begin < len(order):
                self._grow(space, scratch)

    def _grow(self, space: Workspace, scratch: kernels.Scratch) -> None:
        if scratch.state[kernels.ROWS_FULL]:
            space.grow_rows()
            return
        out = self.out
        rows = np.empty((4 * len(out.rows) + len(scratch.rows), 3), dtype=np.int64)
        rows[: out.used[2]] = out.rows[: out.used[2]]
        self.out = out._replace(rows=rows)

    def choices(self, index: int) -> tuple[tuple[int, int], ...]:
        """Return (vertex of the `any`, option) of a placed request."""
        first = int(self.out.extents[index, kernels.CHOICE_FIRST])
        count = int(self.out.extents[index, kernels.CHOICE_COUNT])
        return _pairs(self.out.choices[first : first + count])

    def results(self, requests: Sequence[Request]) -> list[PlacementResult]:
        """Return one result a request, in input order, as views of the output arrays."""
        status, extents = self.out.status.tolist(), self.out.extents.tolist()
        vertices, first = _frozen(self.out.vertices), _frozen(self.out.first)
        held, taken = _frozen(self.out.rows), self.out.choices
        answers: list[PlacementResult] = []
        for request, state, extent in zip(requests, status, extents, strict=True):
            if state[0] != kernels.PLACED:
                answers.append(self.refusal(request, state))
                continue
            v, count, f, r, rows, c, choices = extent
            answers.append(
                PlacementResult(
                    vertices=vertices[v : v + count],
                    first=first[f : f + count + 1],
                    rows=held[r : r + rows],
                    choices=_pairs(taken[c : c + choices]) if choices else (),
                )
            )
        return answers

    def refusal(self, request: Request, state: list[int]) -> PlacementResult:
        """Return the refusal that a status row tells of."""
        if state[kernels.OUTCOME] == kernels.PENDING:
            return PlacementResult(
                Code.TIME_LIMIT, "the run was stopped before this request was tried"
            )
        _, vertex, why, column, row, needed, free, _strategy = state
        graph = request.graph
        name, resource = self.row_names[row] if row >= 0 and why != _AVERAGE else ("", None)
        kind, _, policy = name.partition(":")
        code = _POLICY_CODES.get(kind, Code.CAPACITY)
        if why == _AVERAGE:
            code = Code.CAPACITY_OVER_TIME
            policy, resource = self.average_names[row] if self.average_names else ("", None)
        binding = Binding(
            path=graph.paths[vertex],
            kind="policy" if code is not Code.CAPACITY else _KINDS[why],
            at=column + self.table.base if column >= 0 else None,
            resource=resource,
            needed=needed if column >= 0 else None,
            free=free if column >= 0 else None,
            policy=policy if code is not Code.CAPACITY else None,
        )
        return PlacementResult(
            code, _sentence(graph, vertex, binding, why == _AVERAGE), binding=binding
        )


def _frozen(array: I64) -> I64:
    seen = array.view()
    seen.flags.writeable = False
    return seen


def _pairs(choices: I64) -> tuple[tuple[int, int], ...]:
    return tuple((int(vertex), int(option)) for vertex, option in choices)


def _sentence(graph: WorkGraph, vertex: int, binding: Binding, average: bool) -> str:
    start, end = graph.vertices[vertex, START], graph.vertices[vertex, END]
    what = "option" if graph.vertices[vertex, KIND] else "atom"
    window = f"[{graph.grid.seconds(int(start))} s, {graph.grid.seconds(int(end))} s)"
    head = f"no place for {what} {binding.path or 'of the request'} in {window}"
    if binding.at is None:
        reason = "what must follow leaves too little time"
        if binding.kind == "gap":
            reason = "no placement keeps the largest gap"
        return f"{head}: {reason}"
    at = f"{graph.grid.seconds(binding.at)} s"
    if average:
        return (
            f"{head}: policy {binding.policy} leaves {binding.free} {binding.resource}-steps "
            f"in its window from {at}, all of the work takes {binding.needed}"
        )
    if binding.resource is None:
        return f"{head}: machines hold {binding.free} of {binding.needed} bundles at {at}"
    limit = f" within policy {binding.policy}" if binding.policy else ""
    return (
        f"{head}: at {at} the least is free, {binding.free} {binding.resource}{limit}; "
        f"one step takes at least {binding.needed}"
    )


def taking_order(requests: Sequence[Request]) -> I64:
    """Return positions by (priority, larger first; submitted; position)."""
    if len(requests) == 1:
        return np.zeros(1, dtype=np.int64)
    submitted = np.array([request.submitted_ms for request in requests], dtype=np.int64)
    priority = np.array([request.priority for request in requests], dtype=np.int64)
    return np.lexsort((submitted, -priority)).astype(np.int64)
