"""Sets of blocks as a constraint programme: optional intervals on cumulative resources (CP-SAT)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final

import numpy as np

import planner.agents.exact.problem as pb
from planner.agents.exact.incumbent import Budget, Incumbent, ProofAnswer, report_answer
from planner.agents.exact.problem import PlanningProblem, fitting_starts
from planner.placement import PlacementResult
from rdl.work_graph import ANY, ATOM, EVERY

#: Integer weight of everything together; each request's share is rounded up, so that the bound on
#: the sum of weights is a bound on value.
SCALE = 1_000_000_000


class RigidModel:
    """The model of one problem.

    Attributes
    ----------
    model
        CP-SAT's.
    single
        Whether there is one request only: then it must be there, and nothing is maximised.
    """

    def __init__(self, problem: PlanningProblem, cp_model: Any) -> None:
        self.problem, self._cp = problem, cp_model
        self.model = cp_model.CpModel()
        self.single = len(problem.requests) == 1
        count = len(problem.forest.vertices)
        self._present: list[Any] = [None] * count
        self._start: list[Any] = [None] * count
        self._end: list[Any] = [None] * count
        self._intervals: list[list[tuple[Any, int]]] = [[] for _ in problem.room.free]
        self._tight = self._groups_with_largest_gaps()
        for vertex in reversed(range(count)):
            self._add_literal(vertex)
        for vertex in range(count):
            self._add_span(vertex)
        for before, least, largest, after in problem.forest.preds.tolist():
            self._add_precedence(before, least, largest, after)
        for row, held in enumerate(self._intervals):
            self._add_capacity(row, held)
        self._add_objective()

    def _add_literal(self, vertex: int) -> None:
        row = self.problem.forest.vertices[vertex]
        parent = int(row[pb.V_PARENT])
        if parent >= 0 and self.problem.forest.vertices[parent, pb.V_KIND] != ANY:
            self._present[vertex] = self._present[parent]
        else:
            self._present[vertex] = self.model.new_bool_var(f"p{vertex}")
            kept = self.problem.forest.keep[row[pb.V_REQUEST]] > 0
            if parent < 0 and (self.single or kept):
                self.model.add(self._present[vertex] == 1)
        if not row[pb.V_SOUND]:
            self.model.add(self._present[vertex] == 0)

    def _add_span(self, vertex: int) -> None:
        """Give an atom its start, and a group variables around those below it."""
        row = self.problem.forest.vertices[vertex]
        if row[pb.V_KIND] == ATOM:
            if row[pb.V_SOUND]:
                self._add_atom(vertex, row)
            return
        kids = self.problem.forest.children[row[pb.V_CHILD] : row[pb.V_CHILD] + row[pb.V_CHILDREN]]
        if row[pb.V_KIND] == ANY:
            self.model.add(sum(self._present[kid] for kid in kids) == self._present[vertex])
        low, high = int(row[pb.V_START]), max(int(row[pb.V_START]), int(row[pb.V_END]))
        self._start[vertex] = self.model.new_int_var(low, high, f"s{vertex}")
        self._end[vertex] = self.model.new_int_var(low, high, f"e{vertex}")
        last = int(row[pb.V_LAST]) if row[pb.V_KIND] == EVERY else 0
        for kid in kids:
            if self._start[kid] is None:
                continue
            here = self._present[kid]
            self.model.add(self._start[vertex] <= self._start[kid]).only_enforce_if(here)
            self.model.add(self._end[vertex] >= self._end[kid] + last).only_enforce_if(here)
        if vertex in self._tight:
            self._tighten(vertex, [kid for kid in kids if self._start[kid] is not None], last)

    def _groups_with_largest_gaps(self) -> set[int]:
        """Return groups whose start and end must be exact: largest gaps are measured from them."""
        forest = self.problem.forest
        found: set[int] = set()
        pending = [v for edge in forest.preds.tolist() if edge[2] >= 0 for v in (edge[0], edge[3])]
        while pending:
            vertex = pending.pop()
            row = forest.vertices[vertex]
            if row[pb.V_KIND] == ATOM or vertex in found:
                continue
            found.add(vertex)
            first = int(row[pb.V_CHILD])
            pending += forest.children[first : first + int(row[pb.V_CHILDREN])].tolist()
        return found

    def _tighten(self, vertex: int, kids: Sequence[int], last: int) -> None:
        """Say that a group begins with one of its children, and ends with one."""
        begins = [self.model.new_bool_var("") for _ in kids]
        ends = [self.model.new_bool_var("") for _ in kids]
        for kid, begin, end in zip(kids, begins, ends, strict=True):
            self.model.add_implication(begin, self._present[kid])
            self.model.add_implication(end, self._present[kid])
            self.model.add(self._start[vertex] >= self._start[kid]).only_enforce_if(begin)
            self.model.add(self._end[vertex] <= self._end[kid] + last).only_enforce_if(end)
        self.model.add_bool_or(begins).only_enforce_if(self._present[vertex])
        self.model.add_bool_or(ends).only_enforce_if(self._present[vertex])

    def _add_atom(self, vertex: int, row: Any) -> None:
        forest, room = self.problem.forest, self.problem.room
        length = int(row[pb.V_RUN])
        start = self.model.new_int_var_from_domain(
            self._start_domain(row, self._present[vertex]), f"s{vertex}"
        )
        self._start[vertex], self._end[vertex] = start, start + length
        first, end = room.demand_first[row[pb.V_DEMAND] : row[pb.V_DEMAND] + 2].tolist()
        bundles = int(row[pb.V_MOST] * row[pb.V_MULTIPLE])
        for shift in forest.shifts[row[pb.V_SHIFT] : row[pb.V_SHIFT] + row[pb.V_SHIFTS]].tolist():
            interval = self.model.new_optional_fixed_size_interval_var(
                start + shift, length, self._present[vertex], f"i{vertex}+{shift}"
            )
            for j in range(first, end):
                amount = bundles * int(room.demand_amounts[j])
                self._intervals[int(room.demand_rows[j])].append((interval, amount))

    def _start_domain(self, row: Any, present: Any) -> Any:
        """Return the starts at which the block fits the idle profile; any start if none does."""
        low, last = int(row[pb.V_START]), int(row[pb.V_END] - row[pb.V_RUN])
        if row[pb.V_BLOCKED] < 0:
            return self._cp.Domain(low, last)
        good = np.flatnonzero(fitting_starts(self.problem.forest, row))
        if not len(good):
            self.model.add(present == 0)
            return self._cp.Domain(low, last)
        return self._cp.Domain.from_values((good + low).tolist())

    def _add_precedence(self, before: int, least: int, largest: int, after: int) -> None:
        if self._start[before] is None or self._start[after] is None:
            return
        both = [self._present[before], self._present[after]]
        gap = self._start[after] - self._end[before]
        self.model.add(gap >= least).only_enforce_if(both)
        if largest >= 0:
            self.model.add(gap <= largest).only_enforce_if(both)

    def _add_capacity(self, row: int, held: list[tuple[Any, int]]) -> None:
        """Keep a row within what is free: its greatest capacity, less fixed blocks."""
        free = self.problem.room.free[row]
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

    def _add_objective(self) -> None:
        """Maximise the value of what is there, less what the options taken lose of it."""
        if self.single:
            return
        forest = self.problem.forest
        scale = SCALE / max(self.problem.total, 1e-300)
        roots = zip(forest.first[1:].tolist(), forest.value.tolist(), strict=True)
        terms = [math.ceil(value * scale) * self._present[end - 1] for end, value in roots]
        for option in np.flatnonzero(forest.loss).tolist():
            value = float(forest.value[forest.vertices[option, pb.V_REQUEST]])
            lost = math.floor(value * float(forest.loss[option]) * scale)
            terms.append(-lost * self._present[option])
        self.model.maximize(sum(terms))

    def value_bound(self, weight: float) -> float:
        """Return what plans can be worth at most where all in the model weigh at most `weight`."""
        total = self.problem.total
        return min(total, max(0.0, weight * total / SCALE))

    def add_hint(self, results: Sequence[PlacementResult]) -> None:
        """Start from a plan."""
        forest = self.problem.forest
        for request, result in enumerate(results):
            offset = int(forest.first[request])
            root = int(forest.first[request + 1]) - 1
            if not self.single:
                self.model.add_hint(self._present[root], result.placed)
            for vertex, option in result.choices:
                row = forest.vertices[offset + vertex]
                kids = forest.children[row[pb.V_CHILD] : row[pb.V_CHILD] + row[pb.V_CHILDREN]]
                for place, kid in enumerate(kids.tolist()):
                    self.model.add_hint(self._present[kid], place == option)
            for vertex, rows in result.atoms():
                if self._start[offset + vertex] is not None:
                    at = int(rows[0, 0]) - self.problem.base
                    self.model.add_hint(self._start[offset + vertex], at)

    def placements(self, solver: Any) -> list[PlacementResult | None]:
        """Return what the solver's best plan reserves for each request."""
        first = self.problem.forest.first.tolist()
        return [
            self._placement(solver, begin, end)
            if solver.boolean_value(self._present[end - 1])
            else None
            for begin, end in pairwise(first)
        ]

    def _placement(self, solver: Any, begin: int, end: int) -> PlacementResult:
        """Return the placement of the request of vertices [begin, end)."""
        forest = self.problem.forest
        vertices, rows, choices = [], [np.empty((0, 3), dtype=np.int64)], []
        for vertex in range(begin, end):
            row = forest.vertices[vertex]
            if not solver.boolean_value(self._present[vertex]):
                continue
            if row[pb.V_KIND] == ATOM:
                start = int(solver.value(self._start[vertex])) + self.problem.base
                bundles = int(row[pb.V_MOST] * row[pb.V_MULTIPLE])
                vertices.append(vertex - begin)
                rows.append(np.array([[start, start + int(row[pb.V_RUN]), bundles]]))
            elif row[pb.V_KIND] == ANY:
                kids = forest.children[row[pb.V_CHILD] : row[pb.V_CHILD] + row[pb.V_CHILDREN]]
                taken = [bool(solver.boolean_value(self._present[kid])) for kid in kids]
                choices.append((vertex - begin, taken.index(True)))
        return PlacementResult(
            vertices=np.array(vertices, dtype=np.int64),
            first=np.cumsum([len(one) for one in rows]),
            rows=np.concatenate(rows),
            choices=tuple(choices),
        )


