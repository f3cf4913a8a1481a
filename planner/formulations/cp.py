"""Rigid requests as a constraint programme: optional intervals on cumulative resources (CP-SAT).

For sets in which every atom is one block and has few starts; prices cannot prove such sets, and
CP-SAT often can (docs/exact.md, The router). The only file that imports CP-SAT.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from planner.exact.problem import (
    V_BLOCKED,
    V_CHILD,
    V_CHILDREN,
    V_DEMAND,
    V_END,
    V_KIND,
    V_LAST,
    V_MOST,
    V_MULTIPLE,
    V_PARENT,
    V_REQUEST,
    V_RUN,
    V_SHIFT,
    V_SHIFTS,
    V_SOUND,
    V_START,
    Problem,
)
from planner.placement import PlacementResult
from rdl.work_graph import ANY, ATOM, EVERY

#: Integer weight of everything together; each request's share is rounded up, so that the bound on
#: the sum of weights is a bound on value.
SCALE = 1_000_000_000

_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class CpLimits:
    """When CP-SAT stops.

    Attributes
    ----------
    time_s
        Wall-clock seconds, or CP-SAT's own deterministic seconds where `repeats`.
    repeats
        One worker and no clock: equal calls give equal answers.
    """

    time_s: float
    seed: int = 0
    repeats: bool = False
    workers: int = 2
    stop: Callable[[], bool] = field(default=lambda: False)


@dataclass(frozen=True, slots=True)
class CpAnswer:
    """What CP-SAT found.

    Attributes
    ----------
    results
        One a request of the problem, None where refused; None when it found no plan.
    bound
        Most that any plan can be worth.
    """

    results: list[PlacementResult | None] | None
    bound: float


def is_rigid(problem: Problem) -> bool:
    """Return whether every atom is one block and CP-SAT's model says all that the request says."""
    forest = problem.forest
    vertices = forest.vertices
    atoms = vertices[:, V_KIND] == ATOM
    if (vertices[atoms & (vertices[:, V_SOUND] == 1), V_RUN] == 0).any():
        return False
    for before, _, largest, after in forest.preds.tolist():
        if largest >= 0 and not (atoms[before] and atoms[after]):
            return False
    weighed = np.flatnonzero(forest.prefer != 1.0)
    parents = vertices[weighed, V_PARENT]
    return bool((vertices[parents, V_PARENT] < 0).all())  # options of a root only


def starts_of(problem: Problem) -> int:
    """Return how many starts all atoms have together."""
    vertices = problem.forest.vertices
    atoms = vertices[(vertices[:, V_KIND] == ATOM) & (vertices[:, V_SOUND] == 1)]
    return int((atoms[:, V_END] - atoms[:, V_START] - atoms[:, V_RUN] + 1).sum())


def solve_rigid(problem: Problem, hint: Sequence[PlacementResult], limits: CpLimits) -> CpAnswer:
    """Solve a rigid problem (`is_rigid`) as far as the limits allow.

    Parameters
    ----------
    hint
        A plan to start from, one result a request.
    """
    from ortools.sat.python import cp_model

    build = _Build(problem, cp_model)
    build.hint(hint)
    solver = cp_model.CpSolver()
    solver.parameters.random_seed = limits.seed
    solver.parameters.num_workers = 1 if limits.repeats else limits.workers
    if limits.repeats:
        solver.parameters.max_deterministic_time = limits.time_s
    else:
        solver.parameters.max_time_in_seconds = limits.time_s
    status = _run(solver, build.model, limits.stop)
    if status == cp_model.INFEASIBLE:  # what must be there cannot be
        if problem.forest.keep.any():
            return CpAnswer(None, -math.inf)
        return CpAnswer([None] * len(problem.requests), 0.0)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return CpAnswer(None, problem.total)
    unit = problem.total / SCALE
    bound = problem.total if build.alone else solver.best_objective_bound * unit
    return CpAnswer(build.read(solver), min(problem.total, max(0.0, bound)))


def _run(solver: Any, model: Any, stop: Callable[[], bool]) -> Any:
    """Solve in a thread, so that a stop is heard within a moment."""
    with ThreadPoolExecutor(1, thread_name_prefix="cp-sat") as pool:
        answer = pool.submit(solver.solve, model)
        while not answer.done():
            if stop():
                solver.stop_search()
            time.sleep(_POLL_S if answer.running() else 0.0)
        return answer.result()


