"""Prices that show that a subset cannot be placed: it would cost more than all that is free.

At any prices at least 0, what each request of a plan costs at least adds up to no more than what is
free is worth. So every price gives a row that all subsets must keep. For one subset the best prices
are those of a linear programme that mixes placements of its requests so that the part taken of what
is free is least; where that part is at most all, no prices can refute the subset.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from lp.arrays import Sense
from lp.limits import SolveLimits
from lp.model import Entries, LinearModel
from lp.result import SolveStatus
from lp.solver import solve
from planner.agents.exact.bound.subgradient import pricing_scratch
from planner.agents.exact.build import build_problem
from planner.agents.exact.kernels import bound as kernels
from planner.agents.exact.kernels.pricing_space import Space
from planner.agents.exact.problem import F64, I64, PlanningProblem
from planner.agents.exact.subsets.levels import LevelBook
from planner.view import PlanView

#: Least excess, as a part of what is free, that counts: less is lost when rows are made whole.
LEAST_EXCESS: Final = 1e-4

#: Worth of what is free that is none.
_NOTHING: Final = 1e-300

_MOST_ROUNDS: Final = 40
_LEAST_SHARE: Final = 1e-9


@dataclass(frozen=True, slots=True)
class PriceRow:
    """One row that every subset keeps: the sum of `costs` of its levels is at most 1.

    Attributes
    ----------
    costs
        float64[level]: least cost as a part of what all that is free is worth.
    """

    costs: F64


@dataclass(frozen=True, slots=True)
class _VariantPlacement:
    """Use of one placement of a variant: cells of the profile, and shares of their rows."""

    cells: I64
    shares: F64


@dataclass(slots=True)
class LevelPrices:
    """Prices of the levels of one set of requests, and the placements found on the way.

    Attributes
    ----------
    last
        Row of the prices that were tried last.
    """

    book: LevelBook
    view: PlanView
    last: PriceRow = field(init=False)
    _problem: PlanningProblem = field(init=False)
    _space: Space = field(init=False)
    _placements: list[list[_VariantPlacement]] = field(init=False)
    _known: list[set[bytes]] = field(init=False)

    def __post_init__(self) -> None:
        """Lay out every variant as a request of its own, all to be kept."""
        variants = [one.request for one in self.book.variants]
        self._problem = build_problem(variants, self.view, range(len(variants)))
        self._space = pricing_scratch(self._problem)
        self._placements = [[] for _ in variants]
        self._known = [set() for _ in variants]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of prices."""
        rows, columns = self._problem.room.capacity.shape
        return rows, columns

    def row(self, prices: F64) -> PriceRow:
        """Return the row of some prices; keep the placements that they find."""
        problem, space = self._problem, self._space
        count = len(self.book.variants)
        use, worth = np.zeros((count, *prices.shape)), np.zeros(count)
        optima = kernels.Optima(1, use, worth)
        kernels.columns(problem.forest, problem.room, space, prices, optima)
        costs = np.array([kernels.least_cost(problem.forest, space, v) for v in range(count)])
        for variant in np.flatnonzero(np.isfinite(costs)).tolist():
            self._keep(variant, use[variant].reshape(-1))
        free = float((prices * problem.room.capacity).sum())
        of_levels = np.array([costs[list(one.variants)].min() for one in self.book.levels])
        self.last = PriceRow(of_levels / max(free, _NOTHING))
        return self.last

    def _keep(self, variant: int, use: F64) -> None:
        cells = np.flatnonzero(use > _LEAST_SHARE)
        shares = use[cells]
        name = cells.tobytes() + np.round(shares, 7).tobytes()
        if name not in self._known[variant]:
            self._known[variant].add(name)
            self._placements[variant].append(_VariantPlacement(cells, shares))

    def refute(self, subset: Sequence[int], stop: Callable[[], bool]) -> PriceRow | None:
        """Return a row that a subset breaks, or None where no prices are found that refute it.

        Parameters
        ----------
        subset
            Levels, one at most of each request.
        stop
            Asked each round; where it says so, nothing is found.
        """
        for _ in range(_MOST_ROUNDS):
            if stop():
                return None
            prices = self._prices_of_load(subset)
            if prices is None:
                return None
            row = self.row(prices)
            if float(row.costs[list(subset)].sum()) > 1 + LEAST_EXCESS:
                return row
        return None

    def _prices_of_load(self, subset: Sequence[int]) -> F64 | None:
        """Return duals of the mixture with the least load, or None where all of it is free."""
        owners, placements = [], []
        for place, level in enumerate(subset):
            for variant in self.book.levels[level].variants:
                own = self._placements[variant]
                placements += own
                owners += [place] * len(own)
        model = self._mixture(len(subset), owners, placements)
        answer = solve(model, SolveLimits(threads=1))
        if answer.status is not SolveStatus.OPTIMAL or answer.objective <= 1.0:
            return None
        return np.abs(answer.duals("room")).reshape(self.shape)

    def _mixture(
        self, requests: int, owners: list[int], placements: list[_VariantPlacement]
    ) -> LinearModel:
        room = self._problem.room.capacity.reshape(-1)
        model = LinearModel("mixture", Sense.MINIMISE)
        share = model.add_block("share", len(placements))
        load = model.add_block("load", 1, cost=1.0)
        once = Entries(np.array(owners), share.indices, np.ones(len(placements)))
        model.add_rows("once", requests, once, lower=1.0, upper=1.0)
        lengths = np.array([len(one.cells) for one in placements])
        cells = np.concatenate([*(one.cells for one in placements), np.arange(room.size)])
        columns = np.concatenate(
            [np.repeat(share.indices, lengths), np.full(room.size, load.start)]
        )
        shares = np.concatenate([*(one.shares for one in placements), -room])
        model.add_rows("room", room.size, Entries(cells, columns, shares), upper=0.0)
        return model