#: Seconds between two looks at `CpLimits.stop`.
_POLL_S = 0.05

#: Blocks up to which CP-SAT is asked: of more its model takes too long to build.
MOST_BLOCKS = 20_000

#: Which of its searches proves sets of several requests. It asks for all of them at once, learns
#: which cannot all be there and relaxes those: bounds fall from the top, where others wait for
#: their trees to close (docs/exact-trials.md).
_PROVER = "core"


#: Requests up to which CP-SAT is asked where equal calls have to give equal answers.
_FEW_REPEATABLE: Final = 100

#: Deterministic seconds of CP-SAT where equal calls have to give equal answers.
REPEATABLE_S = 5.0


@dataclass(frozen=True, slots=True)
class CpLimits:
    """When CP-SAT stops.

    Attributes
    ----------
    time_s
        CP-SAT's own limit: wall-clock seconds, or deterministic ones where `repeats`; None: until
        `stop` says so.
    repeats
        One worker and no clock: equal calls give equal answers.
    stop
        Asked every 50 ms.
    report
        Called with every better answer on the way, by the thread that called.
    """

    time_s: float | None = None
    seed: int = 0
    repeats: bool = False
    stop: Callable[[], bool] = field(default=lambda: False)
    report: Callable[[ProofAnswer], None] = field(default=lambda answer: None)


