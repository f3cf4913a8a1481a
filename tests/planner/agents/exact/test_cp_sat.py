"""Sets of blocks: CP-SAT proves what prices do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bench.cases.exact.exact_rcpsp import published
from bench.workloads.exact_shapes import narrow
from bench.workloads.rcpsp import Project, read_archive, read_rcp, read_sm, shortest
from planner.agent import Limits
from planner.agents import agent_named
from planner.agents.check import check_plan
from planner.agents.exact.agent import EXACT
from planner.agents.exact.cp_sat import solve_rigid, suits_cp_sat
from planner.agents.exact.incumbent import ProofAnswer
from planner.plan.plan import Plan
from planner.request import Request
from planner.value import score_of
from tests.builders import a_request
from tests.examples import some_of
from tests.patience import stopwatch
from tests.planner.agents.exact.sets import REFUSED, laid_out
from tests.planner.brute_force_plan import best_value
from tests.planner.tiny_requests import (
    CAPACITY,
    CLUSTER,
    HORIZON,
    gangs,
    nested_blocks,
    rigid,
    tiny_requests,
)


@pytest.mark.parametrize("seed", some_of(range(40), 10))
@pytest.mark.parametrize("draw", [rigid, nested_blocks])
def test_cp_sat_proves_the_best_plan_of_blocks(
    draw: Callable[[int], list[Request]], seed: int
) -> None:
    """Value and bound are those of full enumeration, and what is placed passes the check."""
    requests = draw(seed)
    problem, view = laid_out(requests)
    assert suits_cp_sat(problem)
    hint = [REFUSED] * len(requests)
    answer = solve_rigid(problem, hint, repeats=True)
    assert answer.results is not None
    results = [one or REFUSED for one in answer.results]
    assert check_plan(requests, results, view) == results
    best = best_value(requests, CAPACITY, HORIZON)
    assert score_of(requests, results, view.reference)[0] == pytest.approx(best)
    assert best * (1 - 1e-12) <= answer.bound <= best * (1 + 1e-6)


@pytest.mark.parametrize("seed", some_of(range(20), 8))
def test_tiny_sets_are_solved_to_the_optimum(seed: int) -> None:
    """Whatever the operators, the agent proves what full enumeration finds."""
    requests = tiny_requests(seed)
    _, view = laid_out(requests)
    _, report = EXACT.solve(requests, view, Limits(time_s=20.0, gap=0.0))
    best = best_value(requests, CAPACITY, HORIZON)
    assert report.status == "optimal"
    assert report.value == pytest.approx(best)


def test_malleable_requests_are_not_rigid() -> None:
    """A set with one atom that may bend goes to prices."""
    bent = a_request("r", "atom(<1 cpu>, 1, 4, 0.001, 0.008)").on(CLUSTER)
    assert not suits_cp_sat(laid_out([*rigid(0), bent])[0])


def test_a_shorter_makespan_than_the_arrows_allow_is_refused_by_proof() -> None:
    """Three jobs of 2 on one unit, one of them last: 6 is the optimum, and proven."""
    project = Project("p", (0, 2, 2, 2, 0), ((0,), (1,), (1,), (1,), (0,)),
                      ((0, 1), (0, 2), (1, 3), (2, 3), (3, 4)), (1,))  # fmt: skip
    found = shortest(project, 10.0)
    assert (found.length, found.proven) == (6, True)


def test_files_of_both_kinds_say_the_same() -> None:
    """The same small project, written as PSPLIB and as Patterson write it."""
    sm = """PRECEDENCE RELATIONS:
jobnr. #modes #successors successors
 1 1 2 2 3
 2 1 1 4
 3 1 1 4
 4 1 0
***
REQUESTS/DURATIONS:
jobnr. mode duration R 1 R 2
---
 1 1 0 0 0
 2 1 3 1 2
 3 1 4 2 0
 4 1 0 0 0
***
RESOURCEAVAILABILITIES:
 R 1 R 2
 2 2
"""
    rcp = "4 2\n2 2\n0 0 0 2 2 3\n3 1 2 1 4\n4 2 0 1 4\n0 0 0 0\n"
    assert read_sm("p", sm) == read_rcp("p", rcp)
    assert shortest(read_sm("p", sm), 10.0).length == 7


@pytest.mark.traces
@pytest.mark.parametrize("stem", ["j30_dev", "patterson"])
def test_published_makespans_are_found_and_proven(traces: Path, stem: str) -> None:
    """On three projects of each set, the published optimum and its proof."""
    folder = traces / "rcpsp"
    optima = published(folder, stem)
    projects = list(read_archive(folder / f"{stem}.tar.gz"))
    for project in projects[:: len(projects) // 3][:3]:
        found = shortest(project, 30.0)
        assert (found.length, found.proven) == (optima[project.name], True)


def test_a_set_of_gangs_is_proven_where_prices_leave_a_gap() -> None:
    """Three gangs of three on a cluster of four, each alone in a window: CP-SAT proves one fits."""
    texts = ["window(atom(<1 cpu>, 3, 3, 0.004, 0.012), 0, 0.006)"] * 3
    requests = [a_request(f"r{i}", text).on(CLUSTER) for i, text in enumerate(texts)]
    _, view = laid_out(requests)
    results, report = EXACT.solve(requests, view, Limits(time_s=20.0))
    assert report.status == "optimal"
    assert sum(one.placed for one in results) == 1
    assert agent_named("exact") is EXACT


def test_what_cp_sat_tells_on_the_way_only_gets_better() -> None:
    """Bounds told fall, none is below what it ends with, and every plan told passes the check."""
    requests = gangs(14)
    problem, view = laid_out(requests)
    told: list[ProofAnswer] = []
    answer = solve_rigid(problem, [REFUSED] * 14, report=told.append)
    bounds = [one.bound for one in told]
    assert answer.results is not None
    assert bounds == sorted(bounds, reverse=True)
    assert all(bound >= answer.bound for bound in bounds)
    for one in told:
        if one.results is not None:
            results = [result or REFUSED for result in one.results]
            assert check_plan(requests, results, view) == results
            assert score_of(requests, results, view.reference)[0] <= answer.bound * (1 + 1e-9)


def test_cp_sat_alongside_the_search_ends_both_by_its_proof() -> None:
    """Two dozen gangs that exclude each other: optimal long before the limit, as it says alone."""
    requests = gangs(24)
    problem, view = laid_out(requests)
    alone = solve_rigid(problem, [REFUSED] * 24, repeats=True)
    with stopwatch() as taken:
        _, report = EXACT.solve(requests, view, Limits(time_s=60.0, gap=0.0))
    assert taken.seconds < 30.0
    assert report.status == "optimal"
    assert report.value == pytest.approx(alone.bound, rel=1e-6)


def test_a_set_that_is_not_proven_ends_at_its_limit() -> None:
    """A hundred gangs that CP-SAT does not prove in a second: over within seconds more."""
    cluster, requests = narrow(1, 1.2)
    view = Plan(cluster, cluster.grid()).view()
    EXACT.solve(requests[:10], view, Limits(work=20))  # load what is compiled
    with stopwatch() as taken:
        _, report = EXACT.solve(requests, view, Limits(time_s=1.0, gap=0.0))
    assert taken.seconds < 1.0 + 10.0
    assert report.status == "feasible"
    assert 0.0 < report.gap < 0.3
