"""Sets of blocks as a CP-SAT model: optional intervals on cumulative resources."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import numpy as np

import planner.agents.exact.problem as pb
from planner.agents.exact.incumbent import Budget, Incumbent, ProofAnswer, report_answer
from planner.agents.exact.problem import I64, Forest, FreeRoom, PlanningProblem, fitting_starts
from planner.placement import PlacementResult
from rdl.work_graph import ANY, ATOM, EVERY

#: Total integer weight of all requests; each request's share is rounded up, so that a bound on the
#: sum of weights is a bound on value.
SCALE = 1_000_000_000


class RigidModel:
    """The model of one problem.

    Attributes
    ----------
    model
        The CP-SAT model.
    single
        Whether there is only one request: then it must be placed, and there is no objective.
    """

    def __init__(self, problem: PlanningProblem, cp_model: Any) -> None:
        self.problem, self._cp = problem, cp_model
        self.model = cp_model.CpModel()
        self.single = len(problem.requests) == 1
        count = len(problem.forest.vertices)
        self._present: list[Any] = [None] * count
        self._start: list[Any] = [None] * count
        self._end: list[Any] = [None] * count
        self._weight: dict[int, int] = {}
        self._intervals: list[list[tuple[Any, int]]] = [[] for _ in problem.room.free]
        self._tight = self._groups_with_largest_gaps()
        self._starts = kept_starts(problem)
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
        """Add the start of an atom, or the span variables of a group."""
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
        """Return groups whose start and end must be exact because maximum gaps refer to them."""
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
        """Require that a group starts with one of its children and ends with one."""
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
        length, kept = int(row[pb.V_RUN]), self._starts[vertex]
        low, last = int(row[pb.V_START]), int(row[pb.V_END]) - length
        domain = self._cp.Domain(low, last)
        if len(kept.starts):
            domain = self._cp.Domain.from_values(kept.starts.tolist())
        else:  # no start fits
            self.model.add(self._present[vertex] == 0)
        start = self.model.new_int_var_from_domain(domain, f"s{vertex}")
        self._start[vertex], self._end[vertex] = start, start + length
        if kept.is_free:
            self.model.add(self._present[vertex] == 1)
            return
        first, end = room.demand_first[row[pb.V_DEMAND] : row[pb.V_DEMAND] + 2].tolist()
        bundles = int(row[pb.V_MOST] * row[pb.V_MULTIPLE])
        for shift in forest.shifts[row[pb.V_SHIFT] : row[pb.V_SHIFT] + row[pb.V_SHIFTS]].tolist():
            interval = self.model.new_optional_fixed_size_interval_var(
                start + shift, length, self._present[vertex], f"i{vertex}+{shift}"
            )
            for j in range(first, end):
                amount = bundles * int(room.demand_amounts[j])
                self._intervals[int(room.demand_rows[j])].append((interval, amount))

    def _add_precedence(self, before: int, least: int, largest: int, after: int) -> None:
        if self._start[before] is None or self._start[after] is None:
            return
        both = [self._present[before], self._present[after]]
        gap = self._start[after] - self._end[before]
        self.model.add(gap >= least).only_enforce_if(both)
        if largest >= 0:
            self.model.add(gap <= largest).only_enforce_if(both)

    def _add_capacity(self, row: int, held: list[tuple[Any, int]]) -> None:
        """Limit a row to its free capacity: its maximum capacity minus fixed blocks."""
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
        """Maximise the value of the placed requests minus the losses of the chosen options."""
        if self.single:
            return
        forest = self.problem.forest
        scale = SCALE / max(self.problem.total, 1e-300)
        roots = zip(forest.first[1:].tolist(), forest.value.tolist(), strict=True)
        self._weight = {end - 1: math.ceil(value * scale) for end, value in roots}
        for option in np.flatnonzero(forest.loss).tolist():
            value = float(forest.value[forest.vertices[option, pb.V_REQUEST]])
            self._weight[option] = -math.floor(value * float(forest.loss[option]) * scale)
        self._sum = sum(weight * self._present[vertex] for vertex, weight in self._weight.items())
        self.model.maximize(self._sum)

    def value_bound(self, weight: float) -> float:
        """Return the upper bound on value that corresponds to a bound `weight` on the weights."""
        total = self.problem.total
        return min(total, max(0.0, weight * total / SCALE))

    def start_from(self, results: Sequence[PlacementResult], *, near: bool) -> None:
        """Start from a plan; if it is near the optimum, exclude plans of less value.

        As an initial constraint that shortens proofs many times over, but it hinders searches for
        plans.
        """
        forest = self.problem.forest
        reached = 0
        for request, result in enumerate(results):
            offset = int(forest.first[request])
            root = int(forest.first[request + 1]) - 1
            if not self.single:
                self.model.add_hint(self._present[root], result.placed)
                reached += self._weight[root] if result.placed else 0
            for vertex, option in result.choices:
                row = forest.vertices[offset + vertex]
                kids = forest.children[row[pb.V_CHILD] : row[pb.V_CHILD] + row[pb.V_CHILDREN]]
                for place, kid in enumerate(kids.tolist()):
                    self.model.add_hint(self._present[kid], place == option)
                    reached += self._weight.get(kid, 0) if place == option else 0
            for vertex, rows in result.atoms():
                kept = self._starts.get(offset + vertex)
                if kept is not None and len(kept.starts):
                    at = kept.dominating(int(rows[0, 0]) - self.problem.base)
                    self.model.add_hint(self._start[offset + vertex], at)
        if near and not self.single:
            self.model.add(self._sum >= reached)

    def placements(self, solver: Any) -> list[PlacementResult | None]:
        """Return the placement of each request in the solver's best plan."""
        first = self.problem.forest.first.tolist()
        return [
            self._placement(solver, begin, end)
            if solver.boolean_value(self._present[end - 1])
            else None
            for begin, end in pairwise(first)
        ]

    def _placement(self, solver: Any, begin: int, end: int) -> PlacementResult:
        """Return the placement of the request with vertices [begin, end)."""
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


