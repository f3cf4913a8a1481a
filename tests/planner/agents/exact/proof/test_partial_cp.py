"""CP-SAT on the most valuable requests first: bounds for all of them, and when it is done so."""

from __future__ import annotations

from itertools import count, pairwise
from typing import Any

import numpy as np
import pytest

from planner.agents.check import check_plan
from planner.agents.exact.incumbent import ProofAnswer
from planner.agents.exact.problem import PlanningProblem
from planner.agents.exact.proof.cp_model import value_bounds
from planner.agents.exact.proof.cp_sat import CpLimits, solve_rigid
from planner.agents.exact.proof.partial_cp import ASIDE, WIDE_GAP, PartialProof, requests_aside
from planner.value import score_of
from tests.planner.agents.exact.sets import REFUSED, laid_out
from tests.planner.brute_force_plan import best_value
from tests.planner.tiny_requests import CAPACITY, HORIZON, gangs, rigid

LIMITS = CpLimits(10.0, repeats=True)


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let CP-SAT be judged before it begins: sets as small as these could end before the look."""

    def solve(*asked: Any) -> ProofAnswer:
        asked[2].stop()
        return solve_rigid(*asked)

    monkeypatch.setattr("planner.agents.exact.proof.partial_cp.solve_rigid", solve)


@pytest.mark.parametrize("seed", range(16))
def test_who_is_left_out_counts_as_accepted(seed: int) -> None:
    """The bound is the others' optimum and what is left out; no plan of all is worth more."""
    requests = rigid(seed)
    problem, view = laid_out(requests)
    aside = tuple(np.flatnonzero(np.random.default_rng(seed).random(3) < 0.5).tolist())
    others = [request for index, request in enumerate(requests) if index not in aside]
    expected = best_value(others, CAPACITY, HORIZON) + value_bounds(problem)[list(aside)].sum()
    answer = solve_rigid(problem, [REFUSED] * 3, LIMITS, aside)
    assert answer.bound == pytest.approx(min(problem.total, expected), rel=1e-6)
    assert answer.bound >= best_value(requests, CAPACITY, HORIZON) * (1 - 1e-12)
    assert answer.results is not None
    assert all(answer.results[index] is None for index in aside)
    results = [one or REFUSED for one in answer.results]
    assert check_plan(requests, results, view) == results


def a_hopeless_one(problem: PlanningProblem, told: list[ProofAnswer]) -> PartialProof:
    """Return a proof whose look is over at once and whose end is never in sight."""
    limits = CpLimits(1e6, repeats=True, report=told.append)
    seconds = count(0.0, 0.5e6)
    return PartialProof(
        problem,
        [REFUSED] * len(problem.requests),
        limits,
        value=lambda: 0.0,
        clock=lambda: min(next(seconds), 0.9e6),
    )


@pytest.mark.usefixtures("judged")
def test_parts_end_with_what_all_requests_together_prove() -> None:
    """More and more of 24 gangs: bounds never below the optimum, and the last part proves it."""
    requests = gangs(24)
    problem, view = laid_out(requests)
    best = solve_rigid(problem, [REFUSED] * 24, LIMITS)
    told: list[ProofAnswer] = []
    parts = a_hopeless_one(problem, told)
    answer = parts.prove()
    assert parts.parts == [0, *(len(aside) for aside in requests_aside(problem))]
    assert parts.parts[1] > parts.parts[-1] == 0
    assert min(one.bound for one in told) >= best.bound * (1 - 1e-9)
    assert answer.bound == pytest.approx(best.bound, rel=1e-9)
    assert answer.results is not None
    results = [one or REFUSED for one in answer.results]
    assert score_of(requests, results, view.reference)[0] == pytest.approx(best.bound, rel=1e-6)


@pytest.mark.usefixtures("judged")
@pytest.mark.parametrize("gap", [0.0, 0.99 * WIDE_GAP])
def test_a_proof_that_is_near_goes_on_with_all(gap: float) -> None:
    """Where the gap is small when CP-SAT is judged, no request is left out."""
    problem, _ = laid_out(gangs(24))
    parts = a_hopeless_one(problem, [])
    parts.value = lambda: problem.total * (1 - gap)
    parts.prove()
    assert parts.parts == [0]