def suits_cp_sat(problem: PlanningProblem) -> bool:
    """Return whether CP-SAT's model, an interval a block, says all that is asked."""
    return len(problem.forest.vertices) <= MOST_BLOCKS and is_rigid(problem)


def solve_first(
    incumbent: Incumbent, problem: PlanningProblem, positions: list[int], budget: Budget, seed: int
) -> None:
    """Let CP-SAT prove a single request of blocks, or some with a limit of work."""
    few = 1 if budget.moves is None else _FEW_REPEATABLE
    if len(positions) > few or not suits_cp_sat(problem):
        return
    seconds = REPEATABLE_S
    if budget.until is not None:
        seconds = max(0.0, budget.until - budget.clock())
    limits = CpLimits(seconds, seed, budget.moves is not None, stop=budget.stop)
    report_answer(
        incumbent,
        positions,
        solve_rigid(problem, [incumbent.results[i] for i in positions], limits),
    )


def is_rigid(problem: PlanningProblem) -> bool:
    """Return whether every atom is one block."""
    vertices = problem.forest.vertices
    atoms = vertices[(vertices[:, pb.V_KIND] == ATOM) & (vertices[:, pb.V_SOUND] == 1)]
    return bool((atoms[:, pb.V_RUN] > 0).all())


def solve_rigid(
    problem: PlanningProblem, hint: Sequence[PlacementResult], limits: CpLimits
) -> ProofAnswer:
    """Solve a rigid problem (`is_rigid`) as far as the limits allow.

    Parameters
    ----------
    hint
        A plan to start from, one result a request.
    """
    from ortools.sat.python import cp_model

    rigid = RigidModel(problem, cp_model)
    rigid.add_hint(hint)
    solver = cp_model.CpSolver()
    _set_limits(solver.parameters, limits, single=rigid.single)
    if not rigid.single:
        solver.parameters.subsolvers.append(_PROVER)
    status = _SolveThread(rigid, solver, cp_model, limits).status()
    if status == cp_model.INFEASIBLE:  # what must be there cannot be
        if problem.forest.keep.any():
            return ProofAnswer(None, -math.inf)
        return ProofAnswer([None] * len(problem.requests), 0.0)
    bound = problem.total
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return ProofAnswer(None, bound)
    if not rigid.single:
        bound = rigid.value_bound(solver.best_objective_bound)
    return ProofAnswer(rigid.placements(solver), bound)


