"""The bound is one on plans in which no one who holds something loses it, and pins stay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from planner.agent import BoundError, Limits
from planner.agents import agent_named
from planner.optimization import solver_step as solving
from planner.optimization.movable_plan import MovablePlan
from planner.optimization.objective import CostModel, Objective, PlanCost
from planner.optimization.optimizer import optimize
from planner.optimization.result import Optimized, OptimizeOptions, OptimizeProgress, OptimizeScope
from planner.placement import Code
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Refuse
from planner.renegotiation import result_of
from planner.replanning.commitment import commitment_of
from planner.replanning.draft_plan import DraftPlan, shortage_of
from planner.replanning.moves import CommitmentMoves
from planner.request import Request
from planner.value import PriceList, value_of
from tests.builders import a_cluster, a_plan, a_request, ask, commit
from tests.examples import some_of
from tests.planner.brute_force_plan import best_value
from tests.planner.optimization.small_plans import two_in_the_way
from tests.planner.tiny_requests import CAPACITY, CLUSTER, HORIZON, tiny_requests

_ROUNDING = 1e-6
_ORDER = Objective(lexicographic=True)
_REFUSED_TOO = OptimizeScope(admit_refused=True)


def _effort(solver: str = "exact", work: int = 120) -> OptimizeOptions:
    return OptimizeOptions(Limits(work=work, seed=1), solver)


def _held(requests: list[Request]) -> tuple[Plan, dict[int, float]]:
    """Return a plan that holds what `gree` places one by one, and the value of who is held."""
    plan, kept = Plan(CLUSTER, CLUSTER.grid()), {}
    for index, request in enumerate(requests):
        result = agent_named("gree").plan([request], plan.view(), Limits())[0]
        if result.code is None:
            commit(plan, Admit(request, result, "gree"))
            kept[index] = value_of(request, result.choices, CLUSTER.reference)
        else:
            commit(plan, Refuse(request, result.code))
    return plan, kept


@pytest.mark.parametrize("seed", some_of(range(14), 6))
@pytest.mark.parametrize("solver", ["exact", "milp"])
def test_it_is_between_the_best_plan_that_keeps_and_what_is_held(seed: int, solver: str) -> None:
    """Full enumeration of plans that keep everybody lies between the answer and its bound."""
    requests = tiny_requests(seed)
    # Who comes last is worth most: keeping the first costs value.
    heavy = [replace(one, weight=one.weight * 4**index) for index, one in enumerate(requests)]
    plan, kept = _held(heavy)
    best = best_value(heavy, CAPACITY, HORIZON, keep=kept, least=kept)
    found = optimize(plan, _ORDER, _REFUSED_TOO, _effort(solver))
    assert sum(kept.values()) - _ROUNDING <= found.value <= best + _ROUNDING
    assert best <= found.bound + _ROUNDING * max(1.0, best)


@pytest.mark.parametrize("solver", ["exact", "milp"])
def test_who_may_not_lose_lowers_it(solver: str) -> None:
    """Of two gangs for one place the one that holds it stays; the better one is out of reach."""
    cluster = a_cluster().horizon(8).machines("m", 2, cpu=1).build()
    text = "window(atom(<1 cpu>, 2, 2, 8, 16), 0, 8)"
    plan = a_plan(cluster).holding(a_request("a", text).on(cluster)).build()
    ask(plan, a_request("b", text).weight(3).on(cluster))
    found = optimize(plan, _ORDER, _REFUSED_TOO, _effort(solver))
    assert found.bound == pytest.approx(found.value, rel=1e-3)
    assert found.value == pytest.approx(16 / 3600)
    assert found.changes == ()
    assert found.before.rejected == pytest.approx(48 / 3600)


def test_pins_lower_it() -> None:
    """Unpinned both have a place, and that is proven; with `a` pinned it is proven that not."""
    plan, _ = two_in_the_way()
    free = optimize(plan, _ORDER, _REFUSED_TOO, _effort())
    assert free.value == pytest.approx(free.bound) == pytest.approx(16 / 3600)
    pinned = optimize(plan, _ORDER, OptimizeScope(pins=("a",), admit_refused=True), _effort())
    assert (pinned.status, pinned.changes) == ("optimal", ())
    assert pinned.bound == pytest.approx(pinned.value) == pytest.approx(8 / 3600)


def test_what_has_begun_lowers_it() -> None:
    """Past its first step `a` cannot free capacity any more: the bound knows, and all is proven."""
    plan, _ = two_in_the_way()
    found = optimize(plan, _ORDER, OptimizeScope(frozen_until=5, admit_refused=True), _effort())
    assert (found.status, found.gap) == ("optimal", 0.0)
    assert found.value == pytest.approx(8 / 3600)


def _with_options() -> Plan:
    """`a` has the option it prefers; with the other one, worth half, `b` would fit too."""
    cluster = a_cluster().horizon(8).machines("m", 2, cpu=1).build()
    first, second = (f"window(atom(<1 cpu>, 2, 2, 4, 8), {at}, {at + 4})" for at in (0, 4))
    options = f"any({first}, {second}, prefer=[1, 0.5])"
    plan = a_plan(cluster).holding(a_request("a", options).on(cluster)).build()
    ask(plan, a_request("b", "window(atom(<1 cpu>, 2, 2, 4, 8), 0, 4)").weight(5).on(cluster))
    assert plan.refusal("b") is not None
    return plan


@pytest.mark.parametrize("solver", ["exact", "milp", ""])
def test_no_one_is_moved_to_an_option_that_is_worth_less(solver: str) -> None:
    """However much another would be worth: a promise is not lowered to a preference of half."""
    found = optimize(_with_options(), None, _REFUSED_TOO, _effort(solver))
    assert found.changes == ()
    assert found.value <= found.bound + _ROUNDING


def test_value_counts_the_option_that_is_held() -> None:
    """A refused request that gets its second choice holds half of what it asked."""
    cluster = a_cluster().horizon(8).machines("m", 2, cpu=1).build()
    plan = a_plan(cluster).placed_by("earliest").build()
    ask(plan, a_request("a", "window(atom(<1 cpu>, 2, 2, 4, 8), 0, 4)").on(cluster))
    ask(plan, a_request("c", "window(atom(<1 cpu>, 1, 1, 4, 4), 4, 8)").on(cluster))
    first, second = "atom(<1 cpu>, 2, 2, 4, 8)", "atom(<1 cpu>, 1, 1, 4, 4)"
    options = f"any(window({first}, 0, 4), window({second}, 4, 8), prefer=[1, 0.5])"
    request = a_request("b", options).on(cluster)
    result = agent_named("gree").plan([request], plan.view(), Limits())[0]
    assert result.placed
    commit(plan, Refuse(request, Code.CAPACITY))
    found = optimize(plan, _ORDER, _REFUSED_TOO, _effort())
    assert found.value == pytest.approx((8 + 4 + 4) / 3600)
    assert found.after.rejected == pytest.approx(4 / 3600)
    assert found.bound == pytest.approx(found.value, rel=1e-3)


def test_a_bound_below_a_plan_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is reported, not hidden: one of the two must be wrong."""

    def wrong(self: solving.SolverStep, start: object) -> None:
        self.bound = 0.0001

    monkeypatch.setattr(solving.SolverStep, "run", wrong)
    plan, _ = two_in_the_way()
    with pytest.raises(BoundError, match="below a plan"):
        optimize(plan, _ORDER, _REFUSED_TOO, _effort())


