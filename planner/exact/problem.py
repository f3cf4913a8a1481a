"""A set of requests as the flat arrays that the exact planner's compiled loops read.

Requests become one forest of vertices, numbered through all of them, with columns (steps from the
first one that anybody may use) in place of steps and multiples in place of bundles. Amounts are
kept twice: as whole numbers for plans, and as shares of a row's greatest capacity for prices, so
that prices of cores and of bytes are of one size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from planner.request import Request
from planner.value import value_asked
from planner.view import Demand, PlanView
from rdl.work_graph import (
    ALL,
    ANY,
    ATOM,
    BUNDLE,
    CHILD_COUNT,
    CHILD_FIRST,
    END,
    EVERY,
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
    WORK,
    WorkGraph,
)

I64: TypeAlias = NDArray[np.int64]
F64: TypeAlias = NDArray[np.float64]

# Columns of `Forest.vertices`.
V_KIND = 0
V_PARENT = 1
V_START = 2  # first column of the window
V_END = 3
V_SHORTEST = 4
V_LEAST = 5  # g, h, w in multiples
V_MOST = 6
V_MULTIPLE = 7
V_LEASE = 8
V_WORK = 9
V_DEMAND = 10
V_SHIFT = 11  # first entry in `shifts`, and how many
V_SHIFTS = 12
V_CHILD = 13
V_CHILDREN = 14
V_LAST = 15  # EVERY: from the child's end to the end of its last occurrence
V_SOUND = 16  # 0 where no plan can satisfy it
V_PRED = 17  # first edge into it, and how many
V_PREDS = 18
V_SUCCS = 19  # edges out of it
V_INFLOW = 20  # nearest vertex from itself up that has edges into it, or -1
V_REQUEST = 21
V_BLOCKED = 22  # first entry of its own caps in `caps`, or -1 where its maximum always fits
V_RUN = 23  # length of the one block that it must be, or 0 where it may split or bend
V_SUCC = 24  # first entry in `succs`
V_COLUMNS = 25


class Forest(NamedTuple):
    """Requests as arrays; see the module.

    Attributes
    ----------
    vertices
        int64[vertex, V_COLUMNS], requests one after the other, each in post-order.
    first
        int64[request + 1].
    children, shifts
        Vertices below a group; offsets of occurrences.
    preds
        int64[edge, 4]: vertex before, least gap, largest gap (-1 = none), vertex after.
    program
        Vertices in an order in which all that precedes a vertex, and its children, stand before
        it; `first` cuts it too.
    caps
        Most multiples that fit on the idle profile at each column of an atom's window.
    inflow, flow
        float64[vertex]: its part of what flows into `V_INFLOW`; what each of its successors gets.
    worth
        float64[vertex]: most that the preferences below it can be worth.
    prefer
        float64[vertex].
    value
        float64[request]: worth at preferences of 1.
    succs
        int64[edge]: rows of `preds` by the vertex before.
    """

    vertices: I64
    first: I64
    children: I64
    shifts: I64
    preds: I64
    program: I64
    caps: I64
    inflow: F64
    flow: F64
    worth: F64
    prefer: F64
    value: F64
    succs: I64


class Room(NamedTuple):
    """What is free, and what demands take from it.

    Attributes
    ----------
    free
        int64[row, column], never below 0.
    demand_first, demand_rows, demand_amounts
        As in the greedy planner's profile.
    fit
        int64[demand, column]: most bundles the machines hold.
    scale
        float64[row]: greatest capacity of the row.
    capacity, shares
        `free` and `demand_amounts` as shares of it.
    """

    free: I64
    demand_first: I64
    demand_rows: I64
    demand_amounts: I64
    fit: I64
    scale: F64
    capacity: F64
    shares: F64


@dataclass(frozen=True, slots=True)
class Problem:
    """Requests and room, and how to get back to them.

    Attributes
    ----------
    requests
        In the order of the forest; those that hold nothing (void) are left out.
    base
        Step of column 0.
    """

    requests: tuple[Request, ...]
    forest: Forest
    room: Room
    base: int

    @property
    def total(self) -> float:
        """Most that all requests together can be worth."""
        roots = self.forest.first[1:] - 1
        return float((self.forest.value * self.forest.worth[roots]).sum())


def problem_of(requests: Sequence[Request], view: PlanView) -> Problem:
    """Lay out requests that are not void on what a view leaves free.

    Parameters
    ----------
    requests
        At least one, compiled on the view's grid.
    """
    book = _Demands(view)
    demands = [book.of(request) for request in requests]
    base = min(int(request.graph.vertices[-1, START]) for request in requests)
    base = max(base, view.first)
    end = max(int(request.graph.vertices[-1, END]) for request in requests)
    end = min(max(end, base + 1), view.first + view.free.shape[1])
    room = _room(book.found, view, base, end)
    draft = _Draft(base, end - base)
    for request, own in zip(requests, demands, strict=True):
        draft.add(request, own, view)
    return Problem(tuple(requests), draft.forest(room), room, base)


class _Demands:
    """Numbers the demands of all requests."""

    def __init__(self, view: PlanView) -> None:
        self._view = view
        self._numbers: dict[int, int] = {}
        self.found: list[Demand] = []

    def of(self, request: Request) -> dict[int, int]:
        """Return the number of the demand of each atom."""
        graph = request.graph
        numbers: dict[int, int] = {}
        for atom in graph.atoms.tolist():
            label = int(graph.vertices[atom, LABEL])
            demand = self._view.demand(
                graph.bundles[int(graph.vertices[atom, BUNDLE])],
                graph.labels[label] if label >= 0 else None,
                request.tenant,
                request.queue,
            )
            if id(demand) not in self._numbers:
                self._numbers[id(demand)] = len(self.found)
                self.found.append(demand)
            numbers[atom] = self._numbers[id(demand)]
        return numbers


def _room(demands: Sequence[Demand], view: PlanView, base: int, end: int) -> Room:
    used = sorted({row for demand in demands for row in demand.rows})
    place = {row: index for index, row in enumerate(used)}
    columns = slice(base - view.first, end - view.first)
    free = np.maximum(view.free[used, columns], 0).astype(np.int64)
    scale = np.maximum(free.max(axis=1, initial=1), 1).astype(np.float64)
    first = np.cumsum([0, *(len(demand.rows) for demand in demands)]).astype(np.int64)
    rows = np.array([place[row] for d in demands for row in d.rows], dtype=np.int64)
    amounts = np.array([amount for d in demands for amount in d.amounts], dtype=np.int64)
    segment = np.searchsorted(view.segments, np.arange(base, end), side="right") - 1
    segment = np.clip(segment, 0, len(view.segments) - 2)
    fit = np.array([demand.fit for demand in demands], dtype=np.int64)
    fit = fit.reshape(len(demands), -1)[:, segment]
    capacity = free / scale[:, None]
    shares = amounts / scale[rows]
    return Room(free, first, rows, amounts, fit, scale, capacity, shares)


class _Draft:
    """The forest being grown, request by request."""

    def __init__(self, base: int, columns: int) -> None:
        self._base, self._columns = base, columns
        self._first = [0]
        self._vertices: list[I64] = []
        self._children: list[int] = []
        self._shifts: list[int] = []
        self._preds: list[tuple[int, int, int, int]] = []
        self._program: list[int] = []
        self._inflow: list[float] = []
        self._flow: list[float] = []
        self._worth: list[float] = []
        self._prefer: list[float] = []
        self._value: list[float] = []

    def add(self, request: Request, demands: dict[int, int], view: PlanView) -> None:
        """Append one request."""
        graph, offset = request.graph, self._first[-1]
        source = graph.vertices
        rows = np.zeros((len(source), V_COLUMNS), dtype=np.int64)
        self._copy(rows, source, offset)
        rows[:, V_REQUEST] = len(self._value)
        for atom, number in demands.items():
            rows[atom, V_DEMAND] = number
        self._edges(rows, graph, offset)
        self._children.extend((graph.children + offset).tolist())
        self._shifts.extend(graph.shifts.tolist())
        self._program.extend(offset + vertex for vertex in _program(graph))
        self._flows(rows, graph, offset)
        worth = _worth(graph)
        self._worth.extend(worth)
        self._prefer.extend(graph.prefer.tolist())
        self._value.append(value_asked(request, view.nominal))
        self._vertices.append(rows)
        self._first.append(offset + len(source))

    def _copy(self, rows: I64, source: I64, offset: int) -> None:
        for to, column in (
            (V_KIND, KIND), (V_SHORTEST, SHORTEST), (V_LEASE, LEASE), (V_SHIFTS, SHIFT_COUNT),
            (V_CHILDREN, CHILD_COUNT), (V_LAST, LAST_SHIFT), (V_SOUND, SATISFIABLE),
        ):  # fmt: skip
            rows[:, to] = source[:, column]
        multiple = np.maximum(source[:, MULTIPLE], 1)
        rows[:, V_MULTIPLE] = multiple
        rows[:, V_LEAST] = -(-source[:, MIN_HEIGHT] // multiple)
        rows[:, V_MOST] = source[:, MAX_HEIGHT] // multiple
        rows[:, V_WORK] = source[:, WORK] // multiple
        rows[:, V_START] = np.maximum(source[:, START] - self._base, 0)
        rows[:, V_END] = np.minimum(source[:, END] - self._base, self._columns)
        rows[:, V_PARENT] = np.where(source[:, PARENT] >= 0, source[:, PARENT] + offset, -1)
        rows[:, V_SHIFT] = source[:, SHIFT_FIRST] + len(self._shifts)
        rows[:, V_CHILD] = source[:, CHILD_FIRST] + len(self._children)
        room = rows[:, V_END] - rows[:, V_START] >= np.maximum(rows[:, V_SHORTEST], 1)
        rows[:, V_SOUND] *= room
        gang = (source[:, KIND] == ATOM) & (rows[:, V_LEAST] == rows[:, V_MOST])
        length = rows[:, V_WORK] // np.maximum(rows[:, V_MOST], 1)
        whole = length * rows[:, V_MOST] == rows[:, V_WORK]
        rows[:, V_RUN] = np.where(gang & whole & (length < 2 * rows[:, V_LEASE]), length, 0)

    def _edges(self, rows: I64, graph: WorkGraph, offset: int) -> None:
        for before, after, least, largest in sorted(graph.edges.tolist(), key=lambda e: e[1]):
            if rows[after, V_PREDS] == 0:
                rows[after, V_PRED] = len(self._preds)
            rows[after, V_PREDS] += 1
            rows[before, V_SUCCS] += 1
            self._preds.append((before + offset, least, largest, after + offset))

    def _flows(self, rows: I64, graph: WorkGraph, offset: int) -> None:
        """Split what is spent before a vertex among those that follow, so that each counts once."""
        count = len(rows)
        inflow, flow = np.ones(count), np.ones(count)
        rows[:, V_INFLOW] = -1
        for vertex in range(count - 1, -1, -1):  # parents before children
            flow[vertex] = 1.0 / max(1, int(rows[vertex, V_SUCCS]))
            if rows[vertex, V_PREDS]:
                rows[vertex, V_INFLOW] = vertex + offset
                continue
            parent = int(graph.vertices[vertex, PARENT])
            if parent < 0:
                continue
            share = 1.0
            if rows[parent, V_KIND] == ALL:
                first, number = graph.vertices[parent, [CHILD_FIRST, CHILD_COUNT]].tolist()
                kids = graph.children[first : first + number]
                share = 1.0 / int((rows[kids, V_PREDS] == 0).sum())
            rows[vertex, V_INFLOW] = rows[parent, V_INFLOW]
            inflow[vertex] = share * inflow[parent] if rows[parent, V_PREDS] == 0 else share
        self._inflow.extend(inflow.tolist())
        self._flow.extend(flow.tolist())

    def forest(self, room: Room) -> Forest:
        """Return the arrays, with what atoms may hold on the idle profile."""
        vertices = np.concatenate(self._vertices)
        shifts = np.array(self._shifts, dtype=np.int64)
        preds = np.array(self._preds, dtype=np.int64).reshape(-1, 4)
        succs = np.argsort(preds[:, 0], kind="stable").astype(np.int64)
        vertices[:, V_SUCC] = np.searchsorted(preds[succs, 0], np.arange(len(vertices)))
        return Forest(
            vertices=vertices,
            first=np.array(self._first, dtype=np.int64),
            children=np.array(self._children, dtype=np.int64),
            shifts=shifts,
            preds=preds,
            program=np.array(self._program, dtype=np.int64),
            caps=_caps(vertices, shifts, room),
            inflow=np.array(self._inflow),
            flow=np.array(self._flow),
            worth=np.array(self._worth),
            prefer=np.array(self._prefer),
            value=np.array(self._value),
            succs=succs,
        )


def _program(graph: WorkGraph) -> list[int]:
    """Return vertices: siblings by their edges, each after all below it."""
    vertices = graph.vertices
    before: dict[int, list[int]] = {}
    for edge in graph.edges.tolist():
        before.setdefault(edge[1], []).append(edge[0])
    found: list[int] = []
    state: dict[int, int] = {}
    pending = [len(vertices) - 1]
    while pending:
        vertex = pending[-1]
        if state.get(vertex) == 2:
            pending.pop()
            continue
        waits = [v for v in before.get(vertex, ()) if state.get(v) != 2]
        first, count = int(vertices[vertex, CHILD_FIRST]), int(vertices[vertex, CHILD_COUNT])
        kids = graph.children[first : first + count].tolist() if vertices[vertex, KIND] else []
        waits += [v for v in reversed(kids) if state.get(v) != 2]
        if state.get(vertex) == 1 or not waits:
            state[vertex] = 2
            found.append(vertex)
            pending.pop()
            continue
        state[vertex] = 1
        pending.extend(waits)
    return found


def _worth(graph: WorkGraph) -> list[float]:
    """Return the most that the preferences below each vertex can be worth."""
    worth = np.ones(len(graph.vertices))
    for vertex, row in enumerate(graph.vertices.tolist()):
        if row[KIND] == ATOM:
            continue
        kids = graph.children[row[CHILD_FIRST] : row[CHILD_FIRST] + row[CHILD_COUNT]]
        if row[KIND] == ANY:
            sound = [k for k in kids.tolist() if graph.vertices[k, SATISFIABLE]]
            worth[vertex] = max((graph.prefer[k] * worth[k] for k in sound), default=0.0)
        elif row[KIND] == EVERY:
            worth[vertex] = worth[kids[0]]
        else:
            worth[vertex] = np.prod(worth[kids])
    return [float(x) for x in worth]


def _caps(vertices: I64, shifts: I64, room: Room) -> I64:
    """Return what each atom may hold alone, where that is ever below its maximum; set V_BLOCKED."""
    kept: list[I64] = []
    size = 0
    alone = _alone(room)
    columns = room.free.shape[1]
    for row in vertices:
        row[V_BLOCKED] = -1
        if row[V_KIND] != ATOM or not row[V_SOUND]:
            continue
        cap = np.full(int(row[V_END] - row[V_START]), row[V_MOST], dtype=np.int64)
        for shift in shifts[row[V_SHIFT] : row[V_SHIFT] + row[V_SHIFTS]].tolist():
            begin, end = int(row[V_START]) + shift, int(row[V_END]) + shift
            inside = alone[row[V_DEMAND], begin : min(end, columns)] // row[V_MULTIPLE]
            part = cap[: len(inside)]
            np.minimum(part, inside, out=part)
            cap[len(inside) :] = 0
        cap[cap < row[V_LEAST]] = 0
        if (cap < row[V_MOST]).any():
            row[V_BLOCKED] = size
            kept.append(cap)
            size += len(cap)
    return np.concatenate([np.zeros(0, dtype=np.int64), *kept])


def _alone(room: Room) -> I64:
    """Return int64[demand, column]: most bundles that fit when nothing else is placed."""
    alone = room.fit.copy()
    for demand in range(len(alone)):
        for j in range(room.demand_first[demand], room.demand_first[demand + 1]):
            held = room.free[room.demand_rows[j]] // room.demand_amounts[j]
            np.minimum(alone[demand], held, out=alone[demand])
    return alone
