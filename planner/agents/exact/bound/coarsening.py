"""The same requests on fewer, longer columns: a cheaper bound, valid on the fine ones too.

Where one evaluation of the bound takes a second, most of them must be made elsewhere. Prices that
are constant over buckets of columns see only how much of each bucket a placement uses, so a
placement is relaxed to that. What is rounded is rounded outward, so the least cost of a request
here is never above its least cost there (docs/exact.md, 2).

A block that begins and ends inside of buckets is a mixture of blocks of whole buckets, each at most
two shorter than the buckets that its length fills: (a, k, .., k, c) with a <= c is a times all of
them, c - a times all but the first, and k - c times all but both ends. So a lease becomes that much
shorter and otherwise stays what it was; what begins inside of a bucket may follow what ends in it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

import planner.agents.exact.problem as pb
from planner.agents.exact.problem import F64, I64, Forest, FreeRoom, PlanningProblem
from rdl.work_graph import ATOM

_LEAST_GAP = 1  # column of `Forest.preds`


@dataclass(frozen=True, slots=True)
class CoarseProblem:
    """A problem on buckets of columns.

    Attributes
    ----------
    problem
        Its bound, at any prices, is a bound of the fine problem.
    size
        Fine columns of a bucket; the last may have fewer.
    columns
        How many fine columns there are.
    """

    problem: PlanningProblem
    size: int
    columns: int

    def mean(self, prices: F64) -> F64:
        """Return float64[row, bucket]: the means of prices of fine columns."""
        marks = np.arange(0, self.columns, self.size)
        lengths = np.diff(np.append(marks, self.columns))
        return np.asarray(np.add.reduceat(prices, marks, axis=1) / lengths)

    def fine(self, prices: F64) -> F64:
        """Return float64[row, fine column]: these prices on every column of their bucket."""
        return np.repeat(prices, self.size, axis=1)[:, : self.columns].copy()


def coarsen(problem: PlanningProblem, size: int) -> CoarseProblem:
    """Return the problem on buckets of `size` columns.

    Raises
    ------
    ValueError
        If `size` is below 1.
    """
    if size < 1:
        raise ValueError(f"a bucket of {size} columns; at least 1")
    room = problem.room
    columns = room.free.shape[1]
    marks = np.arange(0, columns, size)
    # Prices go by `_caps`, not by these fit caps; a relaxation that read them would need the most.
    wide = FreeRoom(
        np.add.reduceat(room.free, marks, axis=1), room.demand_first, room.demand_rows,
        room.demand_amounts, np.maximum.reduceat(room.fit, marks, axis=1), room.scale,
        np.add.reduceat(room.capacity, marks, axis=1), room.shares,
    )  # fmt: skip
    relaxed = replace(problem, forest=_forest(problem.forest, size), room=wide, base=0)
    return CoarseProblem(relaxed, size, columns)


def _forest(forest: Forest, size: int) -> Forest:
    """Return the forest with windows, gaps and lengths in buckets, rounded outward."""
    vertices = forest.vertices.copy()
    vertices[:, pb.V_START] //= size
    vertices[:, pb.V_END] = -(-vertices[:, pb.V_END] // size)
    vertices[:, pb.V_SHORTEST] = -(-vertices[:, pb.V_SHORTEST] // size)
    vertices[:, pb.V_LAST] //= size
    _atoms(vertices, size)
    shifts = _shifts(forest, vertices, size)
    caps = _caps(forest, vertices, size)
    preds = forest.preds.copy()
    preds[:, _LEAST_GAP] = preds[:, _LEAST_GAP] // size - 1
    return forest._replace(vertices=vertices, shifts=shifts, preds=preds, caps=caps)


def _atoms(vertices: I64, size: int) -> None:
    """Shorten leases, raise heights to what a bucket holds; one block is one long lease."""
    atoms = vertices[:, pb.V_KIND] == ATOM
    block = atoms & (vertices[:, pb.V_RUN] > 0)
    vertices[block, pb.V_LEASE] = vertices[block, pb.V_RUN]
    vertices[block, pb.V_WORK] = vertices[block, pb.V_RUN] * vertices[block, pb.V_MOST]
    vertices[block, pb.V_RUN] = 0
    leases = vertices[atoms, pb.V_LEASE]
    vertices[atoms, pb.V_LEASE] = np.maximum(1, -(-leases // size) - 2 if size > 1 else leases)
    vertices[atoms, pb.V_MOST] *= size


def _shifts(forest: Forest, vertices: I64, size: int) -> I64:
    """Return the offsets in buckets; occurrences that move by parts of a bucket cost nothing."""
    whole = forest.shifts % size == 0
    before = np.concatenate([[0], np.cumsum(whole)])
    begin, end = vertices[:, pb.V_SHIFT], vertices[:, pb.V_SHIFT] + vertices[:, pb.V_SHIFTS]
    vertices[:, pb.V_SHIFT], vertices[:, pb.V_SHIFTS] = before[begin], before[end] - before[begin]
    return np.asarray(forest.shifts[whole] // size, dtype=np.int64)


def _caps(forest: Forest, vertices: I64, size: int) -> I64:
    """Return what each atom that is held back may hold in each bucket of its window."""
    kept: list[I64] = []
    at = 0
    for v in np.flatnonzero(vertices[:, pb.V_BLOCKED] >= 0).tolist():
        row = forest.vertices[v]
        start, end, first = int(row[pb.V_START]), int(row[pb.V_END]), int(row[pb.V_BLOCKED])
        marks = np.arange(start // size * size, end, size) - start
        own = np.add.reduceat(forest.caps[first : first + end - start], np.maximum(0, marks))
        vertices[v, pb.V_BLOCKED] = at
        kept.append(own)
        at += len(own)
    return np.concatenate([np.zeros(0, dtype=np.int64), *kept])
