"""How the benches of `exact` run a set: the curve of its gap, and what it started from."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean

from bench.papers.spread import spread_of
from bench.workloads.generator import Mix, cluster_of, requests_of
from planner.agent import Limits, SolveProgress, SolverAgent
from planner.agents import agent_named
from planner.agents.check import check_plan
from planner.agents.exact.agent import EXACT
from planner.agents.exact.build import build_problem
from planner.agents.exact.parallel import load_loops
from planner.cluster.cluster import Cluster
from planner.plan.plan import Plan
from planner.request import Request
from planner.value import score_of
from planner.view import PlanView


@dataclass(frozen=True, slots=True)
class Curve:
    """One run.

    Attributes
    ----------
    news
        Every better plan and bound.
    asked, gree, portfolio
        Value of everything, and what greedy agents accept of it.
    value, bound
        At the end; the value is checked here again.
    cpu_s, wall_s
        Of the whole call; threads on an idle machine use up to twice the wall time.
    """

    news: tuple[SolveProgress, ...]
    asked: float
    gree: float
    portfolio: float
    value: float
    bound: float
    cpu_s: float
    wall_s: float

    def gap_at(self, seconds: float) -> float:
        """Return the proven gap after this many seconds (the end's if it ended before)."""
        return self._at(seconds).gap

    def value_at(self, seconds: float) -> float:
        """Return the value of the best plan after this many seconds."""
        return self._at(seconds).value

    def _at(self, seconds: float) -> SolveProgress:
        known = [one for one in self.news if one.elapsed_s <= seconds] or [self.news[0]]
        return known[-1]

    def seconds_to(self, gap: float) -> float | None:
        """Return when the proven gap was first at most `gap`."""
        return next((one.elapsed_s for one in self.news if one.gap <= gap), None)


def run_exact(cluster: Cluster, requests: Sequence[Request], seconds: float, gap: float) -> Curve:
    """Run `exact` on an empty Plan; kernels must be warm (`warm`)."""
    return run_on(Plan(cluster, cluster.grid()).view(), requests, Limits(seconds, gap=gap))


def run_on(
    view: PlanView, requests: Sequence[Request], limits: Limits, agent: SolverAgent = EXACT
) -> Curve:
    """Run `exact`, or the same with other settings, on a view; kernels must be warm (`warm`)."""
    greedy = {
        name: score_of(requests, agent_named(name).plan(requests, view, Limits()), view.reference)[
            0
        ]
        for name in ("gree", "portfolio")
    }
    news: list[SolveProgress] = []
    before, began = _cpu_s(), time.monotonic()
    results, report = agent.solve(requests, view, replace(limits, news=news.append))
    wall, spent = time.monotonic() - began, _cpu_s() - before
    assert [one.placed for one in check_plan(requests, results, view)] == [
        r.placed for r in results
    ]
    value = score_of(requests, results, view.reference)[0]
    assert value >= greedy["portfolio"] * (1 - 1e-9)
    asked = news[0].bound
    return Curve(
        tuple(news), asked, greedy["gree"], greedy["portfolio"], value, report.bound, spent, wall
    )


def of_kind(
    mix: Mix, seeds: Iterable[int], seconds: float, marks: Iterable[float]
) -> dict[str, object]:
    """Return the figures of one kind of the generator over some seeds."""
    mixes = [replace(mix, seed=seed) for seed in seeds]
    warm(cluster_of(mixes[0]), requests_of(mixes[0])[:10])
    curves = [run_exact(cluster_of(one), requests_of(one), seconds, 0.001) for one in mixes]
    return figures_of(curves, marks)


def warm(cluster: Cluster, requests: Sequence[Request]) -> None:
    """Load all that a run needs, on an empty Plan of a cluster; see `warm_on`."""
    warm_on(Plan(cluster, cluster.grid()).view(), requests)


def warm_on(view: PlanView, requests: Sequence[Request]) -> None:
    """Load the compiled loops, then what else a run of a moment needs.

    Where the greedy start already holds all requests, a run ends before any loop is called.
    """
    load_loops(build_problem(requests, view))
    EXACT.solve(requests, view, Limits(work=20, gap=0.0))


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def figures_of(curves: Sequence[Curve], marks: Iterable[float]) -> dict[str, object]:
    """Return the figures of several seeds: gaps in per cent by second, mean and spread."""
    gaps: dict[str, object] = {}
    for mark in marks:
        at = [100 * curve.gap_at(mark) for curve in curves]
        gaps[f"{mark:g} s"] = _spread(at)
    final = [100 * (curve.bound - curve.value) / curve.bound for curve in curves]
    return {
        "gap_percent": gaps,
        "gap_percent_end": _spread(final),
        "ends_percent": [round(x, 2) for x in final],
        "seconds_to_1_percent": [rounded(curve.seconds_to(0.01)) for curve in curves],
        "proven_optimal": sum(x < 1e-4 for x in final),
        "seconds_to_optimal": [rounded(curve.seconds_to(1e-6)) for curve in curves],
        "gree_share": _spread([curve.gree / curve.asked for curve in curves]),
        "portfolio_share": _spread([curve.portfolio / curve.asked for curve in curves]),
        "exact_share": _spread([curve.value / curve.asked for curve in curves]),
        "bound_share": _spread([curve.bound / curve.asked for curve in curves]),
        "cpu_s": _spread([curve.cpu_s for curve in curves]),
        "wall_s": _spread([curve.wall_s for curve in curves]),
    }


def _spread(values: Sequence[float]) -> Mapping[str, float | None]:
    return {
        "mean": round(mean(values), 4),
        "sd": rounded(spread_of(values), 4),
        "worst": round(max(values), 4),
    }


def rounded(figure: float | None, digits: int = 2) -> float | None:
    """Return a figure rounded, or None if there is none."""
    return None if figure is None else round(figure, digits)