def test_bounds_are_reported_while_the_solver_works() -> None:
    """A caller sees the bound fall and never below the value; the last word is the answer's."""
    told: list[OptimizeProgress] = []
    plan = _with_options()
    effort = OptimizeOptions(Limits(work=120, seed=1), "exact", told.append)
    found: Optimized = optimize(plan, _ORDER, _REFUSED_TOO, effort)
    bounds = [one.bound for one in told]
    assert bounds == sorted(bounds, reverse=True)
    assert bounds[-1] == pytest.approx(found.bound)
    assert all(one.value <= one.bound + _ROUNDING for one in told)


def test_who_only_swapped_places_goes_back() -> None:
    """Two that a solver swapped have their rows again, though neither could go back alone."""
    cluster = a_cluster().horizon(12).machines("m", 2, cpu=1).build()
    plan = a_plan(cluster).build()
    for name in "abc":
        ask(plan, a_request(name, "window(atom(<1 cpu>, 2, 2, 4, 8), 0, 12)").on(cluster))
        assert plan.reservation(name) is not None
    draft = DraftPlan.of(plan)
    commitments = [commitment_of(plan, number) for number in range(3)]
    rows = [one.before.atoms[0].rows for one in commitments]
    for one in commitments:
        draft.lift(one)
    for one, elsewhere in zip(commitments, (rows[1], rows[0], rows[2]), strict=True):
        assert one.request is not None
        graph = one.request.graph
        assert draft.take(one, result_of(graph, graph.atoms.tolist(), [elsewhere]))
    cost_model = CostModel(cluster, PriceList(np.ones(12)), 0)
    moves = CommitmentMoves(plan, shortage_of(draft.ledger))
    scale = cost_model.scale_of(commitments)
    search = MovablePlan(commitments, _ORDER, cost_model, scale, moves, PlanCost())
    assert search.evaluate(draft, "x").cost.churn > 0
    calm = search.undo_needless_moves(draft)
    assert search.evaluate(calm, "x").cost.churn == 0
    assert not calm.moved
