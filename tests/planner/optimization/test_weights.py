"""Each part of the score decides by itself: one plan, and only its weight is changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.agent import Limits
from planner.optimization.objective import Objective, Weights
from planner.optimization.optimizer import optimize
from planner.optimization.result import Optimized, OptimizeOptions, OptimizeScope
from planner.plan.plan import Plan
from tests.builders import a_cluster, a_plan, a_request, ask

_NONE = Weights(reject=0, churn=0, falls=0, cost=0)
_EFFORT = OptimizeOptions(Limits(work=60, seed=2), solver="")


def _found(plan: Plan, scope: OptimizeScope | None = None, **weights: float) -> Optimized:
    return optimize(plan, Objective(replace(_NONE, **weights)), scope, _EFFORT)


def _priced() -> Plan:
    """Return a plan of one gang in the dear half; the cheap half is free."""
    cluster = a_cluster().horizon(12).machines("m", 2, cpu=1)
    document = {**cluster.document, "prices": [{"start": 6, "end": 12, "factor": 3}]}
    built = type(cluster)(document).build()
    request = a_request("a", "window(atom(<1 cpu>, 2, 2, 4, 8), 0, 12)").on(built)
    plan = a_plan(built).holding(request).build()
    assert int(plan.table.holding(0).atoms[0].rows[0, 0]) >= 6
    return plan


def test_cost_alone_moves_work_to_cheap_steps() -> None:
    """With a weight on cost the gang moves before the price rises; with none on anything not."""
    assert _found(_priced()).changes == ()
    cheap = _found(_priced(), cost=1.0)
    assert (cheap.before.cost, cheap.after.cost) == (pytest.approx(12.0), pytest.approx(4.0))


@pytest.mark.parametrize(("churn", "moves"), [(0.0, True), (0.1, True), (10.0, False)])
def test_churn_holds_back_what_cost_would_move(churn: float, moves: bool) -> None:
    """The same price: worth a move where moving counts little, not where it counts much."""
    assert bool(_found(_priced(), cost=1.0, churn=churn).changes) is moves


def _staircase() -> Plan:
    """Return a plan of an atom in two heights, which could stand as one block."""
    cluster = a_cluster().horizon(12).machines("m", 4, cpu=1).build()
    plan = a_plan(cluster).build()
    ask(plan, a_request("in the way", "window(atom(<1 cpu>, 3, 3, 4, 12), 0, 4)").on(cluster))
    ask(plan, a_request("a", "window(atom(<1 cpu>, 1, 4, 1, 16), 0, 12)").on(cluster))
    return plan


@pytest.mark.parametrize(("weight", "moves"), [(0.0, False), (1.0, True)])
def test_falls_alone_flattens(weight: float, moves: bool) -> None:
    """Fewer bundles fall at the end of a block than of a stack; nothing else asks for a move."""
    found = _found(_staircase(), falls=weight)
    assert bool(found.changes) is moves
    if moves:
        assert found.after.falls < found.before.falls


def _crowded() -> Plan:
    """Return a plan in which a refused request comes in if two others move."""
    cluster = a_cluster().horizon(12).machines("m", 2, cpu=1).build()
    plan = a_plan(cluster).placed_by("earliest").build()
    ask(plan, a_request("a", "window(atom(<1 cpu>, 2, 2, 4, 8), 2, 12)").on(cluster))
    ask(plan, a_request("b", "window(atom(<1 cpu>, 2, 2, 4, 8), 7, 12)").on(cluster))
    assert plan.refusal("b") is not None
    return plan


@pytest.mark.parametrize(
    ("reject", "comes_in"), [(0.0, False), (0.5, False), (10.0, True), (1000.0, True)]
)
def test_reject_cost_against_churn(reject: float, comes_in: bool) -> None:
    """Half of what is asked is refused, and all that is held has to move for it: weights decide."""
    found = _found(_crowded(), OptimizeScope(admit_refused=True), reject=reject, churn=1.0)
    assert bool(found.changes) is comes_in
    assert (found.after.rejected == 0) is comes_in


def test_in_order_the_first_part_that_differs_decides() -> None:
    """Lexicographic: value first whatever has to move; for cost alone no one moves."""
    order = Objective(lexicographic=True)
    admitted = optimize(_crowded(), order, OptimizeScope(admit_refused=True), _EFFORT)
    assert (admitted.after.rejected, admitted.after.churn > 0) == (0.0, True)
    stays = optimize(_priced(), order, OptimizeScope(), _EFFORT)
    assert stays.changes == ()
