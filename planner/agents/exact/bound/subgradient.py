"""Subgradient ascent of the Lagrangian bound: one dynamic programme a request, two starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from planner.agents.exact.kernels import bound as kernels
from planner.agents.exact.kernels.pricing_space import LINES, Space
from planner.agents.exact.problem import (
    F64,
    V_DEMAND,
    V_END,
    V_KIND,
    V_MULTIPLE,
    V_SHIFTS,
    V_START,
    V_WORK,
    PlanningProblem,
)
from rdl.work_graph import ATOM

#: Prices are constant on buckets of a share of the horizon, then on ever smaller ones.
BUCKETS = (24, 144, 0)

#: What rounding of a bound's own sum may lose; added to it, so that it stays a bound.
ROUNDING = 1e-9

_PATIENCE = 20

#: Factor of Polyak's step to begin with, and at prices that are nearly the best already: where a
#: whole step leads away from them, a short one finds what is left to gain, or that nothing is.
STEP = 1.0
SHORT_STEP = 1 / 32


def pricing_scratch(problem: PlanningProblem) -> Space:
    """Return scratch for one thread."""
    forest, room = problem.forest, problem.room
    widths = np.maximum(0, forest.vertices[:, V_END] - forest.vertices[:, V_START]) + 1
    ends = np.cumsum(widths)
    starts = np.concatenate([[0], ends])[forest.first[:-1]]
    sizes = np.concatenate([[0], ends])[forest.first[1:]] - starts
    cell = ends - widths - np.repeat(starts, np.diff(forest.first))
    most = int(sizes.max(initial=1))
    columns = room.free.shape[1]
    demands = len(room.demand_first) - 1
    return Space(
        cell=cell.astype(np.int64),
        cost=np.zeros(most),
        lease=np.zeros(most),
        asked=np.zeros(most),
        line=np.zeros((LINES, columns + 2)),
        prefix=np.zeros((demands, columns + 1)),
        use=np.zeros((len(room.free), columns + 1)),
        gains=np.zeros(len(forest.value)),
    )


@dataclass(slots=True)
class SubgradientAscent:
    """One search for good prices, from one start.

    Attributes
    ----------
    problem, space
        What is priced, and scratch of its own.
    buckets
        Numbers of columns on which prices stay equal, coarse to fine; each is left when its steps
        have become short.
    patience
        Evaluations without gain before the ascent goes back to its best prices.
    step
        `STEP`, or `SHORT_STEP` from prices that are good.
    """

    problem: PlanningProblem
    prices: F64
    buckets: Sequence[int]
    patience: int = _PATIENCE
    step: float = STEP
    space: Space = field(init=False)
    best: F64 = field(init=False)
    slope: F64 = field(init=False)
    state: F64 = field(init=False)
    level: int = 0
    evaluations: int = 0

    def __post_init__(self) -> None:
        """Take scratch; nothing is evaluated yet."""
        self.space = pricing_scratch(self.problem)
        self.best = self.prices.copy()
        self.slope = np.zeros_like(self.prices)
        self.state = np.zeros(kernels.STATE)
        self.state[kernels.BEST] = np.inf
        self.state[kernels.STEP] = self.step

    @property
    def bound(self) -> float:
        """Least bound seen, at most what everything is worth."""
        return min(self.problem.total, float(self.state[kernels.BEST]) * (1 + ROUNDING))

    @property
    def over(self) -> bool:
        """Whether steps have become too short to matter at the finest level."""
        return self.level >= len(self.buckets)

    def run(self, rounds: int, target: float) -> None:
        """Evaluate `rounds` more prices, stepping towards `target`, a value that was reached."""
        if self.over:
            return
        self.evaluations += kernels.descend(
            self.problem.forest,
            self.problem.room,
            self.space,
            kernels.Descent(self.prices, self.best, self.slope, self.state),
            kernels.Steps(rounds, target, max(1, self.buckets[self.level]), self.patience),
        )
        if self.state[kernels.STEP] < 0.02 or self.bound <= target:
            self.level += 1
            self.state[kernels.STEP] = self.step
            self.state[kernels.FAILURES] = 0
            self.prices[:] = self.best
            self.slope[:] = 0


def starts(problem: PlanningProblem) -> tuple[SubgradientAscent, SubgradientAscent]:
    """Return the two starts: a constant price at full resolution, and coarse to fine.

    Neither is safe alone: each has been seen to stay far above the other (docs/exact.md, 2).
    """
    columns = problem.room.free.shape[1]
    buckets = sorted({max(1, columns // part) if part else 1 for part in BUCKETS}, reverse=True)
    flat = np.zeros(problem.room.free.shape)
    flat += 0.7 * mean_prices(problem)[:, None]
    coarse = flat.copy()
    return SubgradientAscent(problem, flat, (1,)), SubgradientAscent(
        problem, coarse, tuple(buckets), patience=12
    )


def mean_prices(problem: PlanningProblem) -> F64:
    """Return float64[row]: what a row's whole capacity earns in one column on average.

    Value of all requests over the work they ask of the row, the rows sharing it.
    """
    room, vertices = problem.room, problem.forest.vertices
    atoms = vertices[vertices[:, V_KIND] == ATOM]
    work_share = np.zeros(len(room.free))
    for row in atoms:
        work = float(row[V_WORK] * row[V_MULTIPLE] * row[V_SHIFTS])
        for j in range(room.demand_first[row[V_DEMAND]], room.demand_first[row[V_DEMAND] + 1]):
            work_share[room.demand_rows[j]] += work * room.shares[j]
    prices = problem.total / np.maximum(work_share, 1e-12)
    return np.asarray(np.where(work_share > 0, prices, 0.0) / max(1, int((work_share > 0).sum())))
