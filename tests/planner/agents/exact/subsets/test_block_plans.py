"""CP-SAT's look at all of a set of blocks: what it finds, what it proves, and when it ends."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from planner.agents.check import check_plan
from planner.agents.exact import parallel
from planner.agents.exact.budget import Budget, SolveInput
from planner.agents.exact.build import build_problem
from planner.agents.exact.incumbent import ProofAnswer
from planner.agents.exact.parallel import solve_in_parallel
from planner.agents.exact.proof.cp_model import RigidModel
from planner.agents.exact.proof.cp_sat import CpLimits
from planner.agents.exact.subsets import block_plans as block_plans_module
from planner.agents.exact.subsets.block_plans import BlockPlans
from planner.agents.exact.subsets.levels import level_book
from planner.agents.exact.warm_up import load_loops
from planner.plan.plan import Plan
from planner.request import Request
from planner.value import score_of
from planner.view import PlanView
from tests.builders import a_request
from tests.planner.agents.exact.proof.whole_sets import AGES, whole_of
from tests.planner.brute_force_plan import best_value
from tests.planner.tiny_requests import (
    CAPACITY,
    CLUSTER,
    HORIZON,
    gangs,
    nested_blocks,
    rigid,
)


def _view() -> PlanView:
    return Plan(CLUSTER, CLUSTER.grid()).view()


def _plans_of(
    requests: list[Request], budget: Budget | None = None, keep: frozenset[int] = frozenset()
) -> BlockPlans:
    """Return the look at a set, from no plan; nothing is known of its time but that it is long."""
    incumbent, other = whole_of(requests, _view(), keep)
    book = level_book(requests, _view().reference)
    assert book is not None
    return BlockPlans(incumbent, other.solve_input, budget or other.budget, book)


@pytest.mark.parametrize("make", [nested_blocks, rigid])
@pytest.mark.parametrize("seed", range(12))
def test_it_proves_what_enumeration_finds(seed: int, make: Callable[[int], list[Request]]) -> None:
    """Plan and bound meet at the best of all combinations: gaps, options within, recurrences."""
    # Weights that are no whole numbers: rounding of values must not show.
    requests = [replace(one, weight=1 + 0.377 * i) for i, one in enumerate(make(seed))]
    plans = _plans_of(requests)
    plans.look()
    incumbent, best = plans.incumbent, best_value(requests, CAPACITY, HORIZON)
    assert incumbent.value == pytest.approx(best)
    assert best * (1 - 1e-9) <= incumbent.bound <= best * (1 + 1e-6)
    assert incumbent.is_proven


@pytest.mark.parametrize("count", [5, 6, 7])
def test_its_plan_passes_the_check_of_the_oracle(count: int) -> None:
    """Of gangs of which few fit, what it offers is valid and worth what it says."""
    requests = gangs(count)
    plans = _plans_of(requests)
    plans.look()
    results = plans.incumbent.results
    checked = check_plan(requests, results, _view())
    assert [one.placed for one in checked] == [one.placed for one in results]
    assert score_of(requests, checked, _view().reference)[0] == pytest.approx(plans.incumbent.value)
    assert plans.incumbent.source == plans.incumbent.proof == "cp-sat"


@pytest.mark.parametrize("seed", range(8))
def test_it_keeps_what_may_not_be_lost(seed: int) -> None:
    """With the last request kept it is the best that holds it, or proven that none does."""
    requests = nested_blocks(seed)
    plans = _plans_of(requests, keep=frozenset({2}))
    plans.look()
    best = best_value(requests, CAPACITY, HORIZON, keep=[2])
    assert plans.incumbent.whole == (best >= 0)
    assert plans.incumbent.bound == (pytest.approx(best) if best >= 0 else -math.inf)


def test_it_begins_from_the_plan_in_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the incumbent holds is CP-SAT's hint."""
    first, again = _plans_of(gangs(7)), _plans_of(gangs(7))
    first.look()
    assert again.incumbent.offer(first.incumbent.results, "somebody")
    held, hinted = again.incumbent.results, []
    monkeypatch.setattr(RigidModel, "add_hint", lambda self, results: hinted.append(results))
    again.look()
    assert hinted == [held]


