"""Build a `planner.agents.exact.problem.PlanningProblem` from requests and a view."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from fractions import Fraction

import numpy as np

import planner.agents.exact.problem as pb
import rdl.work_graph as wg
from planner.agents.exact.problem import F64, I64, Forest, FreeRoom, PlanningProblem
from planner.request import Request
from planner.value import preference_losses, value_asked, vertex_sizes
from planner.view import Demand, PlanView
from rdl.resources import Resources
from rdl.work_graph import ATOM, BUNDLE, END, LABEL, START, WorkGraph


class ForestBuilder:
    """Builds the forest request by request."""

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
        """Append one request; `demands` maps its atoms to demand numbers."""
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
        """Split the cost before a vertex among its successors, so that each cost counts once."""
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
        """Return the arrays; `caps`, the atoms' limits on the idle profile, is not yet known."""
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
        """Return the bonus for keeping a request: more than the value of all others together."""
        worth = np.array([self._worth[end - 1] for end in self._first[1:]])
        total = float((np.array(self._value) * worth).sum())
        return np.where(self._kept, max(total, 1.0), 0.0)


def _program(graph: WorkGraph) -> list[int]:
    """Return the vertices in order: siblings by their edges, each after its descendants."""
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
    """Return the maximum worth of the preferences below each vertex."""
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


#: Two ratios that differ by less than this are compared exactly, with integers.
_CLOSE = 1e-9


def binding_rows(demands: Sequence[Demand], rows: Sequence[int], free: I64) -> list[int]:
    """Return the rows that no other row implies, in order; of equal rows the first.

    Row r is implied by q if a_r(d) / a_q(d) <= free_r(t) / free_q(t) for every demand d that uses r
    and every step t: then sum a_q(d) x_d <= free_q(t) implies the same for r.

    Parameters
    ----------
    demands
        All demands that may be placed.
    rows
        All rows that they use, ascending.
    free
        int64[row, step]: free capacity of each of `rows`, at least 0.
    """
    takes: dict[int, dict[int, int]] = {row: {} for row in rows}
    for number, demand in enumerate(demands):
        for row, amount in zip(demand.rows, demand.amounts, strict=True):
            takes[row][number] = amount
    line = {row: free[place] for place, row in enumerate(rows)}
    kept = set(rows)
    for row in reversed(rows):
        # Only rows that all of its demands use: quotas of other tenants are skipped.
        others = demands[next(iter(takes[row]))].rows
        if any(
            other != row
            and other in kept
            and _implies(takes[row], takes[other], line[row], line[other])
            for other in others
        ):
            kept.remove(row)
    return sorted(kept)


def _implies(takes: dict[int, int], by: dict[int, int], free: I64, of: I64) -> bool:
    """Return whether anything that fits `of` with amounts `by` fits `free` with `takes`."""
    if any(number not in by for number in takes):
        return False
    some = of > 0  # steps where nothing fits the other row cannot be used
    mine, others = free[some], of[some]
    if not len(mine):
        return True
    ratios: F64 = mine / others
    least = float(ratios.min())
    most = max(amount / by[number] for number, amount in takes.items())
    if abs(most - least) > _CLOSE * max(most, least):
        return most < least
    near = ratios <= least * (1 + _CLOSE)
    pairs = np.unique(np.stack([mine[near], others[near]], axis=1), axis=0).tolist()
    return max(Fraction(a, by[number]) for number, a in takes.items()) <= min(
        Fraction(a, b) for a, b in pairs
    )


def distinct_demands(
    demands: Sequence[Demand], kept: Sequence[int]
) -> tuple[list[Demand], list[int]]:
    """Return the distinct demands on the kept rows, and the index among them for each demand."""
    numbers: dict[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]], int] = {}
    found: list[Demand] = []
    place: list[int] = []
    wanted = frozenset(kept)
    for demand in demands:
        pairs = [
            (row, amount)
            for row, amount in zip(demand.rows, demand.amounts, strict=True)
            if row in wanted
        ]
        rows, amounts = tuple(row for row, _ in pairs), tuple(amount for _, amount in pairs)
        key = (rows, amounts, demand.fit)
        if key not in numbers:
            numbers[key] = len(found)
            found.append(Demand(rows, amounts, demand.fit))
        place.append(numbers[key])
    return found, place


