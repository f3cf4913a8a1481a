"""Predict the size of Rayon's MILP before it is built."""

from __future__ import annotations

from dataclasses import dataclass

from planner.agents.milp.columns import AtomColumns, ModelColumns, VertexColumns
from planner.value import options_of
from planner.view import PlanView
from rdl.work_graph import ATOM, KIND, WorkGraph

#: Resident bytes per variable, row and coefficient while the model is built, passed on and solved,
#: including the solver's process; measured on 100,000 to 730,000 coefficients.
_COLUMN_BYTES, _ROW_BYTES, _ENTRY_BYTES = 1000, 1000, 250


@dataclass(frozen=True, slots=True)
class ModelSize:
    """Lower bounds on the variables, rows and coefficients of a model."""

    columns: int
    rows: int
    entries: int

    def __add__(self, other: ModelSize) -> ModelSize:
        """Return the sum of both sizes."""
        return ModelSize(
            self.columns + other.columns, self.rows + other.rows, self.entries + other.entries
        )

    @property
    def memory(self) -> int:
        """Approximate bytes for building and solving the model."""
        return self.columns * _COLUMN_BYTES + self.rows * _ROW_BYTES + self.entries * _ENTRY_BYTES


def predicted_size(columns: ModelColumns, view: PlanView) -> ModelSize:
    """Return the size of the larger of the two models: the one that minimises falls."""
    total = ModelSize(0, 0, 0)
    for atom in columns.atoms:
        total += _atom(atom)
    for own, request, ordered in zip(
        columns.vertices, columns.requests, columns.ordered, strict=True
    ):
        for vertex in own:
            if vertex.vertex in ordered and vertex.alive:
                total += _count_order_rows(vertex, own, request.graph)
        edges = request.graph.edges.tolist()
        for before, after, _, most in edges:
            if own[before].alive and own[after].alive:
                total += _edge(own[before], own[after], most)
    return total + _capacity(columns) + _averages(columns, view)


def _atom(atom: AtomColumns) -> ModelSize:
    """(3), (6), (7) and (8)-(9) of one atom, and its x and o."""
    steps = atom.steps
    size = ModelSize(2 * steps + 2, 2 * steps + 3, 7 * steps + 2)
    if atom.gang:
        size += ModelSize(steps, 2 * steps, 4 * steps)
    if atom.lease > 1 and not atom.rigid:
        size += ModelSize(steps, 2 * steps + atom.lease - 1, (4 + atom.lease) * steps)
    return size


def _count_order_rows(
    vertex: VertexColumns, own: list[VertexColumns], graph: WorkGraph
) -> ModelSize:
    """(12)-(15) of one vertex."""
    steps = max(vertex.end - vertex.start, 1)
    if graph.vertices[vertex.vertex, KIND] == ATOM:
        return ModelSize(2 * steps, 8 * steps - 2, 18 * steps)
    children = sum(own[child].alive for child in options_of(graph, vertex.vertex))
    return ModelSize(2 * steps, (6 + 2 * children) * steps, (8 + 6 * children) * steps)


def _edge(before: VertexColumns, after: VertexColumns, most: int) -> ModelSize:
    """(16) of one edge."""
    steps = after.end - after.start
    size = ModelSize(0, steps, 2 * steps)
    if most >= 0:
        steps = before.end - before.start + 1
        size += ModelSize(0, steps, 3 * steps)
    return size


def _capacity(columns: ModelColumns) -> ModelSize:
    """(1): one row per step and profile row that an atom may use, and all their entries."""
    touched: dict[int, tuple[int, int]] = {}
    entries = 0
    for atom in columns.atoms:
        entries += atom.steps * len(atom.demand.rows) * len(atom.shifts)
        first = atom.start + int(atom.shifts.min())
        last = atom.end + int(atom.shifts.max())
        for row in atom.demand.rows:
            low, high = touched.get(row, (first, last))
            touched[row] = min(low, first), max(high, last)
    return ModelSize(0, sum(high - low for low, high in touched.values()), entries)


def _averages(columns: ModelColumns, view: PlanView) -> ModelSize:
    """(18) and (19): steps that a limit's scope may use, plus a window at the edges."""
    touched: dict[int, tuple[int, int]] = {}
    entries = 0
    for atom in columns.atoms:
        first = atom.start + int(atom.shifts.min())
        last = atom.end + int(atom.shifts.max())
        entries += atom.steps * len(atom.demand.averages) * len(atom.shifts)
        for limit in atom.demand.averages:
            low, high = touched.get(limit, (first, last))
            touched[limit] = min(low, first), max(high, last)
    steps = sum(high - low for low, high in touched.values())
    windows = sum(int(view.averages.windows[limit]) for limit in touched)
    return ModelSize(steps, 2 * steps + windows, entries + 4 * steps + 2 * windows)
