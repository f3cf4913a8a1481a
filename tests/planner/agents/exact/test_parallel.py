"""Who works alongside whom in `exact`: plans, prices, CP-SAT, and a second search for plans."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from planner.agents.exact import parallel as pursuit
from planner.agents.exact.annealing import Annealer
from planner.agents.exact.build import build_problem
from planner.agents.exact.incumbent import (
    LEFT_OUT,
    Budget,
    Incumbent,
    ProofAnswer,
    SolveInput,
)
from planner.agents.exact.lagrangian import LagrangianBound
from planner.agents.exact.parallel import load_loops, solve_in_parallel
from planner.agents.exact.problem import PlanningProblem
from planner.placement import PlacementResult
from tests.planner.agents.exact.sets import crowded

#: Seed, first cycle, and whether prices had ended, of each search that began.
Began = list[tuple[int, int, bool]]


@pytest.fixture
def began(monkeypatch: pytest.MonkeyPatch) -> Began:
    """Note each search when it begins; column generation is cut short, so that prices end soon."""
    found: Began = []
    find, bound_done = Annealer.search_plans, [False]

    def noted(self: Annealer, done: Callable[[], bool], cycle: int = 0) -> None:
        found.append((self._search.seed, cycle, bound_done[0]))
        find(self, done, cycle)

    def over(self: LagrangianBound, rounds: int, target: float) -> None:
        self.over = bound_done[0] = True

    monkeypatch.setattr(Annealer, "search_plans", noted)
    monkeypatch.setattr(LagrangianBound, "advance", over)
    return found


def _pursued(seconds: float, prove: bool = False) -> Incumbent:
    requests, view = crowded()
    problem = build_problem(requests, view)
    load_loops(problem)
    incumbent = Incumbent(requests, view, [LEFT_OUT] * len(requests), problem.total, "nobody")
    until = time.monotonic() + seconds
    budget = Budget(until, None, 1e-3, lambda: False, time.monotonic, lambda: None)
    solve_in_parallel(incumbent, SolveInput(problem, range(len(requests)), 7, prove), budget)
    return incumbent


def test_a_second_search_takes_the_core_that_prices_leave(began: Began) -> None:
    """It begins when prices have ended, with other random numbers and at the other temperature."""
    incumbent = _pursued(0.5)
    assert sorted(began)[0][:2] == (7, 0)
    assert sorted(began)[1:] == [(8, 1, True)]
    assert incumbent.value > 0


def test_where_cp_sat_proves_there_is_one_search(
    began: Began, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CP-SAT has the other core to itself."""
    asked: list[float] = []
    monkeypatch.setattr(
        pursuit._Workers, "prove_by_cp_sat", lambda self, ended: asked.append(ended.wait(5))
    )
    _pursued(0.3, prove=True)
    assert asked
    assert [seed for seed, *_ in began] == [7]


def test_near_the_optimum_cp_sat_starts_again_alone_from_the_best_plan(
    began: Began, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first solve looks for plans too; once one is near, the second proves nothing worse."""
    asked: list[tuple[bool, int]] = []

    def solve(
        problem: PlanningProblem,
        hint: list[PlacementResult],
        seed: int,
        *,
        stop: Callable[[], bool],
        report: Callable[[ProofAnswer], None],
        near: bool,
    ) -> ProofAnswer:
        asked.append((near, sum(one.placed for one in hint)))
        report(ProofAnswer(None, 0.999 * problem.total))
        while not stop():
            time.sleep(0.01)
        return ProofAnswer(None, problem.total)

    monkeypatch.setattr(pursuit, "solve_rigid", solve)
    monkeypatch.setattr(pursuit, "_CP_SAT_ROUND_S", 0.1)
    monkeypatch.setattr(pursuit, "_NEAR", 0.9)
    _pursued(0.6, prove=True)
    assert asked[0] == (False, 0)
    assert asked[1][0]
    assert asked[1][1] > 0
