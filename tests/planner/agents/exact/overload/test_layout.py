"""Plans as runs of single bundles: laid out, moved at random, written back."""

from __future__ import annotations

import numpy as np
import pytest

import planner.agents.exact.problem as pb
from planner.agents.check import satisfies
from planner.agents.exact.build import build_problem
from planner.agents.exact.kernels import search_state as state
from planner.agents.exact.overload import layout, moves
from planner.agents.exact.overload.run_set import A_LEASE, A_UNIT, A_VERTEX, RunSet
from planner.agents.exact.overload.search import lay_out
from planner.agents.exact.ruin_recreate import RuinRecreate
from planner.plan.plan import Plan
from planner.request import Request
from tests.planner.agents.exact.sets import planned, small
from tests.planner.tiny_requests import CLUSTER, tiny_requests


def tiny(seed: int) -> tuple[list[Request], RuinRecreate]:
    """Return a tiny set over all operators, and a search that has a plan of it."""
    requests = tiny_requests(seed)
    view = Plan(CLUSTER, CLUSTER.grid()).view()
    return requests, planned(requests, build_problem(requests, view), seed)


def shuffle(search: RuinRecreate, runs: RunSet, rounds: int = 4) -> None:
    """Move runs at random as if everything were full, in windows drawn anew each round."""
    problem = search.problem
    runs.free[:] -= 10**9
    runs.cost[0] = 1e30
    for _ in range(rounds):
        layout.draw_windows(problem.forest, search.arrays, runs)
        moves.reduce_overload(problem.forest, problem.room, runs, 2000, 1e30, 1e30)
    runs.free[:] += 10**9


@pytest.mark.parametrize("kind", ["malleable", "gangs", "workflows", "mixed"])
def test_what_is_laid_out_is_written_back_as_it_was(kind: str) -> None:
    """Rows, values and what is free come back from runs that nobody moved."""
    requests, view = small(kind)
    search = planned(requests, build_problem(requests, view), 3)
    before, value = search.plan(), search.value
    runs = lay_out(search.problem, search, 1)
    assert (runs.free == search.arrays.free).all()
    assert runs.cost[0] == 0
    layout.write_plan(search.problem.forest, search.arrays, runs)
    assert search.value == pytest.approx(value)
    for old, new in zip(before, search.plan(), strict=True):
        assert (old is None) == (new is None)
        if old is not None and new is not None:
            assert (old.rows == new.rows).all()
            assert old.choices == new.choices


@pytest.mark.parametrize("seed", range(40))
def test_runs_keep_leases_and_do_the_work(seed: int) -> None:
    """Also after moves each run is a lease long at least, and an atom's runs do all its work."""
    _, search = tiny(seed)
    runs = lay_out(search.problem, search, seed)
    shuffle(search, runs)
    lengths = runs.run[:, 2] - runs.run[:, 1]
    assert (lengths >= runs.atom[runs.run[:, 0], A_LEASE]).all()
    for k, atom in enumerate(runs.atom):
        own = slice(runs.first[k], runs.first[k + 1])
        row = search.problem.forest.vertices[atom[A_VERTEX]]
        assert lengths[own].sum() * atom[A_UNIT] == row[pb.V_WORK]


@pytest.mark.parametrize("seed", range(60))
def test_no_move_breaks_a_rule_of_a_request(seed: int) -> None:
    """Windows, order, gaps, heights and leases hold wherever runs are moved: the oracle says so."""
    requests, search = tiny(seed)
    runs = lay_out(search.problem, search, seed)
    shuffle(search, runs)
    layout.write_plan(search.problem.forest, search.arrays, runs)
    for request, result in zip(requests, search.plan(), strict=True):
        assert result is None or satisfies(request, result)


def test_moves_do_move() -> None:
    """Of forty tiny plans most look different after moves at random: else the tests show little."""
    changed = 0
    for seed in range(40):
        _, search = tiny(seed)
        runs = lay_out(search.problem, search, seed)
        before = runs.run.copy()
        shuffle(search, runs)
        changed += int((runs.run != before).any())
    assert changed >= 20


@pytest.mark.parametrize("seed", range(40))
def test_what_is_free_follows_every_move(seed: int) -> None:
    """What runs leave free after moves is what the plan leaves free that is written from them."""
    _, search = tiny(seed)
    problem = search.problem
    runs = lay_out(problem, search, seed)
    shuffle(search, runs)
    layout.write_plan(problem.forest, search.arrays, runs)
    again = lay_out(problem, search, seed)
    assert (again.free == runs.free).all()
    assert np.array_equal(np.sort(again.held), np.sort(runs.held))


def test_a_request_of_too_many_pieces_is_left_out() -> None:
    """Where a search has no slots for an atom's pieces its request is refused, not cut."""
    requests, view = small("malleable")
    search = planned(requests, build_problem(requests, view), 3)
    runs = lay_out(search.problem, search, 1)
    vertex = int(runs.atom[0, A_VERTEX])
    request = int(search.problem.forest.vertices[vertex, pb.V_REQUEST])
    search.arrays.first[vertex + 1 :] -= (
        search.arrays.first[vertex + 1] - search.arrays.first[vertex]
    )
    layout.write_plan(search.problem.forest, search.arrays, runs)
    assert search.arrays.held[state.KEPT, request] == 0
    assert search.arrays.worth[state.KEPT, request] == 0


@pytest.mark.parametrize("seed", range(20))
def test_the_cost_is_nought_exactly_where_nothing_is_over(seed: int) -> None:
    """However many moves were made, the cost says whether the plan takes more than there is."""
    _, search = tiny(seed)
    problem = search.problem
    runs = lay_out(problem, search, seed)
    runs.free[:] -= problem.room.demand_amounts.max(initial=0)
    for moves_made in (0, 1, 500, 5000):
        layout.draw_windows(problem.forest, search.arrays, runs)
        runs.cost[0] = 1.0
        moves.reduce_overload(problem.forest, problem.room, runs, moves_made, 1.0, 0.1)
        assert (runs.cost[0] == 0) == bool((runs.free >= 0).all())