@pytest.mark.usefixtures("judged")
def test_a_stop_ends_parts_too() -> None:
    """Nothing is begun once somebody says stop, and what was told stands."""
    problem, _ = laid_out(gangs(24))
    told: list[ProofAnswer] = []
    parts = a_hopeless_one(problem, told)
    parts.limits = CpLimits(1e6, repeats=True, stop=lambda: len(parts.parts) >= 2)
    answer = parts.prove()
    assert len(parts.parts) == 2
    assert answer.bound <= problem.total


@pytest.mark.parametrize(("lowered", "parts"), [(0.0, 2), (0.1, None)])
def test_a_part_that_says_nothing_in_its_trial_ends_the_proof(
    monkeypatch: pytest.MonkeyPatch, lowered: float, parts: int | None
) -> None:
    """One that has lowered its bound goes on, and so do the parts after it."""
    problem, _ = laid_out(gangs(24))

    def solve(*asked: Any) -> ProofAnswer:
        if asked[3]:
            asked[2].report(ProofAnswer(None, problem.total * (1 - lowered)))
        while not asked[2].stop() and asked[2].time_s > 0:
            asked[2].report(ProofAnswer(None, problem.total))
            if next(ticks) % 40 == 39:
                break
        return ProofAnswer(None, problem.total)

    ticks, seconds = count(), count(0.0, 0.01)
    monkeypatch.setattr("planner.agents.exact.proof.partial_cp.solve_rigid", solve)
    proof = PartialProof(
        problem, [], CpLimits(1.0), value=lambda: 0.0, clock=lambda: min(next(seconds), 0.9)
    )
    proof.prove()
    wanted = len(requests_aside(problem)) + 1 if parts is None else parts
    assert (proof.gave_up, len(proof.parts)) == (parts is not None, wanted)


def test_of_many_starts_the_bound_may_fall_for_twice_as_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A bound that falls is judged later than one that has not begun to."""
    monkeypatch.setattr("planner.agents.exact.proof.partial_cp.MOST_STARTS", 0)
    problem, _ = laid_out(gangs(24))
    judged: list[tuple[float, bool]] = []

    def solve(*asked: Any) -> ProofAnswer:
        for now in (0.14, 0.16, 0.29, 0.31):
            clock[0] = now
            asked[2].report(ProofAnswer(None, problem.total * 0.9))
            judged.append((now, asked[2].stop()))
        return ProofAnswer(None, problem.total)

    clock = [0.0]
    monkeypatch.setattr("planner.agents.exact.proof.partial_cp.solve_rigid", solve)
    PartialProof(problem, [], CpLimits(1.0), value=lambda: 0.0, clock=lambda: clock[0]).prove()
    assert judged[:4] == [(0.14, False), (0.16, False), (0.29, False), (0.31, True)]


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_no_time_left_is_no_fault(seconds: float) -> None:
    """Where the limit is over before CP-SAT begins, there is a bound all the same."""
    problem, _ = laid_out(gangs(24))
    limits = CpLimits(seconds)
    parts = PartialProof(problem, [REFUSED] * 24, limits, value=lambda: 0.0)
    assert 0.0 < parts.prove().bound <= problem.total
    assert parts.parts == [0]


def test_the_least_valuable_are_left_out_and_those_to_be_kept_never() -> None:
    """Each part holds the one before and leaves out no more value than it says."""
    problem, _ = laid_out(gangs(24))
    keep = np.zeros(24)
    least = int(np.argmin(value_bounds(problem)))
    keep[least] = 1.0
    forest = problem.forest._replace(keep=keep)
    kept = PlanningProblem(problem.requests, forest, problem.room, problem.base, problem.rows)
    parts = requests_aside(kept)
    assert parts[-1] == ()
    for more, fewer in pairwise(parts):
        assert set(fewer) < set(more)
    for aside in parts:
        inside = [value_bounds(problem)[i] for i in range(24) if i not in aside and i != least]
        assert least not in aside
        assert sum(value_bounds(problem)[i] for i in aside) <= max(ASIDE) * problem.total
        assert all(value_bounds(problem)[i] <= min(inside) for i in aside)
