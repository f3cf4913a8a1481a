"""Plans as runs of single bundles: laid out, moved at random, written back."""

from __future__ import annotations

import numpy as np
import pytest

import planner.agents.exact.problem as pb
from planner.agents.check import satisfies
from planner.agents.exact.build import build_problem
from planner.agents.exact.kernels import runs as loops
from planner.agents.exact.kernels import search_state as state
from planner.agents.exact.kernels.runs import A_LEASE, A_UNIT, A_VERTEX, RunSet
from planner.agents.exact.overload import lay_out
from planner.agents.exact.search import RuinRecreate
from planner.plan.plan import Plan
from planner.request import Request
from tests.builders import a_cluster, a_request
from tests.examples import some_of
from tests.planner.agents.exact.sets import planned, small
from tests.planner.tiny_requests import CLUSTER, tiny_requests

#: Recurrences with orders inside and after them, and gaps with a largest length at groups.
NESTED = (
    "window(order(every(15, order(atom(<1 cpu>, 1, 2, 2, 8), atom(<1 cpu>, 1, 2, 2, 6), gap=0..2), "
    "times=3), atom(<1 cpu>, 1, 3, 3, 9), gap=0..4), 0, 60)",
    "window(order(all(atom(<1 cpu>, 1, 3, 3, 12), atom(<1 cpu>, 2, 2, 4, 8)), "
    "all(atom(<1 cpu>, 1, 2, 2, 6), atom(<1 cpu>, 2, 3, 2, 10)), gap=1..3), 0, 60)",
    "window(order(atom(<1 cpu>, 1, 2, 3, 9), every(12, all(atom(<1 cpu>, 1, 2, 2, 8), "
    "atom(<1 cpu>, 1, 1, 3, 3)), times=3), gap=0..5), 5, 60)",
)


def nested(seed: int) -> tuple[list[Request], RuinRecreate]:
    """Return recurrences and groups with largest gaps, and a search that has a plan of them."""
    cluster = a_cluster().machines("m", 12, cpu=1).build()
    requests = [a_request(f"r{i}", text).on(cluster) for i, text in enumerate(NESTED)]
    view = Plan(cluster, cluster.grid()).view()
    search = planned(requests, build_problem(requests, view), seed)
    assert all(result is not None for result in search.plan())
    return requests, search


def tiny(seed: int) -> tuple[list[Request], RuinRecreate]:
    """Return a tiny set over all operators, or every fourth time a nested one, and a plan of it."""
    if seed % 4 == 3:
        return nested(seed)
    requests = tiny_requests(seed)
    view = Plan(CLUSTER, CLUSTER.grid()).view()
    return requests, planned(requests, build_problem(requests, view), seed)


def shuffle(search: RuinRecreate, runs: RunSet, rounds: int = 4) -> None:
    """Move runs at random as if everything were full, in windows drawn again each round."""
    problem = search.problem
    runs.free[:] -= 10**9
    runs.over[0] = 10**9
    for _ in range(rounds):
        loops.draw_windows(problem.forest, search.arrays, runs)
        loops.reduce_overload(problem.forest, problem.room, runs, 2000, 1e30, 1e30)
    runs.free[:] += 10**9


@pytest.mark.parametrize("kind", ["malleable", "gangs", "workflows", "mixed"])
def test_what_is_laid_out_is_written_back_as_it_was(kind: str) -> None:
    """Rows, values and what is free come back from runs that no one moved."""
    requests, view = small(kind)
    search = planned(requests, build_problem(requests, view), 3)
    before, value = search.plan(), search.value
    runs = lay_out(search.problem, search, state.random_state(1))
    assert (runs.free == search.arrays.free).all()
    assert runs.over[0] == 0
    loops.write_plan(search.problem.forest, search.arrays, runs)
    assert search.value == pytest.approx(value)
    for old, new in zip(before, search.plan(), strict=True):
        assert (old is None) == (new is None)
        if old is not None and new is not None:
            assert (old.rows == new.rows).all()
            assert old.choices == new.choices


