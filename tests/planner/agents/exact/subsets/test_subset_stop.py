"""A stop, or a gap reached elsewhere, ends the question that the proof by subsets waits for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future

import numpy as np
import pytest

from planner.agents.exact.budget import Budget
from planner.agents.exact.build import build_problem
from planner.agents.exact.parallel import _Workers
from planner.agents.exact.subsets import proof as proof_module
from planner.agents.exact.subsets.answer import SubsetAnswer, SubsetVerdict
from planner.agents.exact.subsets.levels import level_book
from planner.agents.exact.subsets.prices import LevelPrices
from planner.agents.exact.subsets.solver_group import SolverGroup
from planner.agents.exact.subsets.step_check import StepCheck
from planner.plan.plan import Plan
from tests.builders import a_request
from tests.planner.agents.exact.proof.whole_sets import AGES, whole_of
from tests.planner.tiny_requests import CLUSTER, gangs


class _HardQuestion:
    """A solver that never answers and hears only the fifth stop: two threads, two looks."""

    def __init__(self) -> None:
        self.began, self._ended = threading.Event(), threading.Event()
        self.stops = 0

    def solve(self, model: object) -> None:
        self.began.set()
        assert self._ended.wait(AGES)

    def stop_search(self) -> None:
        self.stops += 1
        if self.stops >= 5:
            self._ended.set()


class _HardCheck:
    """Asks one hard question about every subset."""

    def __init__(self, question: _HardQuestion, solvers: SolverGroup) -> None:
        self._question, self._solvers = question, solvers

    def place(self, subset: Sequence[int], time_s: float) -> SubsetAnswer:
        self._solvers.solve(self._question, None)
        return SubsetAnswer(SubsetVerdict.OPEN, 0.0)


def _stop(budget: Budget, stop: threading.Event) -> None:
    stop.set()


def _reach_gap(budget: Budget, stop: threading.Event) -> None:
    budget.gap = 1.0


@pytest.mark.parametrize("end", [_stop, _reach_gap])
def test_a_question_is_stopped_until_it_hears(
    end: Callable[[Budget, threading.Event], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its solver is told at every look until it ends, and no other question begins."""
    requests = gangs(6)
    incumbent, other = whole_of(requests, Plan(CLUSTER, CLUSTER.grid()).view())
    question = _HardQuestion()
    monkeypatch.setattr(proof_module, "check_of", lambda *inputs: _HardCheck(question, inputs[-1]))
    workers = _Workers(incumbent, other.solve_input, other.budget)
    bound: Future[None] = Future()
    bound.set_result(None)
    stop = threading.Event()
    proof = threading.Thread(target=workers.prove_by_subsets, args=(bound, stop), daemon=True)
    proof.start()
    assert question.began.wait(60)
    end(other.budget, stop)
    proof.join(60)
    assert not proof.is_alive()
    assert question.stops >= 5
    assert not incumbent.is_proven


def test_a_group_that_was_stopped_begins_nothing() -> None:
    """A question asked after the stop is refused."""
    solvers, question = SolverGroup(), _HardQuestion()
    solvers.stop()
    with pytest.raises(TimeoutError):
        solvers.solve(question, None)
    assert not question.began.is_set()


def test_the_steps_look_for_a_stop() -> None:
    """What the MILP of steps could place is left open once its group is stopped."""
    text = "window(atom(<1 cpu>, 1, 4, 0.002, 0.008), 0, 0.006)"
    requests = [a_request("a", text).on(CLUSTER)]
    view = Plan(CLUSTER, CLUSTER.grid()).view()
    book = level_book(requests, view.reference)
    assert book is not None
    solvers = SolverGroup()
    check = StepCheck(build_problem(requests, view), book, solvers=solvers)
    assert check.place([0], AGES).verdict is SubsetVerdict.PLACED
    solvers.stop()
    assert check.place([0], AGES).verdict is SubsetVerdict.OPEN


def test_prices_look_for_a_stop() -> None:
    """What prices refute is not refuted once a stop is set."""
    text = "window(atom(<1 cpu>, 4, 4, 0.004, 0.016), 0, 0.006)"
    requests = [a_request(name, text).on(CLUSTER) for name in ("a", "b")]
    view = Plan(CLUSTER, CLUSTER.grid()).view()
    book = level_book(requests, view.reference)
    assert book is not None
    prices = LevelPrices(book, view)
    prices.row(np.ones(prices.shape))
    assert prices.refute([0, 1], lambda: False) is not None
    assert prices.refute([0, 1], lambda: True) is None