#: Seconds between two checks of `stop`.
_POLL_S = 0.05

#: Maximum number of blocks for CP-SAT; a larger model takes too long to build.
MOST_BLOCKS = 20_000

#: The CP-SAT subsolver that proves sets of several requests. It assumes that all are placed, learns
#: conflicting subsets (cores) and relaxes them: bounds fall from the top, while other subsolvers
#: must exhaust their search trees. A second worker searches neighbourhoods for plans.
_PROVER: Final = "core"

#: Maximum number of requests for CP-SAT in reproducible solves, and its limit in deterministic
#: seconds.
_FEW_REPEATABLE: Final = 100
REPEATABLE_S: Final = 5.0


def suits_cp_sat(problem: PlanningProblem) -> bool:
    """Return whether every atom is one block, and there are not too many atoms."""
    vertices = problem.forest.vertices
    atoms = vertices[(vertices[:, pb.V_KIND] == ATOM) & (vertices[:, pb.V_SOUND] == 1)]
    return len(vertices) <= MOST_BLOCKS and bool((atoms[:, pb.V_RUN] > 0).all())


def solve_first(
    incumbent: Incumbent, problem: PlanningProblem, positions: list[int], budget: Budget, seed: int
) -> None:
    """Let CP-SAT prove a single request of blocks, or several with a limit of work."""
    few = 1 if budget.moves is None else _FEW_REPEATABLE
    if len(positions) > few or not suits_cp_sat(problem):
        return
    hint = [incumbent.results[i] for i in positions]
    answer = solve_rigid(
        problem,
        hint,
        seed,
        stop=lambda: budget.stop() or budget.left_s <= 0,
        repeats=budget.moves is not None,
    )
    report_answer(incumbent, positions, answer)


