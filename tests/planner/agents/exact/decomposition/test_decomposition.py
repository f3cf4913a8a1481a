"""The bound by Lagrangian decomposition: never below the best plan, and exact where prices lose."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from bench.workloads.exact_shapes import narrow
from planner.agents.exact.bound.lagrangian import LagrangianBound
from planner.agents.exact.build import build_problem
from planner.agents.exact.decomposition import bound as decomposition
from planner.agents.exact.decomposition import kernels
from planner.agents.exact.decomposition.bound import DecompositionBound, suits_decomposition
from planner.agents.exact.problem import F64, PlanningProblem
from planner.plan.plan import Plan
from planner.request import Request
from tests.builders import a_cluster, a_request
from tests.examples import some_of
from tests.planner.agents.exact.sets import laid_out
from tests.planner.brute_force_plan import best_value
from tests.planner.tiny_requests import CAPACITY, CLUSTER, HORIZON, gangs, rigid

_ROUNDING = 1e-7


def blocks_of(seed: int) -> list[Request]:
    """Return up to four requests of a draw that are single blocks."""
    drawn = [one for s in (seed, seed + 50) for one in rigid(s)]
    return [one for one in drawn if suits_decomposition(laid_out([one])[0])][:4]


def at_multipliers(problem: PlanningProblem, multipliers: F64) -> float:
    """Return the bound at multipliers float64[request, bucket], evaluated once."""
    found = DecompositionBound(problem, np.zeros(problem.room.free.shape))
    found._descent.multipliers[:] = multipliers
    found.advance(1, 0.0)
    return found.bound


def to_the_end(problem: PlanningProblem, target: float = 0.0) -> DecompositionBound:
    """Lower a bound from no prices until nothing more can be gained."""
    found = DecompositionBound(problem, np.zeros(problem.room.free.shape))
    while not found.over:
        found.advance(50, target)
    return found


@pytest.mark.parametrize("seed", some_of(range(30), 8))
def test_it_is_never_below_the_best_plan(seed: int) -> None:
    """At any multipliers and at the best ones, in units rounded down too, by full enumeration."""
    requests = blocks_of(seed)
    if not requests:
        return
    problem, _ = laid_out(requests)
    best = best_value(requests, CAPACITY, HORIZON)
    rng = np.random.default_rng(seed)
    buckets = problem.room.free.shape[1]
    for scale in (0.1, 1.0, 5.0):
        drawn = rng.random((len(requests), buckets)) * scale * problem.total / buckets
        assert at_multipliers(problem, drawn) >= best - _ROUNDING
    assert to_the_end(problem, 0.5 * best).bound >= best - _ROUNDING


@pytest.mark.parametrize("units", [1, 2, 3])
@pytest.mark.parametrize("seed", range(8))
def test_long_units_keep_it_a_bound(seed: int, units: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a row has few units, heights are rounded down: more fits, never less."""
    monkeypatch.setattr(decomposition, "MOST_UNITS", units)
    requests = gangs(4 + seed)[:5]
    best = best_value(requests, CAPACITY, HORIZON)
    assert to_the_end(laid_out(requests)[0]).bound >= best - _ROUNDING


@pytest.mark.parametrize("seed", range(8))
def test_with_what_may_not_be_lost_it_bounds_the_plans_that_keep_it(seed: int) -> None:
    """The least valuable request must stay: by full enumeration of plans that hold it."""
    requests = sorted(gangs(4 + seed)[:4], key=lambda one: one.weight)
    best = best_value(requests, CAPACITY, HORIZON, keep=[0])
    view = Plan(CLUSTER, CLUSTER.grid()).view()
    assert to_the_end(build_problem(requests, view, [0])).bound >= best - _ROUNDING


