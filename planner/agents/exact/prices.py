"""Prices that lower the Lagrangian bound: subgradient ascent and column generation.

Subgradient ascent steps towards the value of a known plan (Polyak). In column generation a master
program mixes placements found by the dynamic program, at most one in total per request (with many
requests: per group, with the group's total use), within capacity summed over buckets of columns;
its duals are prices. They oscillate, so the prices to evaluate are a mixture of the duals and the
best prices so far (in-out, after Wentges). The bound is the Lagrangian's at the prices tried, valid
independently of the master's result. The master's value, once no placement improves it, is the
lowest bound that any prices can reach.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

import planner.agents.exact.problem as pb
from lp.arrays import Sense
from lp.limits import Monitor, SolveLimits, WarmStart
from lp.model import Entries, LinearModel
from lp.result import Basis, SolveStatus
from lp.solver import solve
from planner.agents.exact.kernels import bound as kernels
from planner.agents.exact.kernels.bound import LINES, Space
from planner.agents.exact.problem import F64, I64, PlanningProblem
from rdl.work_graph import ATOM

#: Numbers of buckets with constant prices over the horizon, coarse to fine; 0 for single columns.
BUCKETS = (24, 144, 0)

#: Relative rounding error of a bound's sum, added so that it stays a valid bound.
ROUNDING = 1e-9

_PATIENCE = 20

#: Initial factor of Polyak's step.
_STEP = 1.0


def pricing_scratch(problem: PlanningProblem) -> Space:
    """Return scratch arrays for one thread."""
    forest, room = problem.forest, problem.room
    widths = np.maximum(0, forest.vertices[:, pb.V_END] - forest.vertices[:, pb.V_START]) + 1
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
    """A subgradient ascent from one start.

    Attributes
    ----------
    problem, space
        The problem, and its own scratch arrays.
    buckets
        Numbers of columns with equal prices, coarse to fine; a level ends when its steps have
        become short.
    patience
        Evaluations without gain before the ascent returns to its best prices.
    """

    problem: PlanningProblem
    prices: F64
    buckets: Sequence[int]
    patience: int = _PATIENCE
    space: Space = field(init=False)
    best: F64 = field(init=False)
    slope: F64 = field(init=False)
    state: F64 = field(init=False)
    level: int = 0
    evaluations: int = 0

    def __post_init__(self) -> None:
        """Allocate scratch; evaluate nothing yet."""
        self.space = pricing_scratch(self.problem)
        self.best = self.prices.copy()
        self.slope = np.zeros_like(self.prices)
        self.state = np.zeros(kernels.STATE)
        self.state[kernels.BEST] = np.inf
        self.state[kernels.STEP] = _STEP

    @property
    def bound(self) -> float:
        """Least bound so far, at most the total value."""
        return min(self.problem.total, float(self.state[kernels.BEST]) * (1 + ROUNDING))

    @property
    def over(self) -> bool:
        """Whether the steps at the finest level have become too short to matter."""
        return self.level >= len(self.buckets)

    def run(self, rounds: int, target: float) -> None:
        """Evaluate `rounds` more prices, stepping towards `target`, the value of a known plan."""
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
            self.state[kernels.STEP] = _STEP
            self.state[kernels.FAILURES] = 0
            self.prices[:] = self.best
            self.slope[:] = 0


def starts(problem: PlanningProblem) -> tuple[SubgradientAscent, SubgradientAscent]:
    """Return the two starts: a constant price at full resolution, and coarse to fine.

    Either can stay far above the other (docs/exact.md, 2), so both are used.
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
    """Return float64[row]: average value of a row's full capacity in one column.

    The value of all requests, divided among the rows, over the work that they request of the row.
    """
    room, vertices = problem.room, problem.forest.vertices
    atoms = vertices[vertices[:, pb.V_KIND] == ATOM]
    work_share = np.zeros(len(room.free))
    for row in atoms:
        work = float(row[pb.V_WORK] * row[pb.V_MULTIPLE] * row[pb.V_SHIFTS])
        for j in range(
            room.demand_first[row[pb.V_DEMAND]], room.demand_first[row[pb.V_DEMAND] + 1]
        ):
            work_share[room.demand_rows[j]] += work * room.shares[j]
    prices = problem.total / np.maximum(work_share, 1e-12)
    return np.asarray(np.where(work_share > 0, prices, 0.0) / max(1, int((work_share > 0).sum())))


#: Weight of the best prices in the mixture, lowered while the master gets no new columns.
SMOOTHING = 0.4