def solve_rigid(
    problem: PlanningProblem,
    hint: Sequence[PlacementResult],
    seed: int = 0,
    *,
    stop: Callable[[], bool] = lambda: False,
    report: Callable[[ProofAnswer], None] = lambda answer: None,
    near: bool = False,
    repeats: bool = False,
) -> ProofAnswer:
    """Solve a problem of blocks (`suits_cp_sat`) until it is proven or `stop` returns True.

    Parameters
    ----------
    hint
        A plan to start from, one result per request.
    stop
        Polled every 50 ms.
    report
        Called with every better solution, in the calling thread.
    near
        The hint is near the optimum: one worker only proves it; else a second one searches for
        plans.
    repeats
        One worker for `REPEATABLE_S` and no clock: equal calls give equal results.
    """
    from ortools.sat.python import cp_model

    rigid = RigidModel(problem, cp_model)
    rigid.start_from(hint, near=near)
    solver = cp_model.CpSolver()
    solver.parameters.random_seed = seed
    solver.parameters.num_workers = 1 if repeats or (near and not rigid.single) else 2
    if repeats:
        solver.parameters.max_deterministic_time = REPEATABLE_S
    if not rigid.single:
        solver.parameters.subsolvers.append(_PROVER)
    status = _solve_and_report(rigid, solver, cp_model, stop, report)
    if status == cp_model.INFEASIBLE:  # the required requests cannot all be placed
        if problem.forest.keep.any():
            return ProofAnswer(None, -math.inf)
        return ProofAnswer([None] * len(problem.requests), 0.0)
    bound = problem.total
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return ProofAnswer(None, bound)
    if not rigid.single:
        bound = rigid.value_bound(solver.best_objective_bound)
    return ProofAnswer(rigid.placements(solver), bound)


def _solve_and_report(
    rigid: RigidModel,
    solver: Any,
    cp_model: Any,
    stop: Callable[[], bool],
    report: Callable[[ProofAnswer], None],
) -> Any:
    """Solve in a separate thread, so that a stop takes effect quickly; return the status."""
    plan: list[PlacementResult | None] | None = None
    bound = float(SCALE)

    class Watch(cp_model.CpSolverSolutionCallback):  # type: ignore[misc]
        def on_solution_callback(self) -> None:
            nonlocal plan
            plan = rigid.placements(self)

    def lower(least: float) -> None:
        nonlocal bound
        bound = min(bound, least)

    if not rigid.single:
        solver.best_bound_callback = lower
    reported = plan, bound
    with ThreadPoolExecutor(1, thread_name_prefix="cp-sat") as pool:
        answer = pool.submit(solver.solve, rigid.model, Watch())
        try:
            while not answer.done():
                if stop():
                    solver.stop_search()
                time.sleep(_POLL_S if answer.running() else 0.0)
                now = plan, bound
                if now[0] is not reported[0] or now[1] < reported[1]:
                    reported = now
                    report(ProofAnswer(now[0], rigid.value_bound(now[1])))
        finally:
            solver.stop_search()
        return answer.result()


# A step of a row is *contended* if the total that all requests could use there, each at any of its
# starts, exceeds the free capacity. At all other steps every plan fits. So a start of a gang
# dominates another one if its contended steps are a subset of the other's: only starts that are not
# dominated are kept, and a gang that can avoid all contended steps does so. Fewer starts make fewer
# steps contended; both computations are repeated until nothing changes.
#
# No optimum is lost: in any plan all gangs can move to starts that are kept.


