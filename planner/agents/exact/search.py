"""Improve a plan by ruin and recreate, in slices that can be stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

import planner.agents.exact.problem as pb
from planner.agents.exact.kernels import search as kernels
from planner.agents.exact.kernels import search_state as state
from planner.agents.exact.kernels.search_state import MoveMix
from planner.agents.exact.problem import F64, I64, Forest, PlanningProblem
from planner.placement import PlacementResult
from rdl.work_graph import ANY, ATOM


def plain_mix(most: int) -> MoveMix:
    """Return moves that remove up to `most` requests and insert them in a new order."""
    return MoveMix(most, 2 * most, 0.4, 0.3, 0.0, 0.0)


#: Move mixes for single atoms, small and large, many small pieces, and few large ones.
SINGLE: Final = plain_mix(10)
LARGE_SINGLE: Final = SINGLE._replace(stay=0.5)
SMALL_PIECES: Final = plain_mix(18)
LARGE_PIECES: Final = MoveMix(6, 3, 0.4, 0.3, 0.5, 0.2, stay=0.8, filled=0.7)

#: Mean maximum height of the atoms, weighted by work, from which pieces count as large, as a share
#: of all capacity.
LARGE: Final = 0.13


def mix_of(problem: PlanningProblem) -> MoveMix:
    """Return the move mix for a problem; no move removes more requests than there are."""
    forest, requests = problem.forest, len(problem.forest.value)
    mixes = (SINGLE, LARGE_SINGLE)
    if len(forest.vertices) > 2 * requests:
        mixes = (SMALL_PIECES, LARGE_PIECES)
    mix = mixes[mean_height(problem) >= LARGE]
    if mix.most <= requests:
        return mix
    return mix._replace(most=requests, tries=min(mix.tries, 2 * requests))


def mean_height(problem: PlanningProblem) -> float:
    """Return the mean maximum height of all atoms, weighted by work, as a share of capacity."""
    room, vertices = problem.room, problem.forest.vertices
    atoms = vertices[vertices[:, pb.V_KIND] == ATOM]
    heights, works = np.zeros(len(atoms)), np.zeros(len(atoms))
    for place, row in enumerate(atoms):
        first, end = room.demand_first[row[pb.V_DEMAND] : row[pb.V_DEMAND] + 2]
        share = float(room.shares[first:end].max(initial=0.0)) * int(row[pb.V_MULTIPLE])
        heights[place] = int(row[pb.V_MOST]) * share
        works[place] = int(row[pb.V_WORK]) * int(row[pb.V_SHIFTS]) * share
    return float(np.average(heights, weights=works)) if works.any() else 0.0


#: Maximum number of rows of one atom; shapes with more pieces are not tried.
MOST_ROWS = 256


@dataclass(slots=True)
class RuinRecreate:
    """One search for plans.

    Attributes
    ----------
    problem
        The requests and the free capacity.
    seed
        Seed of the random numbers.
    """

    problem: PlanningProblem
    seed: int
    arrays: state.SearchState = field(init=False)
    moves: int = 0

    def __post_init__(self) -> None:
        """Allocate the arrays of an empty plan."""
        forest, room = self.problem.forest, self.problem.room
        vertices = forest.vertices
        count, requests = len(vertices), len(forest.value)
        first = _first_slots(forest)
        self.arrays = state.SearchState(
            free=room.free.copy(),
            first=first,
            rows=np.zeros((state.PLANS, int(first[-1]) + 1, 3), dtype=np.int64),
            pieces=np.zeros((state.PLANS, count), dtype=np.int64),
            option=np.full((state.PLANS, count), -1, dtype=np.int64),
            worth=np.zeros((state.PLANS, requests)),
            held=np.zeros((state.PLANS, requests), dtype=np.int64),
            span=np.zeros((requests, 2), dtype=np.int64),
            stale=np.zeros(requests, dtype=np.int64),
            density=_densities(self.problem),
            vertex=np.zeros((state.VERTEX_ROWS, count), dtype=np.int64),
            line=np.zeros((state.LINES, room.free.shape[1] + 2), dtype=np.int64),
            list=np.zeros((state.LISTS, requests + 2), dtype=np.int64),
            key=np.zeros(requests + 2),
            random=state.random_state(self.seed),
            total=np.zeros(state.TOTALS),
        )

    def load(self, results: Sequence[PlacementResult]) -> None:
        """Start from a plan; drop requests whose rows do not fit the arrays."""
        arrays, forest = self.arrays, self.problem.forest
        kept = slice(state.KEPT, state.KEPT + 1)
        self._clear()
        for request, result in enumerate(results):
            if result.placed:
                self._load_request(request, result)
        arrays.total[state.BEST] = float(arrays.worth[kept].sum())
        kernels.restore(forest, self.problem.room, arrays)

    def _clear(self) -> None:
        """Clear all plans."""
        arrays = self.arrays
        for plan in (state.PLAN, state.BEFORE, state.KEPT):
            for array in (arrays.pieces, arrays.worth, arrays.held):
                array[plan] = 0
        arrays.free[:] = self.problem.room.free

    def _load_request(self, request: int, result: PlacementResult) -> None:
        arrays, forest, at = self.arrays, self.problem.forest, state.KEPT
        offset = int(forest.first[request])
        rows = list(result.atoms())
        if any(len(held) > self._slot_count(offset + vertex) for vertex, held in rows):
            return
        for vertex, held in rows:
            first = int(arrays.first[offset + vertex])
            arrays.rows[at, first : first + len(held)] = held
            arrays.rows[at, first : first + len(held), :2] -= self.problem.base
            arrays.pieces[at, offset + vertex] = len(held)
        worth = float(forest.value[request])
        for vertex, option in result.choices:
            arrays.option[at, offset + vertex] = option
            child = forest.children[forest.vertices[offset + vertex, pb.V_CHILD] + option]
            worth -= float(forest.value[request] * forest.loss[child])
        arrays.worth[at, request] = worth + float(forest.keep[request])
        arrays.held[at, request] = 1

    def _slot_count(self, vertex: int) -> int:
        return int(self.arrays.first[vertex + 1] - self.arrays.first[vertex])

    @property
    def value(self) -> float:
        """Value of the best plan; negative while it lacks a required request."""
        return float(self.arrays.total[state.BEST] - self.problem.forest.keep.sum())

    def run(self, moves: int, mix: state.MoveMix, temperature: float) -> None:
        """Make moves; see `planner.agents.exact.kernels.search.improve`."""
        self.moves += moves
        kernels.improve(
            self.problem.forest, self.problem.room, self.arrays, moves, mix, temperature
        )

    def restore_best(self) -> None:
        """Continue from the best plan."""
        kernels.restore(self.problem.forest, self.problem.room, self.arrays)

    def adopt(self, other: RuinRecreate) -> None:
        """Continue from the best plan of another search for the same requests."""
        self._clear()
        for name in ("rows", "pieces", "option", "worth", "held"):
            getattr(self.arrays, name)[state.KEPT] = getattr(other.arrays, name)[state.KEPT]
        self.arrays.total[state.BEST] = other.arrays.total[state.BEST]
        self.restore_best()

    def plan(self) -> list[PlacementResult | None]:
        """Return the best plan, None for refused requests."""
        held = self.arrays.held[state.KEPT]
        return [self._result(r) if held[r] else None for r in range(len(held))]

    def _result(self, request: int) -> PlacementResult:
        arrays, forest = self.arrays, self.problem.forest
        offset, end = int(forest.first[request]), int(forest.first[request + 1])
        vertices, first, rows = [], [0], []
        for vertex in range(offset, end):
            count = int(arrays.pieces[state.KEPT, vertex])
            if count:
                at = int(arrays.first[vertex])
                held = arrays.rows[state.KEPT, at : at + count].copy()
                held[:, :2] += self.problem.base
                rows.append(held)
                vertices.append(vertex - offset)
                first.append(first[-1] + count)
        return PlacementResult(
            vertices=np.array(vertices, dtype=np.int64),
            first=np.array(first, dtype=np.int64),
            rows=np.concatenate([np.zeros((0, 3), dtype=np.int64), *rows]),
            choices=self._choices(offset, end),
        )

    def _choices(self, offset: int, end: int) -> tuple[tuple[int, int], ...]:
        """Return the chosen options of every `any` that was reached."""
        vertices, option = self.problem.forest.vertices, self.arrays.option[state.KEPT]
        found = [
            (vertex - offset, int(option[vertex]))
            for vertex in range(offset, end)
            if vertices[vertex, pb.V_KIND] == ANY and option[vertex] >= 0
        ]
        return tuple(found)


def _first_slots(forest: Forest) -> I64:
    """Return int64[vertex + 1]: first row slot of each atom.

    Required requests get enough slots for any shape: they must be loaded whatever their current
    shape.
    """
    vertices = forest.vertices
    windows = np.maximum(1, vertices[:, pb.V_END] - vertices[:, pb.V_START])
    keep = forest.keep[vertices[:, pb.V_REQUEST]] > 0
    sizes = np.where(keep, windows, np.minimum(windows, MOST_ROWS))
    sizes[vertices[:, pb.V_RUN] > 0] = 1
    sizes[vertices[:, pb.V_KIND] != ATOM] = 0
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _densities(problem: PlanningProblem) -> F64:
    """Return float64[request]: value over requested work, in shares of the rows' capacity."""
    forest, room = problem.forest, problem.room
    work_share = np.zeros(len(forest.value))
    for request in range(len(work_share)):
        for row in forest.vertices[forest.first[request] : forest.first[request + 1]]:
            if row[pb.V_KIND] != ATOM:
                continue
            work = float(row[pb.V_WORK] * row[pb.V_MULTIPLE] * row[pb.V_SHIFTS])
            first, end = room.demand_first[row[pb.V_DEMAND] : row[pb.V_DEMAND] + 2]
            work_share[request] += work * float(room.shares[first:end].max(initial=0.0))
    return np.asarray(forest.value / np.maximum(work_share, 1e-12))
