"""Precedence in Rayon's MILP: equations (12)-(17) of the paper's 4.1, with gaps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lp.model import LinearModel
from planner.agents.milp.columns import AtomColumns, ModelColumns, VertexColumns
from planner.agents.milp.rows import ConstraintRows, Floats, Ints
from planner.value import options_of
from rdl.work_graph import ATOM, EVERY, KIND, LAST_SHIFT, WorkGraph


@dataclass(frozen=True, slots=True)
class _Indicator:
    """s or f of a vertex as a function of the step: variables inside its window, else constant.

    Before the window s is 0 and f is 1 - o; past it s is 1 - o and f is 0.
    """

    vertex: VertexColumns
    first: int
    rising: bool

    def put(self, rows: ConstraintRows, numbers: Ints, steps: Ints, value: float) -> None:
        """Add `value` times the indicator at `steps` to the rows with `numbers`."""
        start, end = self.vertex.start, self.vertex.end
        inside = (steps >= start) & (steps < end)
        rows.put(numbers[inside], self.first + steps[inside] - start, value)
        whole = steps >= end if self.rising else steps < start
        rows.put(numbers[whole], self.vertex.overflow, -value)

    def constant(self, steps: Ints) -> Floats:
        """Return the constant part of the indicator at `steps` (1 if it is 1 - o)."""
        edge = steps >= self.vertex.end if self.rising else steps < self.vertex.start
        return edge.astype(float)


def _start_indicator(vertex: VertexColumns) -> _Indicator:
    return _Indicator(vertex, vertex.started, rising=True)


def _finish_indicator(vertex: VertexColumns) -> _Indicator:
    return _Indicator(vertex, vertex.unfinished, rising=False)


def order_12_15(model: LinearModel, columns: ModelColumns) -> None:
    """(12)-(15): s rises at the first allocation, f falls after the last, exactly.

    Groups take the union of their children. The paper bounds s and f from below only; gaps with a
    maximum need them from above too: s_t <= s_(t-1) + x_t and f_t <= f_(t+1) + x_t.
    """
    rows = ConstraintRows()
    atoms = {(atom.request, atom.vertex): atom for atom in columns.atoms}
    for own, request, ordered in zip(
        columns.vertices, columns.requests, columns.ordered, strict=True
    ):
        for number in sorted(ordered):
            if not own[number].alive:
                continue
            _add_monotone_rows(rows, own[number])
            if request.graph.vertices[number, KIND] == ATOM:
                _span_of_atom(rows, own[number], atoms[own[number].request, number])
            else:
                _span_of_group(rows, own, number, request.graph)
    rows.add_to(model, "starts and finishes (12-15)")


def _add_monotone_rows(rows: ConstraintRows, vertex: VertexColumns) -> None:
    """(12) s_t >= s_(t-1) and (14) f_t >= f_(t+1); both are 0 if the vertex is not placed."""
    count = vertex.end - vertex.start
    own = np.arange(count)
    for first, sign in ((vertex.started, 1.0), (vertex.unfinished, -1.0)):
        numbers = rows.open(count - 1, lower=0.0)
        rows.put(numbers, first + own[1:], sign)
        rows.put(numbers, first + own[:-1], -sign)
        numbers = rows.open(count, upper=1.0)
        rows.put(numbers, first + own, 1.0)
        rows.put(numbers, vertex.overflow, 1.0)


def _span_of_atom(rows: ConstraintRows, vertex: VertexColumns, atom: AtomColumns) -> None:
    """(13) and (15) s, f >= x / h; upper bounds: each changes only at steps with x > 0."""
    own = np.arange(atom.steps)
    for first, towards in ((vertex.started, -1), (vertex.unfinished, 1)):
        numbers = rows.open(atom.steps, lower=0.0)
        rows.put(numbers, first + own, float(atom.maximum))
        rows.put(numbers, atom.x + own, -1.0)
        numbers = rows.open(atom.steps, upper=0.0)
        rows.put(numbers, first + own, 1.0)
        rows.put(numbers, atom.x + own, -1.0)
        inside = (own + towards >= 0) & (own + towards < atom.steps)
        rows.put(numbers[inside], first + own[inside] + towards, -1.0)


def _span_of_group(
    rows: ConstraintRows, own: list[VertexColumns], number: int, graph: WorkGraph
) -> None:
    vertex = own[number]
    children = [own[child] for child in options_of(graph, number) if own[child].alive]
    last = int(graph.vertices[number, LAST_SHIFT]) if graph.vertices[number, KIND] == EVERY else 0
    steps = np.arange(vertex.start, vertex.end)
    for indicator, shift in ((_start_indicator, 0), (_finish_indicator, last)):
        mine = indicator(vertex)
        above = rows.open(steps.size, upper=0.0)
        mine.put(rows, above, steps, 1.0)
        constant = np.zeros(steps.size)
        for child in children:
            theirs = indicator(child)
            theirs.put(rows, above, steps - shift, -1.0)
            constant += theirs.constant(steps - shift)
            below = rows.open(steps.size, lower=0.0)
            rows.shift(below, lower=theirs.constant(steps - shift))
            mine.put(rows, below, steps, 1.0)
            theirs.put(rows, below, steps - shift, -1.0)
        rows.shift(above, upper=constant)


def order_16(model: LinearModel, columns: ModelColumns) -> None:
    """(16): j'' starts at least the minimum gap and at most the maximum gap after j' ends.

    Minimum gap a: s''_t + f'_(t-a) <= 1. Maximum gap b: f'_t + s''_(t+b) >= 1 - o.
    """
    rows = ConstraintRows()
    for own, request in zip(columns.vertices, columns.requests, strict=True):
        for before, after, least, most in request.graph.edges.tolist():
            if not (own[before].alive and own[after].alive):
                continue
            finish, start = _finish_indicator(own[before]), _start_indicator(own[after])
            steps = np.arange(own[after].start, own[after].end)
            numbers = rows.open(steps.size, upper=1.0)
            rows.shift(numbers, upper=-finish.constant(steps - least))
            start.put(rows, numbers, steps, 1.0)
            finish.put(rows, numbers, steps - least, 1.0)
            if most < 0:
                continue
            steps = np.arange(own[before].start, own[before].end + 1)
            numbers = rows.open(steps.size, lower=1.0)
            rows.shift(numbers, lower=-start.constant(steps + most))
            finish.put(rows, numbers, steps, 1.0)
            start.put(rows, numbers, steps + most, 1.0)
            rows.put(numbers, own[before].overflow, 1.0)
    rows.add_to(model, "precedence (16)")
