"""Starts of gangs that another one dominates are left out, and no optimum with them."""

from __future__ import annotations

import numpy as np
import pytest

from planner.agents.check import check_plan
from planner.agents.exact.cp_sat import KeptStarts, kept_starts, solve_rigid
from planner.agents.exact.problem import V_START, fitting_starts
from planner.placement import PlacementResult
from planner.request import Request
from planner.value import score_of
from tests.builders import a_request
from tests.examples import some_of
from tests.planner.agents.exact.sets import REFUSED, laid_out
from tests.planner.brute_force_plan import best_value
from tests.planner.tiny_requests import CAPACITY, CLUSTER, HORIZON


def windowed_gangs(seed: int) -> list[Request]:
    """Draw four gangs in windows of their own on four cores: here crowded, there alone."""
    rng = np.random.default_rng(seed)
    found = []
    for name in "abcd":
        height, length = int(rng.integers(1, 5)), int(rng.integers(1, 4))
        begin = int(rng.integers(0, HORIZON - length + 1))
        end = int(rng.integers(begin + length, HORIZON + 1))
        gang = f"atom(<1 cpu>, {height}, {height}, 0.00{length}, 0.{height * length:03d})"
        text = f"window({gang}, 0.00{begin}, 0.00{end})"
        found.append(a_request(name, text).weight(float(rng.integers(1, 4))).on(CLUSTER))
    return found


def _value(requests: list[Request], results: list[PlacementResult]) -> float:
    view = laid_out(requests)[1]
    assert check_plan(requests, results, view) == results
    return score_of(requests, results, view.reference)[0]


@pytest.mark.parametrize("seed", some_of(range(60), 15))
def test_windowed_gangs_are_proven_to_the_optimum(seed: int) -> None:
    """Value and bound are those of full enumeration, whatever starts were left out."""
    requests = windowed_gangs(seed)
    problem, _ = laid_out(requests)
    best = best_value(requests, CAPACITY, HORIZON)
    answer = solve_rigid(problem, [REFUSED] * 4, repeats=True)
    assert answer.results is not None
    results = [one or REFUSED for one in answer.results]
    assert _value(requests, results) == pytest.approx(best)
    assert best * (1 - 1e-12) <= answer.bound <= best * (1 + 1e-6)
    # From the optimum itself, known at the beginning, it is proven again.
    again = solve_rigid(problem, results, near=True, repeats=True)
    assert again.results is not None
    assert _value(requests, [one or REFUSED for one in again.results]) == pytest.approx(best)
    assert again.bound == pytest.approx(answer.bound)


@pytest.mark.parametrize("seed", some_of(range(60), 15))
def test_every_start_left_out_is_dominated_by_one_that_is_kept(seed: int) -> None:
    """The kept one's contended steps are among those of the start, of which it is one that fits."""
    problem, _ = laid_out(windowed_gangs(seed))
    vertices = problem.forest.vertices
    for vertex, kept in kept_starts(problem).items():
        fitting = np.flatnonzero(fitting_starts(problem.forest, vertices[vertex]))
        contended = np.diff(kept.before) > 0
        for start in (fitting + vertices[vertex, V_START]).tolist():
            other = kept.dominating(start)
            assert other in kept.starts
            held = set(np.flatnonzero(contended[start : start + kept.length]) + start)
            assert set(np.flatnonzero(contended[other : other + kept.length]) + other) <= held


def test_a_gang_in_nobodys_way_is_placed_there_and_frees_the_others() -> None:
    """The long window leaves the crowded steps, and two gangs that could collide no longer can."""
    texts = (
        "window(atom(<1 cpu>, 4, 4, 0.001, 0.004), 0, 0.006)",
        "window(atom(<1 cpu>, 4, 4, 0.002, 0.008), 0, 0.002)",
    )
    problem, _ = laid_out([a_request(n, t).on(CLUSTER) for n, t in zip("ab", texts, strict=True)])
    roaming, fixed = kept_starts(problem).values()
    assert (roaming.is_free, roaming.starts.tolist()) == (True, [2])
    assert (fixed.is_free, fixed.starts.tolist()) == (True, [0])


def test_of_starts_with_the_same_contended_steps_the_first_is_kept() -> None:
    """A block of two around the contended steps 2 and 3: starts 1 and 3 hold one of them each."""
    before = np.array([0, 0, 0, 1, 2, 2, 2])
    starts = KeptStarts(np.array([1, 2, 3]), before, 2).without_dominated()
    assert starts.starts.tolist() == [1, 3]
    assert [starts.dominating(start) for start in (1, 2, 3)] == [1, 1, 3]


def test_a_stop_is_heard_and_leaves_a_bound_above_every_plan() -> None:
    """Told to stop before it has begun, a solve proves nothing wrong."""
    requests = windowed_gangs(3)
    problem, _ = laid_out(requests)
    answer = solve_rigid(problem, [REFUSED] * 4, stop=lambda: True)
    assert answer.bound >= best_value(requests, CAPACITY, HORIZON) * (1 - 1e-12)