#: Columns per owner that the master keeps: those in use and the newest.
KEPT = 60

#: Solves of the master after which an unused column may be dropped.
_MOST_IDLE = 15

#: Number of newest columns that a new one is compared with.
_MOST_COMPARED = 400

#: Number of requests above which the master mixes placements of groups of requests, and the number
#: of groups: a row for each of ten thousand requests would take longer than all evaluations.
MOST_REQUESTS = 400
GROUPS = 40

_LEAST_SHARE = 1e-9

#: The last basis stays feasible when placements are added: primal simplex continues from it.
_PRIMAL: Mapping[str, str | int] = {"solver": "simplex", "simplex_strategy": 4}


@dataclass(slots=True)
class MasterColumn:
    """One column of the master program: a placement of one owner.

    Attributes
    ----------
    owner
        The request, or the group of requests, that it places.
    cells, shares
        int64[n], float64[n]: rows of the master that it uses, and its use of each.
    idle
        Solves of the master since it was last used.
    """

    owner: int
    worth: float
    cells: I64
    shares: F64
    idle: int = 0

    def places(self, other: MasterColumn) -> bool:
        """Return whether both columns are the same placement, up to rounding of shares."""
        return (
            self.worth == other.worth
            and np.array_equal(self.cells, other.cells)
            and np.allclose(self.shares, other.shares)
        )