class _Build:
    """The model being written; one start variable an atom, one literal a vertex."""

    def __init__(self, problem: Problem, cp_model: Any) -> None:
        self._problem, self._cp = problem, cp_model
        self.model = cp_model.CpModel()
        self.alone = len(problem.requests) == 1
        count = len(problem.forest.vertices)
        self._present: list[Any] = [None] * count
        self._start: list[Any] = [None] * count
        self._end: list[Any] = [None] * count
        self._held: list[list[tuple[Any, int]]] = [[] for _ in problem.room.free]
        for vertex in range(count - 1, -1, -1):
            self._literal(vertex)
        for vertex in range(count):
            self._span(vertex)
        for before, least, largest, after in problem.forest.preds.tolist():
            self._follow(before, least, largest, after)
        for row, held in enumerate(self._held):
            self._capacity(row, held)
        self._value()

    def _literal(self, vertex: int) -> None:
        row = self._problem.forest.vertices[vertex]
        parent = int(row[V_PARENT])
        if parent >= 0 and self._problem.forest.vertices[parent, V_KIND] != ANY:
            self._present[vertex] = self._present[parent]
        else:
            self._present[vertex] = self.model.new_bool_var(f"p{vertex}")
            kept = self._problem.forest.keep[row[V_REQUEST]] > 0
            if parent < 0 and (self.alone or kept):
                self.model.add(self._present[vertex] == 1)
        if not row[V_SOUND]:
            self.model.add(self._present[vertex] == 0)

    def _span(self, vertex: int) -> None:
        """Give an atom its start, and a group variables around those below it."""
        row = self._problem.forest.vertices[vertex]
        if row[V_KIND] == ATOM:
            if row[V_SOUND]:
                self._atom(vertex, row)
            return
        kids = self._problem.forest.children[row[V_CHILD] : row[V_CHILD] + row[V_CHILDREN]]
        if row[V_KIND] == ANY:
            self.model.add(sum(self._present[kid] for kid in kids) == self._present[vertex])
        low, high = int(row[V_START]), max(int(row[V_START]), int(row[V_END]))
        self._start[vertex] = self.model.new_int_var(low, high, f"s{vertex}")
        self._end[vertex] = self.model.new_int_var(low, high, f"e{vertex}")
        last = int(row[V_LAST]) if row[V_KIND] == EVERY else 0
        for kid in kids:
            if self._start[kid] is None:
                continue
            here = self._present[kid]
            self.model.add(self._start[vertex] <= self._start[kid]).only_enforce_if(here)
            self.model.add(self._end[vertex] >= self._end[kid] + last).only_enforce_if(here)

    def _atom(self, vertex: int, row: Any) -> None:
        forest, room = self._problem.forest, self._problem.room
        length = int(row[V_RUN])
        start = self.model.new_int_var_from_domain(
            self._domain(row, self._present[vertex]), f"s{vertex}"
        )
        self._start[vertex], self._end[vertex] = start, start + length
        first, end = room.demand_first[row[V_DEMAND] : row[V_DEMAND] + 2].tolist()
        bundles = int(row[V_MOST] * row[V_MULTIPLE])
        for shift in forest.shifts[row[V_SHIFT] : row[V_SHIFT] + row[V_SHIFTS]].tolist():
            interval = self.model.new_optional_fixed_size_interval_var(
                start + shift, length, self._present[vertex], f"i{vertex}+{shift}"
            )
            for j in range(first, end):
                amount = bundles * int(room.demand_amounts[j])
                self._held[int(room.demand_rows[j])].append((interval, amount))

    def _domain(self, row: Any, present: Any) -> Any:
        """Return the starts at which the block fits the idle profile; any start if none does."""
        low, last = int(row[V_START]), int(row[V_END] - row[V_RUN])
        if row[V_BLOCKED] < 0:
            return self._cp.Domain(low, last)
        width, length = int(row[V_END] - row[V_START]), int(row[V_RUN])
        caps = self._problem.forest.caps[row[V_BLOCKED] : row[V_BLOCKED] + width]
        bad = np.concatenate([[0], np.cumsum(caps < row[V_MOST])])
        good = np.flatnonzero(bad[length:] == bad[: width - length + 1])
        if not len(good):
            self.model.add(present == 0)
            return self._cp.Domain(low, last)
        return self._cp.Domain.from_values((good + low).tolist())

    def _follow(self, before: int, least: int, largest: int, after: int) -> None:
        if self._start[before] is None or self._start[after] is None:
            return
        both = [self._present[before], self._present[after]]
        gap = self._start[after] - self._end[before]
        self.model.add(gap >= least).only_enforce_if(both)
        if largest >= 0:
            self.model.add(gap <= largest).only_enforce_if(both)

    def _capacity(self, row: int, held: list[tuple[Any, int]]) -> None:
        """Keep a row within what is free: its greatest capacity, less fixed blocks."""
        free = self._problem.room.free[row]
        most = int(free.max(initial=0))
        edges = np.flatnonzero(np.diff(free)) + 1
        bounds = [0, *edges.tolist(), len(free)]
        blocks = [(a, b, most - int(free[a])) for a, b in pairwise(bounds) if int(free[a]) < most]
        unit = math.gcd(most, *(n for _, n in held), *(n for _, _, n in blocks)) or 1
        intervals = [interval for interval, _ in held]
        amounts = [amount // unit for _, amount in held]
        for a, b, amount in blocks:
            intervals.append(self.model.new_fixed_size_interval_var(a, b - a, f"b{row}@{a}"))
            amounts.append(amount // unit)
        self.model.add_cumulative(intervals, amounts, most // unit)

    def _value(self) -> None:
        forest = self._problem.forest
        total = max(self._problem.total, 1e-300)
        terms = []
        for request, value in enumerate(forest.value.tolist()):
            root = int(forest.first[request + 1]) - 1
            row = forest.vertices[root]
            options = [root]
            if row[V_KIND] == ANY:
                first = int(row[V_CHILD])
                options = forest.children[first : first + int(row[V_CHILDREN])].tolist()
            for option in options:
                worth = value if option == root else value * float(forest.prefer[option])
                terms.append(math.ceil(worth / total * SCALE) * self._present[option])
        if not self.alone:
            self.model.maximize(sum(terms))

    def hint(self, results: Sequence[PlacementResult]) -> None:
        """Start from a plan."""
        forest = self._problem.forest
        for request, result in enumerate(results):
            offset = int(forest.first[request])
            root = int(forest.first[request + 1]) - 1
            if not self.alone:
                self.model.add_hint(self._present[root], result.placed)
            for vertex, rows in result.atoms():
                if self._start[offset + vertex] is not None:
                    at = int(rows[0, 0]) - self._problem.base
                    self.model.add_hint(self._start[offset + vertex], at)

    def read(self, solver: Any) -> list[PlacementResult | None]:
        """Return what the solver's best plan holds for each request."""
        first = self._problem.forest.first
        return [
            self._result(solver, int(first[r]), int(first[r + 1]))
            if solver.boolean_value(self._present[int(first[r + 1]) - 1])
            else None
            for r in range(len(first) - 1)
        ]

    def _result(self, solver: Any, offset: int, end: int) -> PlacementResult:
        forest, base = self._problem.forest, self._problem.base
        vertices, rows, choices = [], [], []
        for vertex in range(offset, end):
            row = forest.vertices[vertex]
            if not solver.boolean_value(self._present[vertex]):
                continue
            if row[V_KIND] == ATOM:
                start = int(solver.value(self._start[vertex])) + base
                vertices.append(vertex - offset)
                rows.append([start, start + int(row[V_RUN]), int(row[V_MOST] * row[V_MULTIPLE])])
            elif row[V_KIND] == ANY:
                kids = forest.children[row[V_CHILD] : row[V_CHILD] + row[V_CHILDREN]]
                taken = [bool(solver.boolean_value(self._present[kid])) for kid in kids]
                choices.append((vertex - offset, taken.index(True)))
        return PlacementResult(
            vertices=np.array(vertices, dtype=np.int64),
            first=np.arange(len(vertices) + 1),
            rows=np.array(rows, dtype=np.int64).reshape(-1, 3),
            choices=tuple(choices),
        )
