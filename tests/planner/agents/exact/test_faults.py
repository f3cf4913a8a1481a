"""A fault in the search of `exact` costs what it would have found, never the plan in hand."""

from __future__ import annotations

import logging

import pytest

from planner.agent import BoundError, Limits, SolverOutcome
from planner.agents import agent_named
from planner.agents.check import check_plan
from planner.agents.exact import agent as agent_module
from planner.agents.exact import parallel as ready
from planner.agents.exact.agent import EXACT
from planner.agents.exact.build import build_problem
from planner.agents.exact.incumbent import LEFT_OUT, Budget, Incumbent, SolveInput
from planner.agents.exact.parallel import solve_in_parallel
from planner.value import score_of
from tests.planner.agents.exact.sets import crowded


def _broken(*_: object) -> None:
    raise ZeroDivisionError("a price of nothing")


def test_the_greedy_plan_outlives_a_fault(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The status is `failed`, the detail names the fault, the log has it with its traceback."""
    requests, view = crowded("malleable")
    start = agent_named(EXACT.start).plan(requests, view, Limits())
    monkeypatch.setattr(agent_module, "solve_first", _broken)
    with caplog.at_level(logging.ERROR):
        results, report = EXACT.solve(requests, view, Limits(work=50))
    value = score_of(requests, start, view.reference)[0]
    assert report.status == SolverOutcome.FAILED
    assert "ZeroDivisionError: a price of nothing" in report.detail
    assert report.value == pytest.approx(score_of(requests, results, view.reference)[0])
    assert report.bound >= report.value >= value * (1 - 1e-12)
    assert sum(one.placed for one in results) == sum(
        one.placed for one in check_plan(requests, results, view)
    )
    [told] = [one for one in caplog.records if one.exc_info]
    assert told.exc_info is not None
    assert told.exc_info[0] is ZeroDivisionError


def test_what_the_search_had_found_outlives_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """A better plan that was checked before the fault is the answer, not the start."""
    requests, view = crowded()
    whole = EXACT.solve(requests, view, Limits(work=400))[1]

    def better_then_broken(incumbent: Incumbent, field: SolveInput, budget: Budget) -> None:
        solve_in_parallel(incumbent, field, budget)
        _broken()

    monkeypatch.setattr(agent_module, "solve_in_parallel", better_then_broken)
    report = EXACT.solve(requests, view, Limits(work=400))[1]
    assert whole.source != EXACT.start
    assert (report.value, report.bound, report.source) == (whole.value, whole.bound, whole.source)
    assert report.status == SolverOutcome.FAILED


def test_a_wrong_bound_is_never_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound below a checked plan says that one of the two is wrong: it still raises."""
    requests, view = crowded("malleable")

    def wrong(incumbent: Incumbent, *_: object) -> None:
        incumbent.lower(incumbent.value / 2, "a fault")

    monkeypatch.setattr(agent_module, "solve_first", wrong)
    with pytest.raises(BoundError):
        EXACT.solve(requests, view, Limits(work=50))


def test_a_bound_below_what_filling_adds_is_not_hidden_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What greedy filling places after the search counts against the bound too."""
    requests, view = crowded("malleable")

    def nothing_fits(incumbent: Incumbent, *_: object) -> None:
        incumbent.results, incumbent.score = [LEFT_OUT] * len(requests), (0.0, 0)
        incumbent.lower(0.0, "a fault")

    monkeypatch.setattr(agent_module, "solve_first", nothing_fits)
    with pytest.raises(BoundError, match="a fault"):
        EXACT.solve(requests, view, Limits(work=50))


def test_loops_count_as_loaded_only_once_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a fault on the way the next call loads them; the one after has nothing to do."""
    requests, view = crowded()
    problem = build_problem(requests[:1], view)
    monkeypatch.setattr(ready, "_ready", [])
    with monkeypatch.context() as broken:
        broken.setattr(ready, "evaluate", _broken)
        with pytest.raises(ZeroDivisionError):
            ready.load_loops(problem)
    assert ready.load_loops(problem)
    assert not ready.load_loops(problem)