@dataclass(slots=True)
class ColumnGeneration:
    """A master program and the placements that it mixes.

    Attributes
    ----------
    problem
        The problem to bound.
    prices
        float64[row, column]: initial prices.
    bucket
        Number of columns over which capacity is summed.
    columns
        Placements that the master mixes.
    value
        Value of the master's last mixture: approximately the limit of the bound when `over`.
    """

    problem: PlanningProblem
    prices: F64
    bucket: int
    monitor: Monitor = field(default_factory=Monitor)
    best: F64 = field(init=False)
    least: float = np.inf
    value: float = 0.0
    over: bool = False
    columns: list[MasterColumn] = field(default_factory=list)
    _smoothing: float = SMOOTHING
    _groups: I64 = field(init=False)
    _space: Space = field(init=False)
    _basis: Basis | None = None

    def __post_init__(self) -> None:
        """Allocate scratch."""
        self._space = pricing_scratch(self.problem)
        self._groups = _request_groups(self.problem)
        self.prices = self._bucket_prices(self.prices)
        self.best = self.prices.copy()

    @property
    def bound(self) -> float:
        """Least bound so far, at most the total value."""
        return min(self.problem.total, self.least * (1 + ROUNDING))

    def _bucket_prices(self, prices: F64) -> F64:
        rows, columns = prices.shape
        marks = np.arange(0, columns, self.bucket)
        sums = np.add.reduceat(prices, marks, axis=1)
        lengths = np.diff(np.append(marks, columns))
        return np.repeat(sums / lengths, lengths, axis=1).reshape(rows, columns)

    def round(self, near: float) -> None:
        """Price once, then solve the master once; set `over` if it can gain less than `near`."""
        if self.over:
            return
        improved, added = self.price()
        duals = self._solve_master()
        if duals is None:
            self.over = True
            return
        self.over = self.least - self.value <= near
        if added == 0 and not improved:
            self._smoothing = max(0.0, self._smoothing - 0.2)
        elif improved:
            self._smoothing = min(SMOOTHING, self._smoothing + 0.05)
        self.prices = self._smoothing * self.best + (1 - self._smoothing) * duals

    def price(self) -> tuple[bool, int]:
        """Evaluate the next prices and keep the placements; return (better bound, new columns)."""
        prices = self.prices
        requests, rows = len(self.problem.requests), len(prices)
        buckets = -(-prices.shape[1] // self.bucket)
        optima = kernels.Optima(
            self.bucket, np.zeros((requests, rows, buckets)), np.zeros(requests)
        )
        bound = kernels.columns(self.problem.forest, self.problem.room, self._space, prices, optima)
        use, worth = self._by_owner(optima.use.reshape(requests, -1), optima.worth)
        added = sum(
            self._add_column(owner, float(worth[owner]), use[owner])
            for owner in np.flatnonzero(worth > 0).tolist()
        )
        if bound < self.least:
            self.least = bound
            self.best = prices.copy()
            return True, added
        return False, added

    def _by_owner(self, use: F64, worth: F64) -> tuple[F64, F64]:
        """Return use and worth of each owner: a request, or a group of them."""
        owners = self._owners
        if owners == len(worth):
            return use, worth
        sums = np.zeros((owners, use.shape[1]))
        np.add.at(sums, self._groups, use)
        return sums, np.asarray(np.bincount(self._groups, worth, owners), dtype=np.float64)

    def _add_column(self, owner: int, worth: float, use: F64) -> int:
        """Add a placement unless it exists already; return the number added, 0 or 1."""
        cells = np.flatnonzero(use > _LEAST_SHARE)
        column = MasterColumn(owner, worth, cells, use[cells])
        newest = self.columns[-_MOST_COMPARED:]
        if any(other.owner == owner and other.places(column) for other in newest):
            return 0
        self.columns.append(column)
        return 1

    @property
    def _owners(self) -> int:
        return int(self._groups.max()) + 1

    def _solve_master(self) -> F64 | None:
        """Mix placements for the most value; return prices, or None if the solver fails."""
        if not self.columns:  # no placement has had a gain yet: an empty mixture, prices 0
            return np.zeros_like(self.prices)
        rows, steps = self.problem.room.capacity.shape
        scale = 1000.0 / max(self.problem.total, 1e-300)  # scales the total value for the solver
        limits = SolveLimits(threads=1, options=_PRIMAL)
        start = WarmStart(basis=self._extended_basis())
        answer = solve(self._model(scale), limits, start=start, monitor=self.monitor)
        if answer.status is not SolveStatus.OPTIMAL:
            return None
        # Remove the keep bonus: it is no value, it only makes the mixture place required requests
        # fully.
        self.value = answer.objective / scale - float(self.problem.forest.keep.sum())
        self._basis = answer.basis
        self._drop_idle(answer.values)
        duals = np.maximum(0.0, answer.duals("room").reshape(rows, -1)) / scale
        marks = np.arange(0, steps, self.bucket)
        return np.repeat(duals, np.diff(np.append(marks, steps)), axis=1)

    def _model(self, scale: float) -> LinearModel:
        """Return the master: shares of columns, at most one in total per owner, within capacity."""
        capacity = self.problem.room.capacity
        marks = np.arange(0, capacity.shape[1], self.bucket)
        room = np.add.reduceat(capacity, marks, axis=1).reshape(-1)
        count = len(self.columns)
        worth = np.array([column.worth for column in self.columns])
        owner = np.array([column.owner for column in self.columns])
        lengths = np.array([len(column.cells) for column in self.columns])
        model = LinearModel("columns", Sense.MAXIMISE)
        block = model.add_block("share", count, cost=worth * scale)
        once = Entries(owner, block.indices, np.ones(count))
        model.add_rows("once", self._owners, once, upper=1.0)
        entries = Entries(
            np.concatenate([column.cells for column in self.columns]),
            np.repeat(block.indices, lengths),
            np.concatenate([column.shares for column in self.columns]),
        )
        model.add_rows("room", len(room), entries, upper=room)
        return model

    def _extended_basis(self) -> Basis | None:
        """Return the last basis with the new columns nonbasic."""
        if self._basis is None:
            return None
        new = len(self.columns) - len(self._basis.columns)
        columns = np.concatenate([self._basis.columns, np.zeros(new, dtype=np.int8)])
        return Basis(columns, self._basis.rows)

    def _drop_idle(self, values: F64) -> None:
        """Drop columns that the master has not used for `_MOST_IDLE` solves."""
        for column, value in zip(self.columns, values.tolist(), strict=True):
            column.idle = 0 if value > 0 else column.idle + 1
        if len(self.columns) <= KEPT * self._owners:
            return
        keep = [i for i, column in enumerate(self.columns) if column.idle < _MOST_IDLE]
        self.columns = [self.columns[i] for i in keep]
        if self._basis is not None:
            self._basis = Basis(self._basis.columns[keep], self._basis.rows)


def _request_groups(problem: PlanningProblem) -> I64:
    """Return int64[request]: its owner; with many requests, a group of requests near in time."""
    requests = len(problem.requests)
    if requests <= MOST_REQUESTS:
        return np.arange(requests, dtype=np.int64)
    roots = problem.forest.vertices[problem.forest.first[1:] - 1]
    groups = np.empty(requests, dtype=np.int64)
    order = np.argsort(roots[:, pb.V_START] + roots[:, pb.V_END], kind="stable")
    groups[order] = np.arange(requests) * GROUPS // requests
    return groups