def _set_limits(parameters: Any, limits: CpLimits, *, single: bool) -> None:
    parameters.random_seed = limits.seed
    parameters.num_workers = 2 if single and not limits.repeats else 1
    if limits.time_s is None:
        return
    if limits.repeats:
        parameters.max_deterministic_time = limits.time_s
    else:
        parameters.max_time_in_seconds = max(0.01, limits.time_s)


class _SolveThread:
    """One solve in a thread of its own, so that a stop is heard within a moment."""

    def __init__(self, rigid: RigidModel, solver: Any, cp_model: Any, limits: CpLimits) -> None:
        self._rigid, self._solver, self._limits = rigid, solver, limits
        self._cp = cp_model
        self._plan: list[PlacementResult | None] | None = None
        self._bound = float(SCALE)
        self._last_report: tuple[object, float] = (None, self._bound)

    def status(self) -> Any:
        """Return how the solve ended; tell what it finds on the way."""
        watch = self

        class Watch(self._cp.CpSolverSolutionCallback):  # type: ignore[misc, name-defined]
            def on_solution_callback(self) -> None:
                watch._plan = watch._rigid.placements(self)

        if not self._rigid.single:
            self._solver.best_bound_callback = self._lower
        with ThreadPoolExecutor(1, thread_name_prefix="cp-sat") as pool:
            answer = pool.submit(self._solver.solve, self._rigid.model, Watch())
            try:
                while not answer.done():
                    if self._limits.stop():
                        self._solver.stop_search()
                    time.sleep(_POLL_S if answer.running() else 0.0)
                    self._report()
            finally:
                self._solver.stop_search()
            return answer.result()

    def _lower(self, bound: float) -> None:
        self._bound = min(self._bound, bound)

    def _report(self) -> None:
        now = (self._plan, self._bound)
        if now[0] is not self._last_report[0] or now[1] < self._last_report[1]:
            self._last_report = now
            self._limits.report(ProofAnswer(now[0], self._rigid.value_bound(now[1])))
