"""Convert between placements and values of Rayon's MILP: decode a solution, encode a start."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planner.agents.milp.columns import AtomColumns, Floats, Ints, VertexColumns
from planner.agents.milp.rayon import RayonModel
from planner.placement import Code, PlacementResult
from planner.value import options_of
from rdl.work_graph import ANY, ATOM, EVERY, KIND, LAST_SHIFT, WorkGraph


def decode(values: Floats, built: RayonModel) -> list[PlacementResult]:
    """Return one result per request, in order.

    Parameters
    ----------
    values
        float64[columns of the model]; integer variables are integral up to the solver's tolerance.
    """
    taken: list[list[tuple[int, Ints]]] = [[] for _ in built.columns.requests]
    for atom in built.columns.atoms:
        if values[atom.overflow] < 0.5:
            heights = np.rint(values[atom.x : atom.x + atom.steps]).astype(np.int64)
            taken[atom.request].append(
                (atom.vertex, height_rows(heights * atom.multiple, atom.start))
            )
    return [
        _result(values, own, request.graph, rows)
        for own, request, rows in zip(
            built.columns.vertices, built.columns.requests, taken, strict=True
        )
    ]


def height_rows(heights: Ints, start: int) -> Ints:
    """Return run-length rows (start, end, bundles) of heights that begin at step `start`."""
    padded = np.concatenate([[0], heights, [0]])
    at = np.flatnonzero(np.diff(padded))
    rows = np.stack([at[:-1], at[1:], padded[at[:-1] + 1]], axis=1)
    rows = rows[rows[:, 2] > 0]
    rows[:, :2] += start
    return rows


def _result(
    values: Floats, own: list[VertexColumns], graph: WorkGraph, rows: list[tuple[int, Ints]]
) -> PlacementResult:
    if values[own[-1].overflow] > 0.5:
        return PlacementResult(Code.CAPACITY, "the solver's best plan leaves this request out")
    choices = []
    for vertex in own:
        if graph.vertices[vertex.vertex, KIND] == ANY and values[vertex.overflow] < 0.5:
            options = options_of(graph, vertex.vertex)
            placed = [values[own[option].overflow] < 0.5 for option in options]
            choices.append((vertex.vertex, placed.index(True)))
    first = np.cumsum([0, *(len(part) for _, part in rows)])
    joined = np.concatenate([np.empty((0, 3), dtype=np.int64), *(part for _, part in rows)])
    vertices = np.array([vertex for vertex, _ in rows], dtype=np.int64)
    return PlacementResult(
        vertices=vertices, first=first.astype(np.int64), rows=joined, choices=tuple(choices)
    )


def encode(results: Sequence[PlacementResult], built: RayonModel) -> Floats:
    """Return the values of all variables for placements, as a solver's start.

    The inverse of `decode` for any plan within the view; the values satisfy all rows.
    """
    model = built.model.assemble()
    values = np.zeros(model.columns)
    values[model.blocks["overflow"]] = 1.0
    held = [dict(result.atoms()) if result.placed else {} for result in results]
    for atom in built.columns.atoms:
        if atom.vertex in held[atom.request]:
            _encode_atom(values, atom, held[atom.request][atom.vertex])
    for total in built.totals:
        values[total.first : total.first + total.steps] = total.values(values)
    for index, request in enumerate(built.columns.requests):
        own = built.columns.vertices[index]
        spans = {
            vertex: (int(rows[0, 0]), int(rows[-1, 1])) for vertex, rows in held[index].items()
        }
        _encode_groups(values, own, request.graph, spans)
        overflow = values[[vertex.overflow for vertex in own]]
        losses = built.losses[index]
        lost = float((losses * (1.0 - overflow)).sum())
        values[model.blocks["worth"].start + index] = 1.0 - overflow[-1] - lost
    return values


def _encode_atom(values: Floats, atom: AtomColumns, rows: Ints) -> None:
    height = np.zeros(atom.steps)
    for start, end, bundles in rows.tolist():
        height[start - atom.start : end - atom.start] = bundles // atom.multiple
    own = slice(atom.x, atom.x + atom.steps)
    values[own] = height
    values[atom.overflow] = 0.0
    change = np.diff(np.concatenate([[0.0], height, [0.0]]))
    if atom.busy >= 0:
        values[atom.busy : atom.busy + atom.steps] = height > 0
    if atom.change >= 0:
        values[atom.change : atom.change + atom.steps + 1] = np.abs(change)
    if atom.rise >= 0:
        values[atom.rise : atom.rise + atom.steps] = np.maximum(change[:-1], 0.0)


def _encode_groups(
    values: Floats, own: list[VertexColumns], graph: WorkGraph, spans: dict[int, tuple[int, int]]
) -> None:
    """Set overflow of groups, and s and f of every ordered vertex, from the atoms upward."""
    for vertex in own:
        number = vertex.vertex
        row = graph.vertices[number]
        if row[KIND] != ATOM:
            placed = [spans[child] for child in options_of(graph, number) if child in spans]
            if not placed:
                continue
            last = int(row[LAST_SHIFT]) if row[KIND] == EVERY else 0
            spans[number] = (min(s for s, _ in placed), max(e for _, e in placed) + last)
            values[vertex.overflow] = 0.0
        if vertex.started >= 0 and number in spans:
            steps = np.arange(vertex.start, vertex.end)
            begin, end = spans[number]
            values[vertex.started : vertex.started + steps.size] = steps >= begin
            values[vertex.unfinished : vertex.unfinished + steps.size] = steps < end