class _Asked:
    """Solves that ask after each second of their clock whether they must end.

    Attributes
    ----------
    seeds
        Of all that have begun.
    found
        Plans by the second at which they are found.
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.seeds: list[int] = []
        self.found: dict[float, list[None]] = {}

    def clock(self) -> float:
        return self.now

    def solve(self, model: RigidModel, limits: CpLimits) -> ProofAnswer:
        """Find the plans of `found` at their seconds, and end when told so."""
        self.seeds.append(limits.seed)
        results = None
        bound = model.problem.total
        while not limits.stop():
            self.now += 1.0
            results = self.found.get(self.now, results)
            limits.report(ProofAnswer(None if results is None else [*results], bound))
        return ProofAnswer(None, bound)


def _look_ends_at(
    monkeypatch: pytest.MonkeyPatch, asked: _Asked, stop: Callable[[], bool] = lambda: False
) -> float:
    """Return the second of a hundred at which a look ends."""
    monkeypatch.setattr(block_plans_module, "solve_model", asked.solve)
    monkeypatch.setattr(block_plans_module, "report_answer", lambda *inputs, **named: None)
    budget = Budget(100.0, None, 0.0, stop, asked.clock, lambda: None)
    _plans_of(nested_blocks(1), budget).look()
    return asked.now


def test_it_ends_when_it_finds_nothing_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """With no better plan there are two solves, by other random numbers, of eight seconds each."""
    asked = _Asked()
    assert _look_ends_at(monkeypatch, asked) == 16.0
    assert asked.seeds == [0, 1]


def test_it_has_no_more_than_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often it finds a better plan, it ends after its part of the time."""
    asked = _Asked()
    monkeypatch.setattr(asked, "found", {float(at): [None] * at for at in range(100)})
    assert _look_ends_at(monkeypatch, asked) == 35.0
    assert asked.seeds == [0]


def test_it_is_told_of_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop ends it at the next look."""
    asked = _Asked()
    assert _look_ends_at(monkeypatch, asked, lambda: asked.now >= 2.0) == 2.0


def test_cp_sat_hears_the_stop() -> None:
    """With a stop that is set before, CP-SAT itself ends though its time is an hour."""
    requests = gangs(7)
    stopped = Budget(time.monotonic() + AGES, None, 0.0, lambda: True, time.monotonic, lambda: None)
    plans = _plans_of(requests, stopped)
    plans.look()
    assert plans.incumbent.bound >= best_value(requests, CAPACITY, HORIZON)


def _looks(requests: list[Request], monkeypatch: pytest.MonkeyPatch, prove: bool = False) -> int:
    """Return how often a solve of a set looks at all of it by CP-SAT."""
    looks: list[BlockPlans] = []
    monkeypatch.setattr(BlockPlans, "look", lambda plans: looks.append(plans))
    monkeypatch.setattr(parallel, "_FIRST_LOOK", 0.0)
    monkeypatch.setattr(parallel, "_PATIENCE", 0.0)
    problem = build_problem(requests, _view())
    load_loops(problem)
    incumbent = whole_of(requests, _view())[0]
    until = time.monotonic() + AGES
    budget = Budget(until, None, 0.0, lambda: False, time.monotonic, lambda: None)
    solve_in_parallel(incumbent, SolveInput(problem, range(len(requests)), 0, prove), budget)
    assert incumbent.is_proven
    return len(looks)


def _malleable(requests: list[Request]) -> list[Request]:
    """Return the same and one whose height may change."""
    atom = "atom(<1 cpu>, 1, 4, 0.001, 0.006)"
    return [*requests, a_request("malleable", atom).on(CLUSTER)]


@pytest.mark.parametrize(("change", "looks"), [(list, 1), (_malleable, 0)])
def test_only_sets_of_blocks_are_looked_at(
    change: Callable[[list[Request]], list[Request]], looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One malleable atom is enough to leave the set as it was."""
    assert _looks(change(nested_blocks(4)), monkeypatch) == looks


def test_where_cp_sat_proves_all_there_is_no_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a thread for the whole set there already."""
    assert _looks(gangs(6), monkeypatch, prove=True) == 0