def build_problem(
    requests: Sequence[Request], view: PlanView, keep: Collection[int] = ()
) -> PlanningProblem:
    """Build the problem of the requests that are not void on a view's free capacity.

    Parameters
    ----------
    requests
        At least one, compiled on the view's grid.
    keep
        Indexes of requests that every plan must place. The bound then holds for plans that place
        all of them: it counts their worth minus cost even if negative; plans found place all of
        them.

    Raises
    ------
    ValueError
        If `keep` has an index out of range.
    """
    wrong = [index for index in keep if not 0 <= index < len(requests)]
    if wrong:
        raise ValueError(f"to be kept: no request {wrong[0]}; there are {len(requests)}, from 0")
    book = DemandNumbers(view)
    demands = [book.of(request) for request in requests]
    base = min(int(request.graph.vertices[-1, START]) for request in requests)
    base = max(base, view.first)
    end = max(int(request.graph.vertices[-1, END]) for request in requests)
    end = min(max(end, base + 1), view.first + view.free.shape[1])
    room, place, rows = _room(book.found, view, base, end)
    builder = ForestBuilder(base, end - base)
    kept = frozenset(keep)
    for index, (request, own) in enumerate(zip(requests, demands, strict=True)):
        taken = {atom: place[number] for atom, number in own.items()}
        builder.add(request, taken, view, keep=index in kept)
    forest = builder.forest()
    caps = _caps(forest.vertices, forest.shifts, room)
    return PlanningProblem(tuple(requests), forest._replace(caps=caps), room, base, rows)


class DemandNumbers:
    """Assigns numbers to the demands of all requests.

    Attributes
    ----------
    found
        All demands, indexed by number.
    """

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


def _room(
    asked: Sequence[Demand], view: PlanView, base: int, end: int
) -> tuple[FreeRoom, list[int], tuple[int, ...]]:
    """Return (binding rows with demands, index of each of `asked`, rows of the view)."""
    columns = slice(base - view.first, end - view.first)
    every = sorted({row for demand in asked for row in demand.rows})
    free = np.maximum(view.free[every, columns], 0).astype(np.int64)
    used = binding_rows(asked, every, free)
    free = free[np.searchsorted(every, used)]
    demands, numbers = distinct_demands(asked, used)
    place = {row: index for index, row in enumerate(used)}
    scale = np.maximum(free.max(axis=1, initial=1), 1).astype(np.float64)
    first = np.cumsum([0, *(len(demand.rows) for demand in demands)]).astype(np.int64)
    rows = np.array([place[row] for d in demands for row in d.rows], dtype=np.int64)
    amounts = np.array([amount for d in demands for amount in d.amounts], dtype=np.int64)
    segment = np.searchsorted(view.segments, np.arange(base, end), side="right") - 1
    segment = np.clip(segment, 0, len(view.segments) - 2)
    fit = np.array([demand.fit for demand in demands], dtype=np.int64)
    # Fancy indexing changes the memory order, for which kernels would be compiled again.
    fit = np.ascontiguousarray(fit.reshape(len(demands), -1)[:, segment])
    capacity = free / scale[:, None]
    shares = amounts / scale[rows]
    room = FreeRoom(free, first, rows, amounts, fit, scale, capacity, shares)
    return room, numbers, tuple(used)


def _caps(vertices: I64, shifts: I64, room: FreeRoom) -> I64:
    """Return the caps of the atoms that may not always reach their maximum; set V_BLOCKED."""
    kept: list[I64] = []
    size = 0
    alone = count_alone(room)
    columns = room.free.shape[1]
    for row in vertices:
        row[pb.V_BLOCKED] = -1
        if row[pb.V_KIND] != ATOM or not row[pb.V_SOUND]:
            continue
        cap = np.full(int(row[pb.V_END] - row[pb.V_START]), row[pb.V_MOST], dtype=np.int64)
        for shift in shifts[row[pb.V_SHIFT] : row[pb.V_SHIFT] + row[pb.V_SHIFTS]].tolist():
            begin, end = int(row[pb.V_START]) + shift, int(row[pb.V_END]) + shift
            inside = alone[row[pb.V_DEMAND], begin : min(end, columns)] // row[pb.V_MULTIPLE]
            part = cap[: len(inside)]
            np.minimum(part, inside, out=part)
            cap[len(inside) :] = 0
        cap[cap < row[pb.V_LEAST]] = 0
        if (cap < row[pb.V_MOST]).any():
            row[pb.V_BLOCKED] = size
            kept.append(cap)
            size += len(cap)
    return np.concatenate([np.zeros(0, dtype=np.int64), *kept])


def count_alone(room: FreeRoom) -> I64:
    """Return int64[demand, column]: maximum bundles that fit if nothing else is placed."""
    alone = room.fit.copy()
    for demand in range(len(alone)):
        for j in range(room.demand_first[demand], room.demand_first[demand + 1]):
            held = room.free[room.demand_rows[j]] // room.demand_amounts[j]
            np.minimum(alone[demand], held, out=alone[demand])
    return alone
