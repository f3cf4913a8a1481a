"""The forest of a problem, grown request by request (`planner.agents.exact.problem.Forest`)."""

from __future__ import annotations

import numpy as np

import planner.agents.exact.problem as pb
import rdl.work_graph as wg
from planner.agents.exact.problem import F64, I64, Forest
from planner.request import Request
from planner.value import preference_losses, value_asked, vertex_sizes
from planner.view import PlanView
from rdl.resources import Resources
from rdl.work_graph import WorkGraph


class ForestBuilder:
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
        self._loss: list[float] = []
        self._value: list[float] = []
        self._kept: list[bool] = []

    def add(self, request: Request, demands: dict[int, int], view: PlanView, *, keep: bool) -> None:
        """Append one request; `demands` numbers what each of its atoms takes."""
        graph, offset = request.graph, self._first[-1]
        source = graph.vertices
        rows = np.zeros((len(source), pb.V_COLUMNS), dtype=np.int64)
        self._copy(rows, source, offset)
        rows[:, pb.V_REQUEST] = len(self._value)
        for atom, number in demands.items():
            rows[atom, pb.V_DEMAND] = number
        self._edges(rows, graph, offset)
        self._children.extend((graph.children + offset).tolist())
        self._shifts.extend(graph.shifts.tolist())
        self._program.extend(offset + vertex for vertex in _program(graph))
        self._flows(rows, graph, offset)
        worth = _worth(graph, view.reference)
        self._worth.extend(worth)
        losses = preference_losses(graph, view.reference)
        self._loss.extend(losses.tolist())
        self._value.append(value_asked(request, view.reference))
        self._kept.append(keep)
        self._vertices.append(rows)
        self._first.append(offset + len(source))

    def _copy(self, rows: I64, source: I64, offset: int) -> None:
        for to, column in (
            (pb.V_KIND, wg.KIND),
            (pb.V_SHORTEST, wg.SHORTEST),
            (pb.V_LEASE, wg.LEASE),
            (pb.V_SHIFTS, wg.SHIFT_COUNT),
            (pb.V_CHILDREN, wg.CHILD_COUNT),
            (pb.V_LAST, wg.LAST_SHIFT),
            (pb.V_SOUND, wg.SATISFIABLE),
        ):
            rows[:, to] = source[:, column]
        multiple = np.maximum(source[:, wg.MULTIPLE], 1)
        rows[:, pb.V_MULTIPLE] = multiple
        rows[:, pb.V_LEAST] = -(-source[:, wg.MIN_HEIGHT] // multiple)
        rows[:, pb.V_MOST] = source[:, wg.MAX_HEIGHT] // multiple
        rows[:, pb.V_WORK] = source[:, wg.WORK] // multiple
        rows[:, pb.V_START] = np.maximum(source[:, wg.START] - self._base, 0)
        rows[:, pb.V_END] = np.minimum(source[:, wg.END] - self._base, self._columns)
        rows[:, pb.V_PARENT] = np.where(
            source[:, wg.PARENT] >= 0, source[:, wg.PARENT] + offset, -1
        )
        rows[:, pb.V_SHIFT] = source[:, wg.SHIFT_FIRST] + len(self._shifts)
        rows[:, pb.V_CHILD] = source[:, wg.CHILD_FIRST] + len(self._children)
        room = rows[:, pb.V_END] - rows[:, pb.V_START] >= np.maximum(rows[:, pb.V_SHORTEST], 1)
        rows[:, pb.V_SOUND] *= room
        gang = (source[:, wg.KIND] == wg.ATOM) & (rows[:, pb.V_LEAST] == rows[:, pb.V_MOST])
        length = rows[:, pb.V_WORK] // np.maximum(rows[:, pb.V_MOST], 1)
        whole = length * rows[:, pb.V_MOST] == rows[:, pb.V_WORK]
        rows[:, pb.V_RUN] = np.where(gang & whole & (length < 2 * rows[:, pb.V_LEASE]), length, 0)

    def _edges(self, rows: I64, graph: WorkGraph, offset: int) -> None:
        for before, after, least, largest in sorted(graph.edges.tolist(), key=lambda e: e[1]):
            if rows[after, pb.V_PREDS] == 0:
                rows[after, pb.V_PRED] = len(self._preds)
            rows[after, pb.V_PREDS] += 1
            rows[before, pb.V_SUCCS] += 1
            self._preds.append((before + offset, least, largest, after + offset))

    def _flows(self, rows: I64, graph: WorkGraph, offset: int) -> None:
        """Split what is spent before a vertex among those that follow, so that each counts once."""
        count = len(rows)
        inflow, flow = np.ones(count), np.ones(count)
        rows[:, pb.V_INFLOW] = -1
        for vertex in range(count - 1, -1, -1):  # parents before children
            flow[vertex] = 1.0 / max(1, int(rows[vertex, pb.V_SUCCS]))
            if rows[vertex, pb.V_PREDS]:
                rows[vertex, pb.V_INFLOW] = vertex + offset
                continue
            parent = int(graph.vertices[vertex, wg.PARENT])
            if parent < 0:
                continue
            share = 1.0
            if rows[parent, pb.V_KIND] == wg.ALL:
                first, number = graph.vertices[parent, [wg.CHILD_FIRST, wg.CHILD_COUNT]].tolist()
                kids = graph.children[first : first + number]
                share = 1.0 / int((rows[kids, pb.V_PREDS] == 0).sum())
            rows[vertex, pb.V_INFLOW] = rows[parent, pb.V_INFLOW]
            inflow[vertex] = share * inflow[parent] if rows[parent, pb.V_PREDS] == 0 else share
        self._inflow.extend(inflow.tolist())
        self._flow.extend(flow.tolist())

    def forest(self) -> Forest:
        """Return the arrays; what atoms may hold on the idle profile (`caps`) is not known here."""
        vertices = np.concatenate(self._vertices)
        preds = np.array(self._preds, dtype=np.int64).reshape(-1, 4)
        succs = np.argsort(preds[:, 0], kind="stable").astype(np.int64)
        vertices[:, pb.V_SUCC] = np.searchsorted(preds[succs, 0], np.arange(len(vertices)))
        return Forest(
            vertices=vertices,
            first=np.array(self._first, dtype=np.int64),
            children=np.array(self._children, dtype=np.int64),
            shifts=np.array(self._shifts, dtype=np.int64),
            preds=preds,
            program=np.array(self._program, dtype=np.int64),
            caps=np.zeros(0, dtype=np.int64),
            inflow=np.array(self._inflow),
            flow=np.array(self._flow),
            worth=np.array(self._worth),
            loss=np.array(self._loss),
            value=np.array(self._value),
            succs=succs,
            keep=self._bonus(),
        )

    def _bonus(self) -> F64:
        """Return what keeping a request counts for: more than all others together are worth."""
        worth = np.array([self._worth[end - 1] for end in self._first[1:]])
        total = float((np.array(self._value) * worth).sum())
        return np.where(self._kept, max(total, 1.0), 0.0)


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
        first, count = int(vertices[vertex, wg.CHILD_FIRST]), int(vertices[vertex, wg.CHILD_COUNT])
        kids = graph.children[first : first + count].tolist() if vertices[vertex, wg.KIND] else []
        waits += [v for v in reversed(kids) if state.get(v) != 2]
        if state.get(vertex) == 1 or not waits:
            state[vertex] = 2
            found.append(vertex)
            pending.pop()
            continue
        state[vertex] = 1
        pending.extend(waits)
    return found


def _worth(graph: WorkGraph, reference: Resources) -> list[float]:
    """Return the most that the preferences below each vertex can be worth."""
    worth, sizes = np.ones(len(graph.vertices)), vertex_sizes(graph, reference)
    for vertex, row in enumerate(graph.vertices.tolist()):
        if row[wg.KIND] == wg.ATOM:
            continue
        kids = graph.children[row[wg.CHILD_FIRST] : row[wg.CHILD_FIRST] + row[wg.CHILD_COUNT]]
        if row[wg.KIND] == wg.ANY:
            sound = [k for k in kids.tolist() if graph.vertices[k, wg.SATISFIABLE]]
            worth[vertex] = max((graph.prefer[k] * worth[k] for k in sound), default=0.0)
        elif row[wg.KIND] == wg.EVERY:
            worth[vertex] = worth[kids[0]]
        else:
            total = sizes[kids].sum()
            parts = sizes[kids] / total if total > 0 else np.full(len(kids), 1.0 / len(kids))
            worth[vertex] = (parts * worth[kids]).sum()
    return [float(x) for x in worth]
