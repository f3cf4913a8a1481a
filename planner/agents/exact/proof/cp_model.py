"""The constraint model of a rigid problem: one start an atom, one literal a vertex (CP-SAT)."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

import planner.agents.exact.problem as pb
from planner.agents.exact.problem import F64, I64, PlanningProblem, fitting_starts
from planner.agents.exact.proof.placements import placement_of
from planner.placement import PlacementResult
from rdl.work_graph import ANY, ATOM, EVERY

#: Integer weight of everything together; each request's share is rounded up, so that the bound on
#: the sum of weights is a bound on value.
SCALE = 1_000_000_000


def value_bounds(problem: PlanningProblem) -> F64:
    """Return the most that each request can be worth; `PlanningProblem.total` is their sum."""
    forest = problem.forest
    return forest.value * forest.worth[forest.first[1:] - 1]


class WaysOfWorth(NamedTuple):
    """One worth that a request can have.

    Attributes
    ----------
    share
        What it is worth at least, as a part of `PlanningProblem.total`.
    ruled_out
        Ways to take the options of the request that are worth less.
    """

    request: int
    share: float
    ruled_out: tuple[Mapping[int, int], ...]


class RigidModel:
    """The model of one problem.

    Attributes
    ----------
    model
        CP-SAT's.
    single
        Whether there is one request only: then it must be there, and nothing is maximised.
    aside
        Requests that count as accepted and hold nothing: what is left can be worth no less.
    """

    def __init__(
        self, problem: PlanningProblem, cp_model: Any, aside: Collection[int] = ()
    ) -> None:
        self.problem, self._cp = problem, cp_model
        self.aside = frozenset(aside)
        self.model = cp_model.CpModel()
        self.single = len(problem.requests) == 1
        count = len(problem.forest.vertices)
        self._present: list[Any] = [None] * count
        self._start: list[Any] = [None] * count
        self._end: list[Any] = [None] * count
        self._intervals: list[list[tuple[Any, int]]] = [[] for _ in problem.room.free]
        owners = problem.forest.vertices[:, pb.V_REQUEST].tolist()
        vertices = [vertex for vertex in range(count) if owners[vertex] not in self.aside]
        self._tight = self._groups_with_largest_gaps()
        for vertex in reversed(vertices):
            self._add_literal(vertex)
        for vertex in vertices:
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

    def maximise_levels(self, levels: Sequence[WaysOfWorth]) -> None:
        """Maximise the levels at which requests are there, in the place of options of roots.

        Parameters
        ----------
        levels
            All levels of all requests; their values as parts of `PlanningProblem.total`.
        """
        own: list[list[Any]] = [[] for _ in self.problem.requests]
        terms = []
        for level in levels:
            taken = self.model.new_bool_var("")
            for choices in level.ruled_out:
                self.rule_out(level.request, choices, taken)
            own[level.request].append(taken)
            terms.append(math.ceil(level.share * SCALE) * taken)
        for request, end in enumerate(self.problem.forest.first[1:].tolist()):
            self.model.add(sum(own[request]) == self._present[end - 1])
        self.model.maximize(sum(terms))

    def rule_out(self, request: int, choices: Mapping[int, int], where: Any = None) -> None:
        """Rule out a way to take the options of a request: vertices and options of its graph.

        Parameters
        ----------
        where
            The literal that rules it out; None: it is ruled out in any case.
        """
        forest = self.problem.forest
        offset = int(forest.first[request])
        taken = []
        for vertex, option in choices.items():
            first = int(forest.vertices[offset + vertex, pb.V_CHILD])
            taken.append(self._present[int(forest.children[first + option])])
        rule = self.model.add_bool_or([one.negated() for one in taken])
        if where is not None:
            rule.only_enforce_if(where)

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
        forest = self.problem.forest
        total = max(self.problem.total, 1e-300)
        terms = []
        for request, value in enumerate(forest.value.tolist()):
            if request in self.aside:
                continue
            root = int(forest.first[request + 1]) - 1
            row = forest.vertices[root]
            options = [root]
            if row[pb.V_KIND] == ANY:
                first = int(row[pb.V_CHILD])
                options = forest.children[first : first + int(row[pb.V_CHILDREN])].tolist()
            for option in options:
                worth = value if option == root else value * (1.0 - float(forest.loss[option]))
                terms.append(math.ceil(worth / total * SCALE) * self._present[option])
        if not self.single:
            self.model.maximize(sum(terms))

    def value_bound(self, weight: float) -> float:
        """Return what plans can be worth at most where all in the model weigh at most `weight`."""
        beside = value_bounds(self.problem)[sorted(self.aside)].sum()
        total = self.problem.total
        return min(total, max(0.0, weight * total / SCALE) + float(beside))

    def add_hint(self, results: Sequence[PlacementResult]) -> None:
        """Start from a plan."""
        forest = self.problem.forest
        for request, result in enumerate(results):
            if request in self.aside:
                continue
            offset = int(forest.first[request])
            root = int(forest.first[request + 1]) - 1
            if not self.single:
                self.model.add_hint(self._present[root], result.placed)
            for vertex, rows in result.atoms():
                if self._start[offset + vertex] is not None:
                    at = int(rows[0, 0]) - self.problem.base
                    self.model.add_hint(self._start[offset + vertex], at)

    def placements(self, solver: Any) -> list[PlacementResult | None]:
        """Return what the solver's best plan holds for each request."""

        def is_there(vertex: int) -> bool:
            return bool(solver.boolean_value(self._present[vertex]))

        def rows_of(vertex: int) -> I64:
            row = self.problem.forest.vertices[vertex]
            start = int(solver.value(self._start[vertex])) + self.problem.base
            bundles = int(row[pb.V_MOST] * row[pb.V_MULTIPLE])
            return np.array([[start, start + int(row[pb.V_RUN]), bundles]], dtype=np.int64)

        return [
            placement_of(self.problem, request, is_there, rows_of)
            if request not in self.aside and is_there(end - 1)
            else None
            for request, end in enumerate(self.problem.forest.first[1:].tolist())
        ]
