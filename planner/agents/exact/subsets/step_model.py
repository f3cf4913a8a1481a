"""A set of requests step by step, as a MILP that places the requests of a subset.

Each vertex has two chains of binaries: whether it has begun, and whether it has ended, by each
step. So an order is one row a step, and what an atom holds at a step is at most its height while it
runs. Of its starts a block has one; other atoms hold a height at each step and take bundles for a
lease. Where `problem` relaxes nothing but window averages, so does this model.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import numpy as np

import planner.agents.exact.problem as pb
from lp.arrays import Sense
from lp.model import Entries, LinearModel
from planner.agents.exact.problem import I64, PlanningProblem, fitting_starts
from planner.agents.exact.subsets.levels import LevelBook
from rdl.work_graph import ANY, ATOM, EVERY

#: A coefficient and its column; a column of None is 0.
Term: TypeAlias = tuple[float, int | None]

_FREE: Final = float("inf")


@dataclass(frozen=True, slots=True)
class StepChain:
    """Binaries that say whether something has happened by each step.

    Attributes
    ----------
    first, count
        Steps that have a binary: before them it has not happened.
    column
        Of the first binary.
    present
        Column of the vertex's presence: what the chain is after its last step.
    """

    first: int
    count: int
    column: int
    present: int

    @property
    def end(self) -> int:
        """First step at which it has happened, if the vertex is there."""
        return self.first + self.count

    def at(self, step: int) -> int | None:
        """Return the column of a step, None where it is 0."""
        if step < self.first:
            return None
        return self.present if step >= self.end else self.column + step - self.first

    def later(self, steps: int) -> StepChain:
        """Return the chain of what happens so many steps later."""
        return StepChain(self.first + steps, self.count, self.column, self.present)


@dataclass(slots=True)
class _StepLines:
    """Columns and rows of a model, one after the other."""

    upper: list[float] = field(default_factory=list)
    whole: list[bool] = field(default_factory=list)
    entries: list[tuple[int, int, float]] = field(default_factory=list)
    sides: list[tuple[float, float]] = field(default_factory=list)

    def new(self, uppers: list[float], *, whole: bool = True) -> int:
        """Add columns from 0 up to their uppers; return the first."""
        first = len(self.upper)
        self.upper += uppers
        self.whole += [whole] * len(uppers)
        return first

    def add(self, terms: list[Term], low: float = -_FREE, high: float = _FREE) -> None:
        """Add one row."""
        row = len(self.sides)
        self.entries += [(row, column, by) for by, column in terms if column is not None]
        self.sides.append((low, high))

    def order(self, before: int | None, after: int | None) -> None:
        """Say that one binary is at most another."""
        if before is not None and before != after:
            self.add([(1.0, before), (-1.0, after)], high=0.0)

    def model(self) -> LinearModel:
        """Return all of it, without an objective."""
        model = LinearModel("steps", Sense.MINIMISE)
        model.add_block("all", len(self.upper), upper=self.upper, integer=self.whole)
        low, high = np.array(self.sides).T
        rows, columns, values = zip(*self.entries, strict=True)
        model.add_rows(
            "all rows", len(self.sides), Entries(rows, columns, values), lower=low, upper=high
        )
        return model


@dataclass(slots=True)
class StepModel:
    """The model of one set; who is there is a bound of its columns.

    Attributes
    ----------
    levels
        Column of each level of the book.
    present
        Column of each vertex's presence.
    starts
        Of each atom that is one block: its possible starts, and the column of the first.
    heights
        Of each other atom: its first step, the column of its height there, and how many.
    """

    problem: PlanningProblem
    book: LevelBook
    levels: int = field(init=False)
    present: list[int] = field(init=False)
    starts: dict[int, tuple[list[int], int]] = field(default_factory=dict)
    heights: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    _lines: _StepLines = field(default_factory=_StepLines)
    _begun: dict[int, StepChain] = field(default_factory=dict)
    _ended: dict[int, StepChain] = field(default_factory=dict)
    _use: dict[tuple[int, int], list[Term]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        """Build it."""
        forest = self.problem.forest
        self.levels = self._lines.new([1.0] * len(self.book.levels))
        self._add_presence()
        for request in range(len(self.problem.requests)):
            self._add_levels(request)
        exact = self._groups_with_largest_gaps()
        for vertex in forest.program.tolist():
            row = forest.vertices[vertex]
            if row[pb.V_KIND] != ATOM:
                self._add_group(vertex, row, exact=vertex in exact)
            elif row[pb.V_RUN] > 0:
                self._add_block(vertex, row)
            else:
                self._add_atom(vertex, row)
        for before, least, largest, after in forest.preds.tolist():
            self._add_gap(before, least, largest, after)
        for (line, step), terms in self._use.items():
            self._lines.add(terms, high=float(self.problem.room.free[line, step]))

    def model(self) -> LinearModel:
        """Return the model; it has one block of columns, ``all``."""
        return self._lines.model()

    def _add_presence(self) -> None:
        vertices = self.problem.forest.vertices
        self.present = [-1] * len(vertices)
        for vertex in reversed(range(len(vertices))):
            row, parent = vertices[vertex], int(vertices[vertex, pb.V_PARENT])
            if parent >= 0 and vertices[parent, pb.V_KIND] != ANY:
                self.present[vertex] = self.present[parent]
            else:
                self.present[vertex] = self._lines.new([1.0])
            if not row[pb.V_SOUND]:
                self._lines.add([(1.0, self.present[vertex])], high=0.0)

    def _add_levels(self, request: int) -> None:
        """Say that a request that is there has one level, and takes its options so."""
        forest, offset = self.problem.forest, int(self.problem.forest.first[request])
        own = [at for at, one in enumerate(self.book.levels) if one.request == request]
        root = self.present[int(forest.first[request + 1]) - 1]
        terms: list[Term] = [(1.0, self.levels + level) for level in own]
        self._lines.add([*terms, (-1.0, root)], 0.0, 0.0)
        for level in own:
            for way in self.book.unreached(level):
                taken: list[Term] = []
                for vertex, option in way.choices.items():
                    first = int(forest.vertices[offset + vertex, pb.V_CHILD])
                    taken.append((1.0, self.present[int(forest.children[first + option])]))
                side = float(len(taken))
                self._lines.add([*taken, (1.0, self.levels + level)], high=side)

    def _groups_with_largest_gaps(self) -> set[int]:
        """Return groups whose start and end must be exact: largest gaps are measured from them."""
        forest = self.problem.forest
        found: set[int] = set()
        pending = [v for edge in forest.preds.tolist() if edge[2] >= 0 for v in (edge[0], edge[3])]
        while pending:
            vertex = pending.pop()
            if vertex not in found and forest.vertices[vertex, pb.V_KIND] != ATOM:
                found.add(vertex)
                pending += self._children(forest.vertices[vertex])
        return found

    def _children(self, row: I64) -> list[int]:
        first = int(row[pb.V_CHILD])
        found: list[int] = self.problem.forest.children[
            first : first + int(row[pb.V_CHILDREN])
        ].tolist()
        return found

    def _chain(self, vertex: int, first: int, end: int) -> StepChain:
        """Add a chain: once something has happened it stays so."""
        count = max(0, end - first)
        chain = StepChain(
            first, count, self._lines.new([1.0] * count), present=self.present[vertex]
        )
        for step in range(first, first + count):
            self._lines.order(chain.at(step), chain.at(step + 1))
        return chain

    def _hold(self, row: I64, step: int, multiples: int, column: int) -> None:
        """Add what an atom takes at a step, and in all of its occurrences."""
        forest, room = self.problem.forest, self.problem.room
        first, end = room.demand_first[row[pb.V_DEMAND] : row[pb.V_DEMAND] + 2].tolist()
        bundles = multiples * int(row[pb.V_MULTIPLE])
        for shift in forest.shifts[row[pb.V_SHIFT] : row[pb.V_SHIFT] + row[pb.V_SHIFTS]].tolist():
            for place in range(first, end):
                amount = float(bundles * int(room.demand_amounts[place]))
                self._use[int(room.demand_rows[place]), step + shift].append((amount, column))

    def _add_nothing(self, vertex: int) -> None:
        """Lay out an atom that fits nowhere."""
        self._lines.add([(1.0, self.present[vertex])], high=0.0)
        self._begun[vertex] = self._ended[vertex] = StepChain(0, 0, 0, self.present[vertex])

    def _add_block(self, vertex: int, row: I64) -> None:
        """Add an atom that runs once and whole: one start."""
        length, lines = int(row[pb.V_RUN]), self._lines
        good = np.flatnonzero(fitting_starts(self.problem.forest, row)) + int(row[pb.V_START])
        if not row[pb.V_SOUND] or not len(good):
            self._add_nothing(vertex)
            return
        starts: list[int] = good.tolist()
        own = lines.new([1.0] * len(starts))
        self.starts[vertex] = starts, own
        begun = self._chain(vertex, starts[0], starts[-1])
        at = {start: own + place for place, start in enumerate(starts)}
        for step in range(starts[0], starts[-1] + 1):
            before, here = begun.at(step - 1), begun.at(step)
            lines.add([(1.0, here), (-1.0, before), (-1.0, at.get(step))], 0.0, 0.0)
        self._begun[vertex], self._ended[vertex] = begun, begun.later(length)
        for start, column in at.items():
            for step in range(start, start + length):
                self._hold(row, step, int(row[pb.V_MOST]), column)

    def _add_atom(self, vertex: int, row: I64) -> None:
        """Add an atom that holds a height at each step, bundles for a lease at least."""
        if not row[pb.V_SOUND]:
            self._add_nothing(vertex)
            return
        lines, lease = self._lines, int(row[pb.V_LEASE])
        first, end = int(row[pb.V_START]), int(row[pb.V_END])
        shortest = max(1, int(row[pb.V_SHORTEST]))
        caps = np.full(end - first, float(row[pb.V_MOST]))
        if row[pb.V_BLOCKED] >= 0:
            own = slice(row[pb.V_BLOCKED], row[pb.V_BLOCKED] + end - first)
            caps = np.minimum(caps, self.problem.forest.caps[own])
        height = lines.new(caps.tolist(), whole=False)
        self.heights[vertex] = first, height, end - first
        begun = self._chain(vertex, first, end - shortest)
        ended = self._chain(vertex, first + shortest, end)
        self._begun[vertex], self._ended[vertex] = begun, ended
        work = [(1.0, height + place) for place in range(end - first)]
        lines.add([*work, (-float(row[pb.V_WORK]), self.present[vertex])], 0.0, 0.0)
        for place, cap in enumerate(caps.tolist()):
            step, here = first + place, height + place
            over, there = ended.at(step), begun.at(step)
            lines.add([(1.0, here), (-cap, there), (cap, over)], high=0.0)
            lines.add([(1.0, here), (-1.0, there), (1.0, begun.at(step - 1))], low=0.0)
            lines.add([(1.0, here), (-1.0, ended.at(step + 1)), (1.0, over)], low=0.0)
            self._hold(row, step, 1, here)
        for step in range(first + shortest, end):
            lines.order(ended.at(step), begun.at(step - shortest))
        if lease > 1:
            self._add_leases(height, caps.tolist(), lease)
        if row[pb.V_LEAST] > 1:
            self._add_least(height, caps.tolist(), float(row[pb.V_LEAST]))

    def _add_leases(self, height: int, caps: list[float], lease: int) -> None:
        """Say that what is taken at a step is held for a lease, inside the window."""
        lines, count = self._lines, len(caps)
        late = count - lease + 1
        taken = lines.new([cap if at < late else 0.0 for at, cap in enumerate(caps)], whole=False)
        for at in range(count):
            before = height + at - 1 if at else None
            lines.add([(1.0, taken + at), (-1.0, height + at), (1.0, before)], low=0.0)
            held: list[Term] = [(1.0, taken + one) for one in range(max(0, at - lease + 1), at + 1)]
            lines.add([*held, (-1.0, height + at)], high=0.0)

    def _add_least(self, height: int, caps: list[float], least: float) -> None:
        """Say that a height is 0 or at least the least."""
        busy = self._lines.new([1.0] * len(caps))
        for at, cap in enumerate(caps):
            self._lines.add([(1.0, height + at), (-least, busy + at)], low=0.0)
            self._lines.add([(1.0, height + at), (-cap, busy + at)], high=0.0)

    def _add_group(self, vertex: int, row: I64, *, exact: bool) -> None:
        """Add the chains of a group around those of its children."""
        kids = self._children(row)
        last = int(row[pb.V_LAST]) if row[pb.V_KIND] == EVERY else 0
        begins = [self._begun[kid] for kid in kids]
        ends = [self._ended[kid].later(last) for kid in kids]
        begun = self._chain(
            vertex, min(one.first for one in begins), max(one.end for one in begins)
        )
        ended = self._chain(vertex, min(one.first for one in ends), max(one.end for one in ends))
        self._begun[vertex], self._ended[vertex] = begun, ended
        if row[pb.V_KIND] == ANY:
            there = [(1.0, self.present[kid]) for kid in kids]
            self._lines.add([*there, (-1.0, self.present[vertex])], 0.0, 0.0)
        for own, below, is_end in ((begun, begins, False), (ended, ends, True)):
            for step in range(own.first, own.end):
                here, those = own.at(step), [one.at(step) for one in below]
                terms: list[Term] = [(1.0, one) for one in those]
                if row[pb.V_KIND] == ANY:
                    self._lines.add([*terms, (-1.0, here)], 0.0, 0.0)
                    continue
                for one in those:
                    self._lines.order(*((here, one) if is_end else (one, here)))
                if exact:  # it begins with one of them, and has ended when all have
                    all_but_one = float(1 - len(kids)) if is_end else 0.0
                    side = [(all_but_one, self.present[vertex]), (-1.0, here)]
                    low, high = (-_FREE, 0.0) if is_end else (0.0, _FREE)
                    self._lines.add([*terms, *side], low, high)

    def _add_gap(self, before: int, least: int, largest: int, after: int) -> None:
        """Add one edge: the second begins between the gaps after the first has ended."""
        ended, begun = self._ended[before], self._begun[after]
        for step in range(begun.first, begun.end + 1):
            self._lines.order(begun.at(step), ended.at(step - least))
        if largest >= 0:
            for step in range(ended.first, ended.end + 1):
                self._lines.order(ended.at(step), begun.at(step + largest))
