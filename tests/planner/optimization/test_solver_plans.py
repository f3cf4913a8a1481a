"""What a solver has found so far is kept while it works."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from planner.agent import Limits, MustKeep, SolveProgress, SolverAgent, SolverReport
from planner.agents.exact.agent import EXACT
from planner.optimization import solver_step
from planner.optimization.optimizer import optimize
from planner.optimization.result import OptimizeOptions, OptimizeScope
from planner.placement import PlacementResult
from planner.plan.records.changes import Admit, Change
from planner.request import Request
from planner.value import score_of
from planner.view import PlanView
from tests.builders import a_request
from tests.planner.optimization.small_plans import two_in_the_way


class DyingSolver(SolverAgent):
    """Finds what `exact` does, tells it, and ends before it can answer."""

    name = "dying"

    def solve(
        self,
        requests: Sequence[Request],
        view: PlanView,
        limits: Limits,
        must_keep: MustKeep | None = None,
    ) -> tuple[Sequence[PlacementResult], SolverReport]:
        """Tell a plan that lets no one in, then the best, then that one again."""
        best, report = EXACT.solve(requests, view, Limits(work=10, seed=limits.seed), must_keep)
        assert must_keep is not None
        assert limits.news is not None
        for value, results in ((1.0, must_keep.standing), (2.0, best), (1.0, must_keep.standing)):
            limits.news(SolveProgress(0.0, value, report.bound, "dying", "dying", results))
        raise RuntimeError("gone")


@pytest.fixture
def dying(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the optimizer ask the solver that dies."""
    monkeypatch.setattr(solver_step, "agent_named", lambda name: DyingSolver())


@pytest.mark.usefixtures("dying")
def test_the_plan_of_a_solver_that_dies_is_kept() -> None:
    """What is kept last lets in who waited, for which the other had to move."""
    plan, _ = two_in_the_way()
    kept: list[Callable[[], list[Change]]] = []
    options = OptimizeOptions(Limits(work=10), solver="dying", keep=kept.append)
    with pytest.raises(RuntimeError, match="gone"):
        optimize(plan, scope=OptimizeScope(admit_refused=True), effort=options)
    assert len(kept) == 2
    assert kept[0]() == []
    changes = kept[1]()
    assert [one.request.id for one in changes if isinstance(one, Admit)] == ["b"]
    prepared = plan.prepare(changes, plan.version, joint=True)
    assert prepared.record is not None, prepared.outcomes


def test_exact_tells_its_plans_while_it_works() -> None:
    """Each plan told is worth the value told with it."""
    plan, cluster = two_in_the_way()
    request = a_request("c", "window(atom(<1 cpu>, 1, 1, 4, 4), 0, 12)").on(cluster)
    news: list[SolveProgress] = []
    EXACT.solve([request], plan.view(), Limits(work=10, news=news.append))
    assert news
    for one in news:
        assert one.results is not None
        assert score_of([request], one.results, cluster.reference)[0] == one.value
