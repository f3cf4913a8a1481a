"""Laws that every agent keeps on random clusters, random loads and random requests."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from planner.agent import Limits
from planner.agents import AGENT_NAMES, agent_named
from planner.cluster.cluster import Cluster
from planner.files import WorkloadLine
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit
from planner.validation.validate import validate
from planner.workload.compile import compile_workload
from planner.workload.plan import plan_from_nothing
from tests.contract.scenarios import SOLVERS
from tests.workload_strategies import clusters, workloads

#: Work and not time, so that runs repeat.
LIMITS = Limits(work=40, seed=1)


def plan(cluster: Cluster, lines: tuple[WorkloadLine, ...], agent: str) -> dict[str, Any]:
    """Return the plan file of a workload, apart from its running time."""
    workload = compile_workload(lines, cluster)
    planned = plan_from_nothing(cluster, workload, agent_named(agent), LIMITS, timer=lambda: 0.0)
    return planned.document.to_json()


SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]

#: Enough to meet every operator with every kind of cluster; the same examples in every run.
LAWS = settings(max_examples=60, suppress_health_check=SLOW)
FEW = settings(max_examples=15, suppress_health_check=SLOW)
MANY = settings(max_examples=3000, suppress_health_check=SLOW)

AGENTS = list(AGENT_NAMES)
GREEDY = sorted(set(AGENTS) - SOLVERS)


def assert_valid(agent: str, cluster: Cluster, lines: tuple[WorkloadLine, ...]) -> None:
    """Hold a plan against the validator."""
    document = plan(cluster, lines, agent)
    assert validate(document, asked=[line.id for line in lines]) == []


@pytest.mark.parametrize("agent", GREEDY)
@LAWS
@given(cluster=clusters(), lines=workloads())
def test_plans_are_valid(agent: str, cluster: Cluster, lines: tuple[WorkloadLine, ...]) -> None:
    """Never over capacity, fit caps or policies; always satisfying the oracle; each id once."""
    assert_valid(agent, cluster, lines)


@pytest.mark.parametrize("agent", sorted(SOLVERS))
@FEW
@given(cluster=clusters(), lines=workloads())
def test_solved_plans_are_valid(
    agent: str, cluster: Cluster, lines: tuple[WorkloadLine, ...]
) -> None:
    """The same for agents that solve, which take longer over each."""
    assert_valid(agent, cluster, lines)


@pytest.mark.sweep
@pytest.mark.parametrize("agent", AGENTS)
@MANY
@given(cluster=clusters(), lines=workloads())
def test_plans_are_valid_at_length(
    agent: str, cluster: Cluster, lines: tuple[WorkloadLine, ...]
) -> None:
    """The same over thousands of examples."""
    assert_valid(agent, cluster, lines)


@pytest.mark.parametrize("agent", AGENTS)
@FEW
@given(cluster=clusters(), lines=workloads())
def test_plans_repeat(agent: str, cluster: Cluster, lines: tuple[WorkloadLine, ...]) -> None:
    """The same input and seed give the same plan file."""
    assert plan(cluster, lines, agent) == plan(cluster, lines, agent)


@pytest.mark.parametrize("agent", AGENTS)
@FEW
@given(cluster=clusters(), lines=workloads(), extra=workloads())
def test_later_requests_take_nothing_from_earlier_ones(
    agent: str,
    cluster: Cluster,
    lines: tuple[WorkloadLine, ...],
    extra: tuple[WorkloadLine, ...],
) -> None:
    """A batch that is planned after another leaves the other's reservations as they are."""
    workload = compile_workload(lines, cluster)
    first = plan_from_nothing(cluster, workload, agent_named(agent), LIMITS)
    later: Plan = first.plan
    before = [entry.to_json(later.grid) for entry in later.reservations()]
    renamed = [WorkloadLine(f"x{i}", line.source) for i, line in enumerate(extra)]
    requests = compile_workload(renamed, cluster).requests
    results = agent_named(agent).plan(requests, later.view(), LIMITS)
    changes = [
        Admit(request, result, agent)
        for request, result in zip(requests, results, strict=True)
        if result.placed
    ]
    prepared = later.prepare(changes, later.version)
    assert not prepared.conflicts
    if prepared.record is not None:
        later.apply(prepared.record)
    after = [entry.to_json(later.grid) for entry in later.reservations()]
    assert after[: len(before)] == before
    document = first.document.to_json() | {"reservations": after, "metrics": None}
    assert validate(document) == []
