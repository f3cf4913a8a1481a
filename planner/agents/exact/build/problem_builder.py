"""Requests and a view made into the arrays of a `planner.agents.exact.problem.PlanningProblem`."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

import planner.agents.exact.problem as pb
from planner.agents.exact.build.forest import ForestBuilder
from planner.agents.exact.build.presolve import binding_rows, distinct_demands
from planner.agents.exact.problem import I64, FreeRoom, PlanningProblem
from planner.request import Request
from planner.view import Demand, PlanView
from rdl.work_graph import ATOM, BUNDLE, END, LABEL, START


def build_problem(
    requests: Sequence[Request], view: PlanView, keep: Collection[int] = ()
) -> PlanningProblem:
    """Lay out requests that are not void on what a view leaves free.

    Parameters
    ----------
    requests
        At least one, compiled on the view's grid.
    keep
        Indexes of requests that may not be lost. The bound is then over the plans that hold all
        of them: it counts worth less cost of each even below 0; plans found hold them all.

    Raises
    ------
    ValueError
        If `keep` names a request that is not there.
    """
    wrong = [index for index in keep if not 0 <= index < len(requests)]
    if wrong:
        raise ValueError(f"to be kept: no request {wrong[0]}; there are {len(requests)}, from 0")
    book = _ProblemDemands(view)
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


class _ProblemDemands:
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


def _room(
    asked: Sequence[Demand], view: PlanView, base: int, end: int
) -> tuple[FreeRoom, list[int], tuple[int, ...]]:
    """Return rows that can bind and demands on them; which each of `asked` is; rows of the view."""
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
    # Picked columns stand in another order in memory: kernels would be compiled for it once more.
    fit = np.ascontiguousarray(fit.reshape(len(demands), -1)[:, segment])
    capacity = free / scale[:, None]
    shares = amounts / scale[rows]
    room = FreeRoom(free, first, rows, amounts, fit, scale, capacity, shares)
    return room, numbers, tuple(used)


def _caps(vertices: I64, shifts: I64, room: FreeRoom) -> I64:
    """Return what each atom may hold alone, where that is ever below its maximum; set V_BLOCKED."""
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
    """Return int64[demand, column]: most bundles that fit when nothing else is placed."""
    alone = room.fit.copy()
    for demand in range(len(alone)):
        for j in range(room.demand_first[demand], room.demand_first[demand + 1]):
            held = room.free[room.demand_rows[j]] // room.demand_amounts[j]
            np.minimum(alone[demand], held, out=alone[demand])
    return alone
