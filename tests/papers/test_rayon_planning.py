"""Rayon's figures 12 and 14: sets of jobs as drawn, and what agents hold of them."""

from __future__ import annotations

import pytest

from bench.papers.cluster.rayon_workload import RayonWorkload
from bench.papers.rayon_planning import (
    AGENTS,
    LOAD,
    PlanningPoint,
    PlanningSet,
    planning_point,
)


@pytest.fixture(scope="module", params=["A", "B", "C"])
def point(request: pytest.FixtureRequest) -> PlanningPoint:
    """Return a small set, half of it of one workload, by every agent."""
    kind = str(request.param)
    of = PlanningSet("12", "A", 0.0, 12) if kind == "A" else PlanningSet("14", kind, 0.5, 12)
    return planning_point(of, RayonWorkload(), 1, 0.2)


def test_every_agent_is_measured(point: PlanningPoint) -> None:
    """All five hold a share of the value, and only solvers tell a gap."""
    assert tuple(point.agents) == AGENTS
    assert all(0 <= one.acceptance <= 1 for one in point.agents.values())
    assert all(point.agents[name].gap is None for name in ("gree", "gree-paper", "gree-l"))


def test_the_exact_agent_holds_no_less_than_a_greedy_one(point: PlanningPoint) -> None:
    """It starts from the best of their plans."""
    best = max(point.agents["gree"].acceptance, point.agents["gree-l"].acceptance)
    assert point.agents["exact"].acceptance >= best - 1e-9


def test_a_set_is_no_larger_than_asked(point: PlanningPoint) -> None:
    """Twelve jobs at most that can be placed, and no more work than the load says."""
    assert 0 < point.placeable <= 12
    assert 0 < point.load <= LOAD * 1.05


@pytest.mark.parametrize(
    ("of", "name"),
    [
        (PlanningSet("12", "A", 0.0, 300), "300 atoms of A"),
        (PlanningSet("14", "A", 0.0, 100), "all of A"),
        (PlanningSet("14", "C", 0.1, 100), "100 jobs, 10% of C"),
    ],
)
def test_sets_have_names(of: PlanningSet, name: str) -> None:
    """As tables and claims call them."""
    assert of.name == name