@pytest.mark.parametrize("seed", some_of(range(40), 10))
def test_runs_keep_leases_and_do_the_work(seed: int) -> None:
    """Also after moves each run is a lease long at least, and an atom's runs do all its work."""
    _, search = tiny(seed)
    runs = lay_out(search.problem, search, state.random_state(seed))
    shuffle(search, runs)
    lengths = runs.run[:, 2] - runs.run[:, 1]
    assert (lengths >= runs.atom[runs.run[:, 0], A_LEASE]).all()
    for k, atom in enumerate(runs.atom):
        own = slice(runs.first[k], runs.first[k + 1])
        row = search.problem.forest.vertices[atom[A_VERTEX]]
        assert lengths[own].sum() * atom[A_UNIT] == row[pb.V_WORK]


@pytest.mark.parametrize("seed", some_of(range(60), 15))
def test_no_move_breaks_a_rule_of_a_request(seed: int) -> None:
    """Windows, order, gaps, heights and leases hold wherever runs are moved: the oracle says so."""
    requests, search = tiny(seed)
    runs = lay_out(search.problem, search, state.random_state(seed))
    shuffle(search, runs)
    loops.write_plan(search.problem.forest, search.arrays, runs)
    for request, result in zip(requests, search.plan(), strict=True):
        assert result is None or satisfies(request, result)


def test_moves_do_move() -> None:
    """Of forty tiny plans most look different after moves at random: else the tests show little."""
    changed = 0
    for seed in range(40):
        _, search = tiny(seed)
        runs = lay_out(search.problem, search, state.random_state(seed))
        before = runs.run.copy()
        shuffle(search, runs)
        changed += int((runs.run != before).any())
    assert changed >= 20


@pytest.mark.parametrize("seed", some_of(range(40), 10))
def test_what_is_free_follows_every_move(seed: int) -> None:
    """What runs leave free after moves is what the plan leaves free that is written from them."""
    _, search = tiny(seed)
    problem = search.problem
    runs = lay_out(problem, search, state.random_state(seed))
    shuffle(search, runs)
    loops.write_plan(problem.forest, search.arrays, runs)
    again = lay_out(problem, search, state.random_state(seed))
    assert (again.free == runs.free).all()
    assert np.array_equal(np.sort(again.held), np.sort(runs.held))


def test_a_request_of_too_many_pieces_is_left_out() -> None:
    """Where a search has no slots for an atom's pieces its request is refused, not cut."""
    requests, view = small("malleable")
    search = planned(requests, build_problem(requests, view), 3)
    runs = lay_out(search.problem, search, state.random_state(1))
    vertex = int(runs.atom[0, A_VERTEX])
    request = int(search.problem.forest.vertices[vertex, pb.V_REQUEST])
    search.arrays.first[vertex + 1 :] -= (
        search.arrays.first[vertex + 1] - search.arrays.first[vertex]
    )
    loops.write_plan(search.problem.forest, search.arrays, runs)
    assert search.arrays.held[state.KEPT, request] == 0
    assert search.arrays.worth[state.KEPT, request] == 0


@pytest.mark.parametrize("seed", range(20))
def test_what_is_over_is_counted_exactly(seed: int) -> None:
    """However many moves were made, the count says whether the plan takes more than there is."""
    _, search = tiny(seed)
    problem = search.problem
    runs = lay_out(problem, search, state.random_state(seed))
    runs.free[:] -= problem.room.demand_amounts.max(initial=0)
    for moves_made in (0, 1, 500, 5000):
        loops.draw_windows(problem.forest, search.arrays, runs)
        runs.over[0] = int((runs.free < 0).sum())
        loops.reduce_overload(problem.forest, problem.room, runs, moves_made, 1.0, 0.1)
        assert runs.over[0] == (runs.free < 0).sum()
        assert (loops.overload_cost(runs) == 0) == (runs.over[0] == 0)


@pytest.mark.parametrize("seed", some_of(range(40), 10))
def test_an_atom_holds_what_its_runs_hold(seed: int) -> None:
    """After moves an atom's count in each column is its runs there, and no more than may be."""
    _, search = tiny(seed)
    runs = lay_out(search.problem, search, state.random_state(seed))
    shuffle(search, runs)
    counted = np.zeros_like(runs.held)
    for atom, begin, end in runs.run:
        start = search.problem.forest.vertices[runs.atom[atom, A_VERTEX], pb.V_START]
        cells = runs.cell[atom] - start
        counted[cells + begin : cells + end] += 1
    assert np.array_equal(counted, runs.held)
    assert (runs.held <= runs.most).all()
