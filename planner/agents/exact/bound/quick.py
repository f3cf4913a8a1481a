"""The bound beside a plan that proves none: as good as a twentieth of a second can make it.

The work is chosen by what it is predicted to cost, never by the clock: equal sets get equal bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from planner.agents.exact.bound.column_generation import ColumnGeneration
from planner.agents.exact.bound.lagrangian import evaluation_s
from planner.agents.exact.bound.load import F64, load_bound
from planner.agents.exact.bound.subgradient import ROUNDING, mean_prices
from planner.agents.exact.build import build_problem
from planner.request import Request
from planner.value import value_asked
from planner.view import PlanView
from rdl.work_graph import END, START

#: Seconds that prices may take.
BUDGET_S: Final = 0.05

#: Rounds of column generation: fewer do not come below the load, more gain little.
LEAST_ROUNDS: Final = 4
MOST_ROUNDS: Final = 12

#: Buckets of the master programme, as a part of the horizon.
_PARTS = 30

#: Seconds about, of the processor: to build a request; to solve the master, for each request.
_BUILD_S = 1.2e-4
_MASTER_S = 3e-5

#: A master that can gain less than this part of everything ends the rounds.
_SMALL_GAIN = 3e-4


class QuickBound(NamedTuple):
    """A bound and what proves it.

    Attributes
    ----------
    value
        The most that any plan of the requests can be worth.
    proof
        ``all`` (everything is held), ``load`` (amounts) or ``columns`` (prices).
    """

    value: float
    proof: str


def quick_bound(requests: Sequence[Request], view: PlanView, reached: float = 0.0) -> QuickBound:
    """Return a bound on the value of any plan of the requests on a view.

    Parameters
    ----------
    requests
        Compiled on the view's grid; void ones hold nothing.
    reached
        Value of a plan in hand: where it is all that is asked, nothing is looked for.
    """
    worth = np.array([value_asked(one, view.reference) for one in requests], dtype=np.float64)
    total = float(worth.sum())
    if total <= reached * (1 + ROUNDING):
        return QuickBound(total, "all")
    load = load_bound(requests, worth, view) * (1 + ROUNDING)
    found = QuickBound(load, "load") if load < total else QuickBound(total, "all")
    priced = _priced_bound(requests, worth, view)
    return QuickBound(priced, "columns") if priced < found.value else found


def _priced_bound(requests: Sequence[Request], values: F64, view: PlanView) -> float:
    """Return the bound of some rounds of prices; infinity where they would take too long."""
    asked = [place for place, one in enumerate(requests) if len(one.graph.vertices)]
    if _least_s([requests[place] for place in asked]) > BUDGET_S:
        return float("inf")
    problem = build_problem([requests[place] for place in asked], view)
    round_s = evaluation_s(problem) + _MASTER_S * len(asked)
    rounds = min(MOST_ROUNDS, int((BUDGET_S - _BUILD_S * len(asked)) / round_s))
    if rounds < LEAST_ROUNDS:
        return float("inf")
    columns = problem.room.free.shape[1]
    prices = 0.7 * mean_prices(problem)[:, None] + np.zeros(problem.room.free.shape)
    search = ColumnGeneration(problem, prices, max(1, columns // _PARTS))
    for _ in range(rounds):
        search.round(_SMALL_GAIN * problem.total)
    others = float(values.sum()) - float(values[asked].sum())
    return search.bound + others


def _least_s(requests: Sequence[Request]) -> float:
    """Return about the seconds of building and of the least rounds, before anything is built."""
    if not requests:
        return 0.0
    vertices = np.concatenate([one.graph.vertices for one in requests])
    steps = int((vertices[:, END] - vertices[:, START]).clip(0).sum())
    return _BUILD_S * len(requests) + LEAST_ROUNDS * (1.9e-7 * steps + _MASTER_S * len(requests))
