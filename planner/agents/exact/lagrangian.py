"""The Lagrangian bound: column generation or subgradient ascent.

On workflows and mixes column generation comes within one per cent in a dozen rounds, while
subgradient steps do not improve on the bound of an idle cluster. For a thousand single atoms
subgradient steps come close within a second.

If one evaluation takes a large fraction of a second, prices of buckets of columns come first
(`coarsen`). The cost at prices that are constant over a bucket depends only on how much of the
bucket a placement uses. So placements are relaxed to that use and rounded outward: the minimum cost
of a request is never above its minimum cost on fine columns. A block that starts and ends inside
buckets is a mixture of blocks of whole buckets, each at most two shorter than the buckets that its
length fills: (a, k, .., k, c) with a <= c is a times all of them, c - a times all but the first,
and k - c times all but both ends. So a lease becomes that much shorter, and work that starts inside
a bucket may follow work that ends in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

import planner.agents.exact.problem as pb
from lp.limits import Monitor
from planner.agents.exact.prices import (
    MOST_REQUESTS,
    ColumnGeneration,
    SubgradientAscent,
    mean_prices,
    starts,
)
from planner.agents.exact.problem import F64, I64, Forest, FreeRoom, PlanningProblem
from rdl.work_graph import ATOM

_LEAST_GAP = 1  # column of `Forest.preds`


@dataclass(frozen=True, slots=True)
class CoarseProblem:
    """A problem on buckets of columns.

    Attributes
    ----------
    problem
        At any prices its bound is valid for the fine problem.
    size
        Fine columns per bucket; the last bucket may have fewer.
    columns
        Number of fine columns.
    """

    problem: PlanningProblem
    size: int
    columns: int

    def mean(self, prices: F64) -> F64:
        """Return float64[row, bucket]: mean prices over the fine columns."""
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
    # Pricing uses `_caps`, not these fit caps; a relaxation that used them would need their
    # maximum.
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
    """Shorten leases, raise heights to bucket sums; a block is one long lease."""
    atoms = vertices[:, pb.V_KIND] == ATOM
    block = atoms & (vertices[:, pb.V_RUN] > 0)
    vertices[block, pb.V_LEASE] = vertices[block, pb.V_RUN]
    vertices[block, pb.V_WORK] = vertices[block, pb.V_RUN] * vertices[block, pb.V_MOST]
    vertices[block, pb.V_RUN] = 0
    leases = vertices[atoms, pb.V_LEASE]
    vertices[atoms, pb.V_LEASE] = np.maximum(1, -(-leases // size) - 2 if size > 1 else leases)
    vertices[atoms, pb.V_MOST] *= size


def _shifts(forest: Forest, vertices: I64, size: int) -> I64:
    """Return the offsets in buckets; occurrences moved by a fraction of a bucket cost nothing."""
    whole = forest.shifts % size == 0
    before = np.concatenate([[0], np.cumsum(whole)])
    begin, end = vertices[:, pb.V_SHIFT], vertices[:, pb.V_SHIFT] + vertices[:, pb.V_SHIFTS]
    vertices[:, pb.V_SHIFT], vertices[:, pb.V_SHIFTS] = before[begin], before[end] - before[begin]
    return np.asarray(forest.shifts[whole] // size, dtype=np.int64)


def _caps(forest: Forest, vertices: I64, size: int) -> I64:
    """Return the caps per bucket of the atoms that have caps of their own."""
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


#: Numbers of buckets of the master program over the horizon, coarse to fine.
PARTS = (30, 120)

#: A master program ends when it can lower the bound by less than this fraction of the total value.
SMALL_GAIN = 3e-4

#: The same for expensive evaluations; finer buckets cost more than they gain.
COSTLY_PARTS = (30, 60)

#: Seconds above which an evaluation counts as expensive.
COSTLY_S = 0.15

#: Approximate seconds for one column of one vertex, forward and backward (1.7e-7 to 1.9e-7 of
#: processor time on mixes, workflows and malleable atoms), and for one lease that ends there: for
#: every column of a malleable atom, leases of all lengths from l to 2 l - 1 are evaluated.
_COLUMN_S = 1.9e-7
_LEASE_S = 1e-9

#: Evaluations without gain before an ascent on fine columns returns to its best prices, per ascent.
_PATIENCE = (30, 60)


class _GenerationStage(NamedTuple):
    """One column generation: columns per bucket of the problem, and of the master program."""

    size: int
    bucket: int


@dataclass(slots=True)
class LagrangianBound:
    """The bound of one problem, lowered slice by slice.

    Attributes
    ----------
    stop
        Polled to stop the solve of a master program.
    fine
        False if an evaluation on all columns would take too long: only buckets are priced.
    """

    problem: PlanningProblem
    stop: Callable[[], bool] = field(default=lambda: False)
    fine: bool = True
    proof: str = "prices"
    over: bool = False
    _ascents: list[SubgradientAscent] = field(default_factory=list)
    _generation: ColumnGeneration | None = None
    _coarse: CoarseProblem | None = None
    _stages: list[_GenerationStage] = field(init=False)
    _evaluation_s: float = field(init=False)
    _patience: list[int] = field(default_factory=lambda: list(_PATIENCE))
    _best: F64 | None = None
    _bound: float = float("inf")

    def __post_init__(self) -> None:
        """Set up the first column generation; for many cheap requests both starts of an ascent."""
        columns = self.problem.room.free.shape[1]
        self._stages = []
        self._evaluation_s = evaluation_s(self.problem)
        if len(self.problem.requests) <= MOST_REQUESTS and self.fine:
            self._stages = [_GenerationStage(1, bucket) for bucket in _buckets(columns, PARTS)]
        if not self.fine or self._evaluation_s > COSTLY_S:
            wide = [_GenerationStage(size, 1) for size in _buckets(columns, COSTLY_PARTS)]
            self._stages = wide + self._stages
        if self._stages:
            self._next_stage()
        else:
            self._ascents = list(starts(self.problem))
        if not self.fine:
            self._patience = []

    @property
    def bound(self) -> float:
        """Lowest bound so far."""
        return min(self.problem.total, self._bound)

    @property
    def best(self) -> F64 | None:
        """Prices of the lowest bound; None before the first."""
        return self._best

    @property
    def size(self) -> int:
        """Columns per bucket of the next evaluation; 1 for single columns."""
        return 1 if self._generation is None or self._coarse is None else self._coarse.size

    @property
    def predicted_s(self) -> float:
        """Approximate seconds of the next evaluation."""
        return self._evaluation_s / self.size

    def advance(self, rounds: int, target: float) -> None:
        """Spend about `rounds` evaluations on the current method.

        Parameters
        ----------
        target
            Value of a known plan; no bound can fall below it.
        """
        if self._generation is not None:
            self._run_generation()
        elif any(not one.over for one in self._ascents):
            self._run_ascents(rounds, target)
        elif self._patience and self._best is not None:
            patience, prices = self._patience.pop(0), self._best.copy()
            self._ascents = [SubgradientAscent(self.problem, prices, (1,), patience)]
        else:
            self.over = True

    def _run_ascents(self, rounds: int, target: float) -> None:
        for one in self._ascents:
            if not one.over and not self.stop():
                one.run(rounds, target)
                self._record(one.bound, one.best, "prices")

    def _next_stage(self) -> None:
        stage = self._stages.pop(0)
        problem, prices = self.problem, self._best
        self._coarse = coarsen(problem, stage.size) if stage.size > 1 else None
        if prices is None:
            prices = 0.7 * mean_prices(problem)[:, None] + 0.0 * problem.room.capacity
        if self._coarse is not None:
            problem, prices = self._coarse.problem, self._coarse.mean(prices)
        self._generation = ColumnGeneration(
            problem, prices, stage.bucket, Monitor(should_stop=self.stop)
        )

    def _run_generation(self) -> None:
        generation = self._generation
        assert generation is not None
        generation.round(SMALL_GAIN * self.problem.total)
        best = generation.best if self._coarse is None else self._coarse.fine(generation.best)
        self._record(generation.bound, best, "columns")
        if not generation.over:
            return
        self._generation = None
        if self._stages:
            self._next_stage()
        elif self._coarse is None:
            self._patience = []  # steps on fine columns would gain nothing

    def _record(self, bound: float, prices: F64, proof: str) -> None:
        if bound < self._bound:
            self._bound, self._best, self.proof = bound, prices, proof


def _buckets(columns: int, parts: Sequence[int]) -> list[int]:
    """Return numbers of columns, in descending order."""
    return sorted({max(1, columns // part) for part in parts}, reverse=True)


def evaluation_s(problem: PlanningProblem) -> float:
    """Estimate the seconds for evaluating the bound at one set of prices.

    The clock cannot interrupt an evaluation, so if it takes a large fraction of a time limit, that
    limit cannot be kept.
    """
    vertices = problem.forest.vertices
    widths = (vertices[:, pb.V_END] - vertices[:, pb.V_START]).clip(0)
    bends = (vertices[:, pb.V_KIND] == ATOM) & (vertices[:, pb.V_RUN] == 0)
    return float(
        _COLUMN_S * widths.sum() + _LEASE_S * (widths * vertices[:, pb.V_LEASE])[bends].sum()
    )
