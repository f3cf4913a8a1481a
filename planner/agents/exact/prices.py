"""Prices that lower the Lagrangian bound: subgradient ascent and column generation.

Subgradient ascent steps towards a value that was reached (Polyak). In column generation a master
programme mixes placements that the dynamic programme has found, at most one whole placement a
request (of many requests: one of what a group of them takes together), within capacity summed over
buckets of columns; its duals are prices. They jump about, so what is priced is a mixture of them
and of the best prices so far (in-out, after Wentges). The bound is the Lagrangian's at the prices
that were tried, valid whatever the master says. The master's own value, once no placement improves
it, is the limit that no prices can pass.
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

#: Prices are constant on buckets of a share of the horizon, then on ever smaller ones.
BUCKETS = (24, 144, 0)

#: What rounding of a bound's own sum may lose; added to it, so that it stays a bound.
ROUNDING = 1e-9

_PATIENCE = 20

#: Factor of Polyak's step to begin with.
_STEP = 1.0


def pricing_scratch(problem: PlanningProblem) -> Space:
    """Return scratch for one thread."""
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
        """Take scratch; nothing is evaluated yet."""
        self.space = pricing_scratch(self.problem)
        self.best = self.prices.copy()
        self.slope = np.zeros_like(self.prices)
        self.state = np.zeros(kernels.STATE)
        self.state[kernels.BEST] = np.inf
        self.state[kernels.STEP] = _STEP

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
            self.state[kernels.STEP] = _STEP
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


#: Part of the best prices in what is priced, lowered while the master learns nothing.
SMOOTHING = 0.4

#: Columns of one owner that the master keeps, those it uses and the newest.
KEPT = 60

#: Solves of the master after which a column that it has not used may go.
_MOST_IDLE = 15

#: Newest columns that a new one is compared with.
_MOST_COMPARED = 400

#: Requests above which the master mixes what groups of them take together, and how many groups:
#: a row for each of ten thousand requests would take longer than all evaluations.
MOST_REQUESTS = 400
GROUPS = 40

_LEAST_SHARE = 1e-9

#: The last basis stays feasible when placements are added: primal simplex continues from it.
_PRIMAL: Mapping[str, str | int] = {"solver": "simplex", "simplex_strategy": 4}


@dataclass(slots=True)
class MasterColumn:
    """One column of the master programme: a placement of one owner.

    Attributes
    ----------
    owner
        The request, or the group of requests, that it places.
    cells, shares
        int64[n], float64[n]: rows of the master that it uses, and what it takes of each.
    idle
        Solves of the master since it was last used.
    """

    owner: int
    worth: float
    cells: I64
    shares: F64
    idle: int = 0

    def places(self, other: MasterColumn) -> bool:
        """Return whether it is the placement of another column, up to rounding of shares."""
        return (
            self.worth == other.worth
            and np.array_equal(self.cells, other.cells)
            and np.allclose(self.shares, other.shares)
        )


@dataclass(slots=True)
class ColumnGeneration:
    """One master programme and the placements that it mixes.

    Attributes
    ----------
    problem
        What is priced.
    prices
        float64[row, column] to begin with.
    bucket
        Columns over which capacity is summed.
    columns
        Placements that the master mixes.
    value
        Of the master's last mixture: about the limit of the bound when `over`.
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
        """Take scratch."""
        self._space = pricing_scratch(self.problem)
        self._groups = _request_groups(self.problem)
        self.prices = self._bucket_prices(self.prices)
        self.best = self.prices.copy()

    @property
    def bound(self) -> float:
        """Least bound seen, at most what everything is worth."""
        return min(self.problem.total, self.least * (1 + ROUNDING))

    def _bucket_prices(self, prices: F64) -> F64:
        rows, columns = prices.shape
        marks = np.arange(0, columns, self.bucket)
        sums = np.add.reduceat(prices, marks, axis=1)
        lengths = np.diff(np.append(marks, columns))
        return np.repeat(sums / lengths, lengths, axis=1).reshape(rows, columns)

    def round(self, near: float) -> None:
        """Price once, then solve the master once; `over` when it can gain less than `near`."""
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
        """Evaluate the bound at the next prices, keep the placements; (better bound, new ones)."""
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
        """Add a placement unless it is there already; return how many were added."""
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
        if not self.columns:  # nothing has paid yet: an empty mixture, at no price
            return np.zeros_like(self.prices)
        rows, steps = self.problem.room.capacity.shape
        scale = 1000.0 / max(self.problem.total, 1e-300)  # of all that is asked, for the solver
        limits = SolveLimits(threads=1, options=_PRIMAL)
        start = WarmStart(basis=self._extended_basis())
        answer = solve(self._model(scale), limits, start=start, monitor=self.monitor)
        if answer.status is not SolveStatus.OPTIMAL:
            return None
        # What keeping counts for is not worth anything: it only makes the mixture hold them whole.
        self.value = answer.objective / scale - float(self.problem.forest.keep.sum())
        self._basis = answer.basis
        self._drop_idle(answer.values)
        duals = np.maximum(0.0, answer.duals("room").reshape(rows, -1)) / scale
        marks = np.arange(0, steps, self.bucket)
        return np.repeat(duals, np.diff(np.append(marks, steps)), axis=1)

    def _model(self, scale: float) -> LinearModel:
        """Return the master: shares of columns, at most one in all for each owner, within room."""
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
        """Return the last basis, the new columns not in it."""
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
    """Return int64[request]: itself, or of many requests the group of those near it in time."""
    requests = len(problem.requests)
    if requests <= MOST_REQUESTS:
        return np.arange(requests, dtype=np.int64)
    roots = problem.forest.vertices[problem.forest.first[1:] - 1]
    groups = np.empty(requests, dtype=np.int64)
    order = np.argsort(roots[:, pb.V_START] + roots[:, pb.V_END], kind="stable")
    groups[order] = np.arange(requests) * GROUPS // requests
    return groups