@dataclass(frozen=True, slots=True)
class KeptStarts:
    """The starts of one atom that is a block.

    Attributes
    ----------
    starts
        Columns, ascending; none if it fits nowhere.
    before
        int64[column + 1]: contended steps before each column, in the rows that it uses.
    length
        Length of the block in columns.
    """

    starts: I64
    before: I64
    length: int

    @property
    def is_free(self) -> bool:
        """Whether it uses no contended step, so that nothing can block it."""
        return bool(len(self.starts) == 1 and self._held(self.starts)[0] == 0)

    def _held(self, starts: I64) -> I64:
        return np.asarray(self.before[starts + self.length] - self.before[starts])

    def without_dominated(self) -> KeptStarts:
        """Return the starts that are not dominated; of equal ones the first."""
        starts = self.starts
        none = np.flatnonzero(self._held(starts) == 0)
        if len(none):
            return KeptStarts(starts[none[:1]], self.before, self.length)
        first, end = self.before[starts], self.before[starts + self.length]
        new = np.append(True, (np.diff(first) > 0) | (np.diff(end) > 0))[: len(starts)]
        starts, first, end = starts[new], first[new], end[new]
        kept = np.ones(len(starts), dtype=np.bool_)
        kept[:-1] &= end[:-1] < end[1:]
        kept[1:] &= first[1:] > first[:-1]
        return KeptStarts(starts[kept], self.before, self.length)

    def dominating(self, start: int) -> int:
        """Return the kept start whose contended steps are a subset of those of `start`."""
        if self.is_free:
            return int(self.starts[0])
        place = np.searchsorted(self.before[self.starts], self.before[start])
        return int(self.starts[min(int(place), len(self.starts) - 1)])


def kept_starts(problem: PlanningProblem) -> dict[int, KeptStarts]:
    """Return the relevant starts of every atom, by vertex.

    Starts are dropped only for requests of a single gang; in others an atom's start affects other
    atoms.

    Parameters
    ----------
    problem
        All its atoms are blocks.
    """
    forest, room = problem.forest, problem.room
    vertices = forest.vertices
    atoms = np.flatnonzero((vertices[:, pb.V_KIND] == ATOM) & (vertices[:, pb.V_SOUND] == 1))
    alone = np.diff(forest.first)[vertices[:, pb.V_REQUEST]] == 1
    every = np.arange(room.free.shape[1] + 1)
    kept = {}
    for v in atoms.tolist():
        starts = vertices[v, pb.V_START] + np.flatnonzero(fitting_starts(forest, vertices[v]))
        kept[v] = KeptStarts(starts, every, int(vertices[v, pb.V_RUN]))
    count = -1
    while count != sum(len(one.starts) for one in kept.values()):
        count = sum(len(one.starts) for one in kept.values())
        contended = _contended(forest, room, kept)
        first, rows = room.demand_first, room.demand_rows
        before = [
            np.append(0, np.cumsum(contended[rows[a:b]].any(axis=0)))
            for a, b in zip(first[:-1].tolist(), first[1:].tolist(), strict=True)
        ]
        for v in np.flatnonzero(alone).tolist():
            if v in kept:
                demand = int(vertices[v, pb.V_DEMAND])
                own = KeptStarts(kept[v].starts, before[demand], kept[v].length)
                kept[v] = own.without_dominated()
    return kept


def _contended(forest: Forest, room: FreeRoom, kept: dict[int, KeptStarts]) -> I64:
    """Return bool[row, column]: whether the possible use exceeds the free capacity."""
    rows, columns = room.free.shape
    change = np.zeros((rows, columns + 1), dtype=np.int64)
    for v, one in kept.items():
        if not len(one.starts):
            continue
        row = forest.vertices[v]
        # Starts at most a length apart cover one contiguous range of columns.
        gaps = np.flatnonzero(np.diff(one.starts) > one.length)
        begins = one.starts[np.append(0, gaps + 1)]
        ends = one.starts[np.append(gaps, len(one.starts) - 1)] + one.length
        bundles = int(row[pb.V_MOST] * row[pb.V_MULTIPLE])
        first, end = room.demand_first[row[pb.V_DEMAND] : row[pb.V_DEMAND] + 2].tolist()
        for shift in forest.shifts[row[pb.V_SHIFT] : row[pb.V_SHIFT] + row[pb.V_SHIFTS]].tolist():
            for j in range(first, end):
                line, amount = change[room.demand_rows[j]], bundles * room.demand_amounts[j]
                line[np.minimum(begins + shift, columns)] += amount
                line[np.minimum(ends + shift, columns)] -= amount
    return np.asarray(np.cumsum(change, axis=1)[:, :columns] > room.free)