@pytest.mark.parametrize("seed", range(12))
def test_who_runs_at_a_step_is_chosen_whole(seed: int) -> None:
    """Blocks as long as the horizon on two rows: at what each earns a step it is a knapsack."""
    rng = np.random.default_rng(seed)
    requests = []
    for index in range(7):
        height = int(rng.integers(1, 5))
        bundle = rng.choice(["<1 cpu>", "<1 cpu, 1 GiB memory>", "<500m cpu, 1 GiB memory>"])
        atom = f"atom({bundle}, {height}, {height}, 0.006, 0.{6 * height:03d})"
        requests.append(a_request(f"r{index}", atom).weight(float(rng.integers(1, 9))).on(CLUSTER))
    problem, _ = laid_out(requests)
    need, free = decomposition._in_units(problem)
    worth = problem.forest.value
    best = max(
        float(worth @ np.array(taken))
        for taken in product((0, 1), repeat=len(requests))
        if (need @ np.array(taken) <= free[:, 0]).all()
    )
    earned = np.repeat(worth[:, None] / HORIZON, HORIZON, axis=1)
    assert at_multipliers(problem, earned) == pytest.approx(best, rel=1e-6)


def test_it_closes_what_prices_leave() -> None:
    """Two gangs of three machines of four: prices count a part of the second, this does not."""
    gang = "window(atom(<1 cpu>, 3, 3, 0.003, 0.009), 0, 0.003)"
    problem, _ = laid_out([a_request(name, gang).on(CLUSTER) for name in ("a", "b")])
    prices = LagrangianBound(problem)
    while not prices.over:
        prices.advance(20, 0.0)
    alone = problem.total / 2
    assert prices.bound > 1.3 * alone
    assert to_the_end(problem, 0.0).bound == pytest.approx(alone, rel=1e-3)


def test_an_outage_is_in_the_room_of_its_own_buckets() -> None:
    """A gang that fits but for an outage in its window is worth nothing."""
    cluster = a_cluster().horizon("12s").machines("m", 4, cpu=1).outage("m", 3, "4s", "7s").build()
    texts = ("window(atom(<1 cpu>, 2, 2, 6, 12), 2, 8)", "window(atom(<1 cpu>, 1, 1, 6, 6), 2, 8)")
    requests = [a_request(f"r{i}", text).on(cluster) for i, text in enumerate(texts)]
    problem = build_problem(requests, Plan(cluster, cluster.grid()).view())
    marks = decomposition._marks(problem.room.free, 3)
    assert set(np.flatnonzero(np.diff(problem.room.free[0])) + 1) <= set(marks.tolist())
    assert to_the_end(problem).bound == pytest.approx(float(problem.forest.value[1]), rel=1e-3)


def test_scratch_holds_what_meets_a_bucket_of_any_level() -> None:
    """Short buckets do not lie inside of long ones, so each level has tables of its own."""
    cluster, requests = narrow(1, 1.2)
    problem = build_problem(requests, Plan(cluster, cluster.grid()).view())
    found = DecompositionBound(problem, np.zeros(problem.room.free.shape))
    for _ in decomposition.PARTS:
        found._descent.multipliers[:] = 1.0
        arrays = found._blocks, found._space, found._buckets, found._descent
        counts = [kernels._list_items(*arrays, at) for at in range(len(found._buckets.marks) - 1)]
        assert max(counts) == found._space.most.shape[1] - 1
        found._refine()
    assert found.over


def test_too_many_sets_leave_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a knapsack is left half done, its bound stands for the best set."""
    problem, _ = laid_out(gangs(12))
    found = DecompositionBound(problem, np.zeros(problem.room.free.shape))
    found._descent.multipliers[:] = np.arange(1.0, 13.0)[:, None]
    arrays = found._space, found._buckets
    count = kernels._list_items(found._blocks, *arrays, found._descent, 2)
    whole = kernels._best_set(*arrays, 2, count)
    monkeypatch.setattr(kernels, "_MOST_SETS", 3)
    assert kernels._best_set.py_func(*arrays, 2, count) >= whole  # type: ignore[attr-defined]


def test_only_blocks_of_a_moment_suit_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chains, options, recurrences, malleable atoms and large sets are left to prices."""
    block = "atom(<1 cpu>, 2, 2, 0.002, 0.004)"
    for text, suits in (
        (block, True), (f"order({block}, {block})", False), (f"any({block}, {block})", False),
        (f"every(0.003, {block}, times=2)", False), ("atom(<1 cpu>, 1, 2, 0.002, 0.004)", False),
    ):  # fmt: skip
        problem, _ = laid_out([a_request("r", text).on(CLUSTER)])
        assert suits_decomposition(problem) == suits
    monkeypatch.setattr(decomposition, "MOST_PLACES", 100)
    assert not suits_decomposition(laid_out([a_request("r", block).on(CLUSTER)])[0])
