"""Which moves the search makes on a set, and that moves of every kind keep the rules of a plan."""

from __future__ import annotations

import pytest

from bench.workloads.exact_shapes import wide
from bench.workloads.large_pieces import LargePieces, large_pieces
from planner.agents.check import check_plan
from planner.agents.exact.build import build_problem
from planner.agents.exact.problem import PlanningProblem
from planner.agents.exact.search import (
    LARGE_PIECES,
    LARGE_SINGLE,
    SINGLE,
    SMALL_PIECES,
    RuinRecreate,
    mean_height,
    mix_of,
)
from planner.plan.plan import Plan
from planner.request import Request
from planner.value import score_of
from planner.view import PlanView
from tests.planner.agents.exact.sets import REFUSED, small


def large(kind: str, requests: int = 24) -> tuple[list[Request], PlanView]:
    """Return a small set of the second generator."""
    cluster, asked = large_pieces(LargePieces(kind, seed=1, requests=requests))
    return asked, Plan(cluster, cluster.grid()).view()


def problem_of(one: tuple[list[Request], PlanView]) -> PlanningProblem:
    """Return the arrays of a set."""
    return build_problem(*one)


def test_plans_of_moves_for_large_gangs_pass_the_check() -> None:
    """Gangs that stay where they can, hot or cold, break no rule."""
    cluster, requests = wide(2, 1.2)
    view = Plan(cluster, cluster.grid()).view()
    search = RuinRecreate(build_problem(requests, view), seed=3)
    for temperature in (1e9, search.problem.total / 50, 0.0):
        search.run(2000, LARGE_SINGLE, temperature)
        results = [result or REFUSED for result in search.plan()]
        assert check_plan(requests, results, view) == results
        assert score_of(requests, results, view.reference)[0] == pytest.approx(search.value)


@pytest.mark.parametrize("kind", ["workflows", "mixed"])
def test_plans_of_moves_for_large_pieces_pass_the_check(kind: str) -> None:
    """Pushed to one side or not, hot or cold, no part of the best plan breaks a rule."""
    requests, view = large(kind)
    search = RuinRecreate(build_problem(requests, view), seed=3)
    search.load([REFUSED] * len(requests))
    for temperature in (1e9, search.problem.total / 50, 0.0):
        search.run(150, LARGE_PIECES, temperature)
        results = [result or REFUSED for result in search.plan()]
        kept = check_plan(requests, results, view)
        assert [one.placed for one in kept] == [one.placed for one in results]
        assert score_of(requests, results, view.reference)[0] == pytest.approx(search.value)
    assert search.value > 0


def test_pushed_moves_keep_what_may_not_be_lost() -> None:
    """Where every move pushes, a kept request is in the best and in the present plan."""
    requests, view = large("mixed")
    search = RuinRecreate(build_problem(requests, view), seed=1)
    search.load([REFUSED] * len(requests))
    search.run(200, LARGE_PIECES, 0.0)
    standing = [result or REFUSED for result in search.plan()]
    kept = [index for index, one in enumerate(standing) if one.placed]
    again = RuinRecreate(build_problem(requests, view, kept), seed=1)
    again.load(standing)
    for temperature in (1e9, 0.0):
        again.run(150, LARGE_PIECES._replace(pushed=1.0), temperature)
        assert all(again.plan()[index] is not None for index in kept)
        assert (again.arrays.held[0][kept] == 1).all()


def test_each_set_has_the_moves_for_its_pieces() -> None:
    """Single atoms, small pieces and large ones are distinguished by how high they are."""
    assert mix_of(problem_of(small("malleable"))) == SINGLE
    cluster, gangs = wide(1, 1.2)
    view = Plan(cluster, cluster.grid()).view()
    assert mix_of(problem_of((gangs, view))) == LARGE_SINGLE
    assert mix_of(problem_of(small("workflows"))) == SMALL_PIECES
    assert mix_of(problem_of(large("workflows"))) == LARGE_PIECES
    assert mean_height(problem_of(small("workflows"))) < mean_height(problem_of(large("workflows")))


def test_no_more_requests_are_taken_out_than_there_are() -> None:
    """Three requests: at most three go, and at most twice as many are tried."""
    mix = mix_of(problem_of(large("workflows", requests=3)))
    assert (mix.most, mix.tries) == (3, LARGE_PIECES.tries)
