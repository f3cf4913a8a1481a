"""The bound by Lagrangian decomposition, for sets of blocks: lower than that of prices.

Prices let what is free at a step be filled by parts of requests. Here who runs at a step is chosen
whole, by a knapsack, and so is each request's placement; multipliers, one for each request and
bucket of steps, bring the two together. They begin at what prices charge.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

import planner.agents.exact.problem as pb
from planner.agents.exact.bound.subgradient import ROUNDING
from planner.agents.exact.decomposition import kernels
from planner.agents.exact.decomposition.blocks import (
    are_single_blocks,
    block_needs,
    start_flags,
)
from planner.agents.exact.problem import F64, I64, PlanningProblem

#: Buckets of steps, as parts of the horizon, coarse to fine.
PARTS = (60, 120, 240)

#: What the first steps of the first and of later descents hope for, and at which hope each ends, as
#: parts of all that is asked: fine buckets gain more a second than the last steps on coarse ones.
HOPES = (1e-2, 2e-3)
SMALL = (3e-4, 3e-4, 5e-5)

#: Units of a row in which heights are counted; above it they are rounded down to longer ones.
MOST_UNITS = 4096

#: Places in knapsack tables of one evaluation: about 0.05 s of the processor.
MOST_PLACES = 80_000_000


def suits_decomposition(problem: PlanningProblem) -> bool:
    """Return whether every request is one block, and one evaluation takes a moment."""
    if not are_single_blocks(problem):
        return False
    vertices = problem.forest.vertices
    columns = problem.room.free.shape[1]
    meets = float((vertices[:, pb.V_END] - vertices[:, pb.V_START]).clip(0).sum()) / columns
    units = [int(free.max(initial=0)) for free in _in_units(problem)[1]]
    return bool(
        vertices[:, pb.V_SOUND].any() and PARTS[-1] * (meets + 1) * sum(units) <= MOST_PLACES
    )


@dataclass(slots=True)
class DecompositionBound:
    """Multipliers of one problem (`suits_decomposition`), lowered slice by slice.

    Attributes
    ----------
    prices
        float64[row, column], at least 0: where multipliers begin.
    over
        Whether nothing more can be gained.
    """

    problem: PlanningProblem
    prices: F64
    proof: str = "decomposition"
    over: bool = False
    least: float = np.inf
    _blocks: kernels.BlockSet = field(init=False)
    _free: I64 = field(init=False)
    _buckets: kernels.StepBuckets = field(init=False)
    _space: kernels.KnapsackSpace = field(init=False)
    _descent: kernels.MultiplierDescent = field(init=False)
    _level: int = 0

    def __post_init__(self) -> None:
        """Lay out the blocks and the coarsest multipliers."""
        forest, room = self.problem.forest, self.problem.room
        sound = np.flatnonzero(forest.vertices[:, pb.V_SOUND])
        rows = forest.vertices[sound]
        need, self._free = _in_units(self.problem)
        self._blocks = kernels.BlockSet(
            start=rows[:, pb.V_START].copy(), end=rows[:, pb.V_END].copy(),
            length=rows[:, pb.V_RUN].copy(), fits=start_flags(self.problem, rows),
            worth=forest.value[sound], kept=(forest.keep[sound] > 0).astype(np.int64),
            need=np.ascontiguousarray(need[:, sound]),
        )  # fmt: skip
        shares = block_needs(self.problem)[:, sound] / room.scale[:, None]
        self._lay_out(shares.T @ self.prices)

    def _lay_out(self, charges: F64) -> None:
        """Begin a descent at float64[request, column], on the buckets of the present level."""
        columns = self._free.shape[1]
        marks = _marks(self._free, PARTS[self._level])
        self._buckets = kernels.StepBuckets(
            marks, np.repeat(np.arange(len(marks) - 1), np.diff(marks)),
            np.maximum.reduceat(self._free, marks[:-1], axis=1),
        )  # fmt: skip
        blocks, at = self._blocks, np.arange(columns)
        self._space = _scratch(blocks, self._free, marks)
        inside = (at >= blocks.start[:, None]) & (at < blocks.end[:, None])
        counts = np.add.reduceat(inside.astype(np.int64), marks[:-1], axis=1)
        sums = np.add.reduceat(charges * inside, marks[:-1], axis=1)
        multipliers = sums / np.maximum(counts, 1)
        state = np.zeros(kernels.STATE)
        state[kernels.BEST] = np.inf
        state[kernels.DELTA] = HOPES[min(self._level, 1)] * self.problem.total
        rates = np.maximum(blocks.worth / np.maximum(blocks.length, 1), 1e-300)
        self._descent = kernels.MultiplierDescent(
            multipliers, multipliers.copy(), np.zeros_like(multipliers),
            np.zeros_like(multipliers), rates / max(rates.mean(), 1e-300), state,
        )  # fmt: skip

    @property
    def bound(self) -> float:
        """Least bound seen, at most what everything is worth."""
        return min(self.problem.total, self.least * (1 + ROUNDING))

    def advance(self, rounds: int, target: float) -> None:
        """Evaluate `rounds` times.

        Parameters
        ----------
        target
            Value of a plan in hand; no bound can fall below it.
        """
        if self.over:
            return
        aim = kernels.DescentAim(target, SMALL[self._level] * self.problem.total)
        settled = kernels.descend(
            self._blocks, self._space, self._buckets, self._descent, rounds, aim
        )
        self.least = min(self.least, float(self._descent.state[kernels.BEST]))
        if settled:
            self._refine()

    def _refine(self) -> None:
        """Go on with shorter buckets, from the best multipliers."""
        self._level += 1
        self.over = self._level == len(PARTS)
        if not self.over:
            self._lay_out(self._descent.best[:, self._buckets.of_column])


def _in_units(problem: PlanningProblem) -> tuple[I64, I64]:
    """Return what blocks need and what is free, both int64 by row, in units of each row.

    A unit divides all of a row's amounts, or is so long that a row has `MOST_UNITS`. Then all is
    rounded down: what fits still fits.
    """
    need, free = block_needs(problem), problem.room.free
    most = free.max(axis=1, initial=0)
    units = np.gcd(np.gcd.reduce(need, axis=1), np.gcd.reduce(free, axis=1)).clip(1)
    units = np.where(most // units > MOST_UNITS, -(-most // MOST_UNITS), units)[:, None]
    return _with_sum(need // units, np.ascontiguousarray(free // units))


def _with_sum(need: I64, free: I64) -> tuple[I64, I64]:
    """Add the sum of several rows, each about as long as the longest, where it is short enough.

    It is implied by them, and tells a search sooner that sets do not fit.
    """
    most = free.max(axis=1, initial=0).clip(1)
    factors = (most.max() // most)[:, None]
    if len(free) < 2 or int((most * factors[:, 0]).sum()) > MOST_UNITS:
        return need, free
    sums = [np.vstack([one, (one * factors).sum(axis=0)]) for one in (need, free)]
    return sums[0], sums[1]


def _marks(free: I64, parts: int) -> I64:
    """Return where buckets begin, and the end: parts of one size, cut where what is free changes.

    Where it changes at more columns than there are parts, a bucket has the most of its columns.
    """
    columns = free.shape[1]
    marks = np.arange(0, columns, max(1, columns // parts))
    edges = np.flatnonzero((np.diff(free, axis=1) != 0).any(axis=0)) + 1
    if len(edges) <= parts:
        marks = np.union1d(marks, edges)
    return np.append(marks, columns).astype(np.int64)


def _scratch(blocks: kernels.BlockSet, free: I64, marks: I64) -> kernels.KnapsackSpace:
    """Return scratch for one thread, for as many items as a bucket has windows that meet it."""
    rows, columns = free.shape
    requests = len(blocks.start)
    meets = (blocks.start[:, None] < marks[1:]) & (blocks.end[:, None] > marks[:-1])
    items = int(meets.sum(axis=0).max())
    return kernels.KnapsackSpace(
        most=np.zeros((rows, items + 1, int(free.max(initial=0)) + 1)),
        item=np.zeros((kernels.ITEM_ROWS, requests), dtype=np.int64),
        amount=np.zeros((rows, requests), dtype=np.int64),
        charge=np.zeros(requests),
        key=np.zeros(requests),
        left=np.zeros(rows, dtype=np.int64),
        prefix=np.zeros(columns + 1),
    )
