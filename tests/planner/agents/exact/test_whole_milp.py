"""Small mixed sets go on to the proof by a model of the whole set, and say truly why they ended."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest

from bench.workloads.generator import Mix, cluster_of, compiled, generate
from lp.result import Solution
from lp.solver import solve
from planner.agent import Ending, Limits, SolveProgress, SolverReport, total_requested_value
from planner.agents.exact import parallel
from planner.agents.exact.agent import EXACT
from planner.agents.exact.build import build_problem
from planner.agents.exact.incumbent import LEFT_OUT, Budget, Incumbent, SolveInput
from planner.agents.exact.parallel import WholeMilp
from planner.plan.plan import Plan
from planner.request import Request
from planner.view import PlanView
from tests.planner.brute_force_plan import best_value
from tests.planner.tiny_requests import CAPACITY, CLUSTER, HORIZON, tiny_requests

#: Seconds that no run of a test comes near to: they end for another reason.
AGES = 3600.0


def whole_of(
    requests: list[Request], view: PlanView, keep: frozenset[int] = frozenset()
) -> tuple[Incumbent, WholeMilp]:
    """Return an incumbent that knows nothing yet, and the model that is to run in it."""
    problem = build_problem(requests, view, sorted(keep))
    asked = total_requested_value(requests, view.reference)
    incumbent = Incumbent(
        requests, view, [LEFT_OUT] * len(requests), asked, "nobody", must_keep=keep
    )
    until = time.monotonic() + AGES
    budget = Budget(until, None, 0.0, lambda: False, time.monotonic, lambda: None)
    return incumbent, WholeMilp(incumbent, SolveInput(problem, range(len(requests)), 0), budget)


def small(
    kind: str, seed: int, count: int = 6, machines: int = 10
) -> tuple[list[Request], PlanView]:
    """Return a few requests drawn for six to ten times the machines that are there."""
    mix = Mix(count, 150, 60, kind, seed)
    less = replace(mix, machines=machines)
    cluster = cluster_of(less)
    return compiled(generate(mix), less), Plan(cluster, cluster.grid()).view()


@pytest.mark.parametrize("seed", range(8))
def test_it_proves_what_enumeration_finds(seed: int) -> None:
    """On tiny requests of every form plan and bound meet at the best of all combinations."""
    requests = tiny_requests(seed)
    incumbent, model = whole_of(requests, Plan(CLUSTER, CLUSTER.grid()).view())
    model.prove(lambda: False)
    best = best_value(requests, CAPACITY, HORIZON)
    assert incumbent.value == pytest.approx(best)
    assert incumbent.bound == pytest.approx(best)
    assert incumbent.is_proven


@pytest.mark.parametrize("seed", range(6))
def test_it_keeps_what_may_not_be_lost(seed: int) -> None:
    """With the last request kept it is the best that holds it, or proven that none does."""
    requests = tiny_requests(seed)
    incumbent, model = whole_of(requests, Plan(CLUSTER, CLUSTER.grid()).view(), frozenset({2}))
    model.prove(lambda: False)
    best = best_value(requests, CAPACITY, HORIZON, keep=[2])
    assert incumbent.whole == (best >= 0)
    if incumbent.whole:
        assert incumbent.value == pytest.approx(best)
        assert incumbent.results[2].placed
    assert incumbent.bound == (pytest.approx(best) if best >= 0 else best)


@pytest.mark.parametrize(("kind", "seed"), [("gangs", 1), ("malleable", 4)])
def test_a_gap_that_prices_leave_is_closed(kind: str, seed: int) -> None:
    """The search is exhausted and prices have settled: the proof comes nevertheless."""
    requests, view = small(kind, seed)
    told: list[SolveProgress] = []
    report = EXACT.solve(requests, view, Limits(time_s=AGES, gap=0.0, news=told.append))[1]
    assert (report.status, report.ending, report.detail) == ("optimal", Ending.PROVEN, "")
    assert {"milp", "cp-sat"} & {one.proof for one in told}


def ended(limits: Limits) -> SolverReport:
    """Return the report of a run on a small set."""
    requests, view = small("malleable", 5, 4, 6)
    return EXACT.solve(requests, view, limits)[1]


@pytest.mark.parametrize(
    ("cap", "why"),
    [
        ("MOST_MEMORY", "coefficients, too many for the memory that it may take"),
        ("ENTRIES_A_SECOND", "coefficients, too many for the time that is left"),
        ("FEW_REQUESTS", "4 requests are too many for a model of the whole set"),
    ],
)
def test_nothing_left_to_try_is_no_limit(
    cap: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A set whose model may not be built ends before its limit, and says that and why."""
    monkeypatch.setattr(parallel, cap, 0)
    report = ended(Limits(time_s=AGES, gap=0.0))
    assert (report.status, report.ending) == ("feasible", Ending.EXHAUSTED)
    assert report.detail.startswith("nothing is left to try before the limit: ")
    assert report.detail.endswith(why)
    assert report.gap > 0


@pytest.mark.parametrize(
    ("limits", "ending", "said"),
    [
        (Limits(time_s=AGES, gap=0.9), Ending.GAP, "the gap asked for is proven"),
        (Limits(work=20, gap=0.0), Ending.LIMIT, "the limit came before the proof"),
        (Limits(time_s=0.0, gap=0.0), Ending.LIMIT, "the limit came before the proof"),
        (Limits(time_s=AGES, gap=0.0, stop=lambda: True), Ending.STOPPED, "the best so far stands"),
    ],
)
def test_every_other_ending_is_reported_by_its_name(
    limits: Limits, ending: Ending, said: str
) -> None:
    """The gap, work, time and a stop each have a value and a sentence of their own."""
    report = ended(limits)
    assert (report.ending, report.detail) == (ending, said)


def test_a_stop_is_heard_while_the_model_is_solved() -> None:
    """A stop after the model's first bound ends the run with what is proven by then."""
    heard: list[SolveProgress] = []

    def stop() -> bool:
        return any(one.proof in ("milp", "cp-sat") for one in heard)

    requests, view = small("malleable", 4)
    limits = Limits(time_s=AGES, gap=0.0, news=heard.append, stop=stop)
    report = EXACT.solve(requests, view, limits)[1]
    assert report.ending in (Ending.STOPPED, Ending.PROVEN)
    assert report.bound <= min(one.bound for one in heard)


def test_a_bound_below_a_checked_plan_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the solver proves nothing, and costs no plan."""
    requests = tiny_requests(0)
    incumbent, model = whole_of(requests, Plan(CLUSTER, CLUSTER.grid()).view())

    def wrong(*given: Any, **named: Any) -> Solution:
        answer = solve(*given, **named)
        return replace(answer, bound=answer.objective / 2)

    monkeypatch.setattr(parallel, "solve", wrong)
    model.prove(lambda: False)
    assert incumbent.value > 0
    assert incumbent.bound >= incumbent.value * (1 - 1e-6)
