"""The sweep over time: the optimum of small sets of blocks, or nothing."""

from __future__ import annotations

import numpy as np
import pytest

from planner.agents.check import check_plan
from planner.agents.exact.bound.subgradient import starts
from planner.agents.exact.build import build_problem
from planner.agents.exact.proof.cp_sat import CpLimits, solve_rigid
from planner.agents.exact.proof.dominance import DominanceSearch, suits_dominance
from planner.plan.plan import Plan
from planner.request import Request
from planner.value import score_of
from tests.builders import a_cluster, a_request
from tests.examples import some_of
from tests.planner.agents.exact.sets import REFUSED, laid_out
from tests.planner.brute_force_plan import best_value
from tests.planner.tiny_requests import CAPACITY, CLUSTER, HORIZON, gangs, rigid


def never() -> bool:
    """Do not stop."""
    return False


def swept(
    requests: list[Request], view: object, seed: int, value: float = 0.0
) -> tuple[float, float]:
    """Return (value found, bound) of a sweep at drawn prices; plans must pass the check."""
    problem = build_problem(requests, view)
    rng = np.random.default_rng(seed)
    prices = rng.random(problem.room.free.shape) * problem.total / problem.room.free.size
    if seed % 3 == 0:
        prices[:] = 0.0
    answer = DominanceSearch(problem, prices).run(lambda: value, never)
    assert answer is not None
    if answer.results is None:
        return value, answer.bound
    results = [one or REFUSED for one in answer.results]
    assert check_plan(requests, results, view) == results
    return score_of(requests, results, view.reference)[0], answer.bound


@pytest.mark.parametrize("seed", some_of(range(40), 10))
def test_it_finds_the_optimum_of_tiny_sets(seed: int) -> None:
    """At any prices, none among them, by full enumeration: plan and bound."""
    requests = [one for s in (seed, seed + 50) for one in rigid(s)]
    view = Plan(CLUSTER, CLUSTER.grid()).view()
    blocks = [one for one in requests if suits_dominance(build_problem([one], view))][:4]
    if not blocks:
        return
    best = best_value(blocks, CAPACITY, HORIZON)
    value, bound = swept(blocks, view, seed)
    assert value == pytest.approx(best)
    assert bound == pytest.approx(best)


@pytest.mark.parametrize("seed", range(6))
def test_it_agrees_with_cp_sat(seed: int) -> None:
    """Ten to fifteen gangs with windows: both prove the same value."""
    requests = gangs(10 + seed)
    problem, view = laid_out(requests)
    answer = solve_rigid(problem, [REFUSED] * len(requests), CpLimits(20.0, repeats=True))
    value, bound = swept(requests, view, seed)
    assert value == pytest.approx(answer.bound, rel=1e-6)
    assert bound == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_an_outage_is_kept_and_used_after_its_end(seed: int) -> None:
    """Capacity that falls and rises again: CP-SAT and the sweep agree on drawn gangs."""
    cluster = a_cluster().horizon("12s").machines("m", 4, cpu=1).outage("m", 3, "4s", "7s").build()
    rng = np.random.default_rng(seed)
    requests = []
    for index in range(9):
        height, length = int(rng.integers(1, 5)), int(rng.integers(1, 5))
        begin = int(rng.integers(0, 8))
        end = min(12, begin + length + int(rng.integers(1, 6)))
        if end - begin < length:
            continue
        atom = f"atom(<1 cpu>, {height}, {height}, {length}, {height * length})"
        text = f"window({atom}, {begin}, {end})"
        requests.append(a_request(f"r{index}", text).weight(float(rng.integers(1, 5))).on(cluster))
    view = Plan(cluster, cluster.grid()).view()
    problem = build_problem(requests, view)
    assert suits_dominance(problem)
    answer = solve_rigid(problem, [REFUSED] * len(requests), CpLimits(20.0, repeats=True))
    value, _ = swept(requests, view, seed)
    assert value == pytest.approx(answer.bound, rel=1e-6)


def test_a_plan_in_hand_that_is_the_best_is_proven_without_another() -> None:
    """Told the optimum, it answers with the bound alone; told a little less, with the plan."""
    requests = gangs(12)
    _, view = laid_out(requests)
    best, _ = swept(requests, view, 1)
    value, bound = swept(requests, view, 1, best)
    assert (value, bound) == (best, pytest.approx(best))
    assert swept(requests, view, 1, 0.99 * best)[0] == pytest.approx(best)


def test_too_many_labels_and_a_stop_give_nothing() -> None:
    """No proof is made up where the sweep did not come to its end."""
    problem, _ = laid_out(gangs(20))
    flat, _ = starts(problem)
    assert DominanceSearch(problem, flat.prices, most=2).run(lambda: 0.0, never) is None
    assert DominanceSearch(problem, flat.prices).run(lambda: 0.0, lambda: True) is None


def test_only_single_blocks_are_swept() -> None:
    """Chains, options, recurrences and malleable atoms are left to others."""
    block = "atom(<1 cpu>, 2, 2, 0.002, 0.004)"
    for text, suits in (
        (block, True), (f"order({block}, {block})", False), (f"any({block}, {block})", False),
        (f"every(0.003, {block}, times=2)", False), ("atom(<1 cpu>, 1, 2, 0.002, 0.004)", False),
    ):  # fmt: skip
        problem, _ = laid_out([a_request("r", text).on(CLUSTER)])
        assert suits_dominance(problem) == suits
