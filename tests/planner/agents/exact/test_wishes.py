"""Where free room is wished for, and that it only decides between plans of about one value."""

from __future__ import annotations

import numpy as np
import pytest

from bench.workloads.large_pieces import LargePieces, large_pieces
from planner.agents.exact.build import build_problem
from planner.agents.exact.move_mixes import LARGE_PIECES
from planner.agents.exact.problem import PlanningProblem
from planner.agents.exact.ruin_recreate import RuinRecreate
from planner.agents.exact.wishes import wishes_of
from planner.plan.plan import Plan
from tests.builders import a_cluster, a_request
from tests.planner.agents.exact.sets import REFUSED


def problem_of(*texts: str) -> PlanningProblem:
    """Return requests on four machines of one core, for 100 columns."""
    cluster = a_cluster().horizon("100s").machines("m", 4, cpu=1, memory="8 GiB").build()
    asked = [a_request(f"r{i}", text).on(cluster) for i, text in enumerate(texts)]
    return build_problem(asked, Plan(cluster, cluster.grid()).view())


def test_room_is_wished_for_where_windows_meet() -> None:
    """Two windows meet in the middle: free room counts for a plan there, against it elsewhere."""
    one = problem_of(
        "window(atom(<1 cpu>, 1, 2, 5, 60), 0, 60)", "window(atom(<1 cpu>, 1, 2, 5, 60), 40, 100)"
    )
    wish = wishes_of(one)
    row = int(np.flatnonzero(wish.any(axis=1))[0])
    assert (wish[row, 40:60] > 0).all()
    assert (wish[row, :40] < 0).all()
    assert (wish[row, 60:] < 0).all()


def test_occurrences_are_asked_where_they_come() -> None:
    """Work that comes twice is asked in both of its windows and not between."""
    wish = wishes_of(problem_of("window(every(50, atom(<1 cpu>, 2, 2, 5, 10), times=2), 0, 100)"))
    held = wish[int(np.flatnonzero(wish.any(axis=1))[0])]
    assert held.max() <= wish.max()
    assert np.allclose(held[:50], held[50:])


def test_free_room_never_counts_more_than_work_there() -> None:
    """What a core counts is at most the mean worth of work on it, so what fits always gains."""
    one = problem_of(
        "window(atom(<1 cpu>, 1, 2, 5, 60), 0, 60)", "window(atom(<1 cpu>, 1, 2, 5, 60), 40, 100)"
    )
    core = int(one.room.demand_amounts[0])
    assert 0 < wishes_of(one).max() <= one.total / (120 * core) * (1 + 1e-9)
    assert LARGE_PIECES.wished < 1


@pytest.mark.parametrize("weight", [0.0, 0.7])
def test_the_best_plan_is_kept_by_value_alone(weight: float) -> None:
    """Whatever free room counts, the value of the best plan is the sum of what it accepts."""
    cluster, requests = large_pieces(LargePieces("workflows", seed=2, requests=24))
    problem = build_problem(requests, Plan(cluster, cluster.grid()).view())
    search = RuinRecreate(problem, seed=1)
    search.load([REFUSED] * len(requests))
    found = 0.0
    for temperature in (problem.total / 50, 0.0):
        search.run(150, LARGE_PIECES._replace(wished=weight), temperature)
        assert search.value >= found
        found = search.value
    assert found == pytest.approx(float(search.arrays.worth[2].sum()))
