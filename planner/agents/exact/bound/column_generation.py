"""Column generation with smoothing: the bound where steps along a subgradient stall.

The master programme mixes placements that the dynamic programme has found, at most one whole
placement a request (of many requests: one of what a group of them takes together), within capacity
summed over buckets of columns; its duals are prices. They jump about, so what is priced is a
mixture of them and of the best prices so far (in-out, after Wentges). The bound is the Lagrangian's
at the prices that were tried: valid whatever the master says, whose own value, once no placement
improves it, is the limit that no prices can pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from lp.arrays import Sense
from lp.limits import Monitor, SolveLimits, WarmStart
from lp.model import Entries, LinearModel
from lp.result import Basis, SolveStatus
from lp.solver import solve
from planner.agents.exact.bound.subgradient import ROUNDING, pricing_scratch
from planner.agents.exact.kernels.bound import Optima, columns
from planner.agents.exact.kernels.pricing_space import Space
from planner.agents.exact.problem import F64, I64, V_END, V_START, PlanningProblem

#: Part of the best prices in what is priced, lowered while the master learns nothing.
SMOOTHING = 0.4

#: Columns of one owner that the master keeps, those it uses and the newest.
KEPT = 60

#: Requests above which the master mixes what groups of them take together, and how many groups:
#: a row for each of ten thousand requests would take longer than all evaluations.
MOST_REQUESTS = 400
GROUPS = 40

_LEAST_SHARE = 1e-9

#: The last basis stays feasible when placements are added: primal simplex goes on from it.
_PRIMAL: Mapping[str, str | int] = {"solver": "simplex", "simplex_strategy": 4}


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
    _smoothing: float = SMOOTHING
    _groups: I64 = field(init=False)
    _space: Space = field(init=False)
    _owner: list[int] = field(default_factory=list)
    _worth: list[float] = field(default_factory=list)
    _cells: list[I64] = field(default_factory=list)
    _shares: list[F64] = field(default_factory=list)
    _idle: list[int] = field(default_factory=list)
    _basis: Basis | None = None

    def __post_init__(self) -> None:
        """Take scratch."""
        self._space = pricing_scratch(self.problem)
        self._groups = _request_groups(self.problem)
        self.prices = self._bucketed(self.prices)
        self.best = self.prices.copy()

    @property
    def bound(self) -> float:
        """Least bound seen, at most what everything is worth."""
        return min(self.problem.total, self.least * (1 + ROUNDING))

    def _bucketed(self, prices: F64) -> F64:
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
        duals = self._master()
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
        optima = Optima(self.bucket, np.zeros((requests, rows, buckets)), np.zeros(requests))
        bound = columns(self.problem.forest, self.problem.room, self._space, prices, optima)
        use, worth = self._together(optima.use.reshape(requests, -1), optima.worth)
        added = 0
        for owner in np.flatnonzero(worth > 0).tolist():
            added += self._keep(owner, float(worth[owner]), use[owner])
        if bound < self.least:
            self.least = bound
            self.best = prices.copy()
            return True, added
        return False, added

    def _together(self, use: F64, worth: F64) -> tuple[F64, F64]:
        """Return use and worth of each owner: a request, or a group of them."""
        owners = int(self._groups.max()) + 1
        if owners == len(worth):
            return use, worth
        sums = np.zeros((owners, use.shape[1]))
        np.add.at(sums, self._groups, use)
        return sums, np.asarray(np.bincount(self._groups, worth, owners), dtype=np.float64)

    def _keep(self, owner: int, worth: float, use: F64) -> int:
        cells = np.flatnonzero(use > _LEAST_SHARE)
        shares = use[cells]
        for index in range(len(self._owner) - 1, max(-1, len(self._owner) - 400), -1):
            if (
                self._owner[index] == owner
                and self._worth[index] == worth
                and np.array_equal(self._cells[index], cells)
                and np.allclose(self._shares[index], shares)
            ):
                return 0
        self._owner.append(owner)
        self._worth.append(worth)
        self._cells.append(cells)
        self._shares.append(shares)
        self._idle.append(0)
        return 1

    def _master(self) -> F64 | None:
        """Mix placements for the most value; return prices, or None where the solver fails."""
        owners = int(self._groups.max()) + 1
        capacity = self.problem.room.capacity
        rows, steps = capacity.shape
        marks = np.arange(0, steps, self.bucket)
        room = np.add.reduceat(capacity, marks, axis=1).reshape(-1)
        count = len(self._owner)
        if not count:  # nothing has paid yet: an empty mixture, at no price
            return np.zeros_like(self.prices)
        model = LinearModel("columns", Sense.MAXIMISE)
        scale = 1000.0 / max(self.problem.total, 1e-300)  # of all that is asked, for the solver
        block = model.add_block("share", count, cost=np.array(self._worth) * scale)
        model.add_rows(
            "once",
            owners,
            Entries(np.array(self._owner), block.indices, np.ones(count)),
            upper=1.0,
        )
        lengths = np.array([len(cells) for cells in self._cells])
        entries = Entries(
            np.concatenate(self._cells), np.repeat(block.indices, lengths),
            np.concatenate(self._shares),
        )  # fmt: skip
        model.add_rows("room", len(room), entries, upper=room)
        limits = SolveLimits(threads=1, options=_PRIMAL)
        answer = solve(model, limits, start=WarmStart(basis=self._start()), monitor=self.monitor)
        if answer.status is not SolveStatus.OPTIMAL:
            return None
        # What keeping counts for is not worth anything: it only makes the mixture hold them whole.
        self.value = answer.objective / scale - float(self.problem.forest.keep.sum())
        self._basis = answer.basis
        self._forget(answer.values)
        duals = np.maximum(0.0, answer.duals("room").reshape(rows, -1)) / scale
        return np.repeat(duals, np.diff(np.append(marks, steps)), axis=1)

    def _start(self) -> Basis | None:
        """Return the last basis with the new placements left out."""
        if self._basis is None:
            return None
        new = len(self._owner) - len(self._basis.columns)
        columns = np.concatenate([self._basis.columns, np.zeros(new, dtype=np.int8)])
        return Basis(columns, self._basis.rows)

    def _forget(self, values: F64) -> None:
        """Drop placements that the master has long left alone."""
        for index, value in enumerate(values.tolist()):
            self._idle[index] = 0 if value > 0 else self._idle[index] + 1
        if len(self._owner) <= KEPT * (int(self._groups.max()) + 1):
            return
        keep = [i for i, idle in enumerate(self._idle) if idle < 15]
        for name in ("_owner", "_worth", "_cells", "_shares", "_idle"):
            mine = getattr(self, name)
            setattr(self, name, [mine[i] for i in keep])
        if self._basis is not None:
            self._basis = Basis(self._basis.columns[keep], self._basis.rows)


def _request_groups(problem: PlanningProblem) -> I64:
    """Return int64[request]: itself, or of many requests the group of those near it in time."""
    requests = len(problem.requests)
    if requests <= MOST_REQUESTS:
        return np.arange(requests, dtype=np.int64)
    roots = problem.forest.vertices[problem.forest.first[1:] - 1]
    groups = np.empty(requests, dtype=np.int64)
    order = np.argsort(roots[:, V_START] + roots[:, V_END], kind="stable")
    groups[order] = np.arange(requests) * GROUPS // requests
    return groups
