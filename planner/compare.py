"""Agents side by side on one workload: the metrics, and what became of each request."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from planner.agent import Agent, Limits
from planner.agents import AGENT_NAMES, agent_named
from planner.cluster import Cluster
from planner.files.plan_document import PlanDocument
from planner.metrics import Metrics
from planner.plan_diff import PlanDiff, plan_diff
from planner.plan_file import plan_from_nothing
from planner.workload import CompiledWorkload

#: Metrics shown relative to the baseline.
RELATIVE = ("acceptance", "accepted", "value", "preemption", "preemption_inner", "uniformity")

#: What others are compared with when it takes part, else the first.
BASELINE = AGENT_NAMES[0]


@dataclass(frozen=True, slots=True)
class AgentRun:
    """What one agent made of the workload.

    Attributes
    ----------
    relative
        Metric / that of the baseline; None where either is missing or the baseline's is 0.
    differences
        From the baseline's plan to this one; None for the baseline.
    """

    agent: str
    metrics: Metrics
    document: PlanDocument
    relative: Mapping[str, float | None] = field(default_factory=dict)
    differences: PlanDiff | None = None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON, without the whole plan."""
        return {
            "agent": self.agent,
            "order": self.document.order,
            "metrics": self.metrics.to_json(),
            "relative": dict(self.relative),
            "differences": None if self.differences is None else self.differences.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """All runs, in the order asked."""

    baseline: str
    runs: tuple[AgentRun, ...]

    def run(self, agent: str) -> AgentRun:
        """Return the run of an agent.

        Raises
        ------
        KeyError
            If it took no part.
        """
        for one in self.runs:
            if one.agent == agent:
                return one
        raise KeyError(agent)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {"baseline": self.baseline, "agents": [run.to_json() for run in self.runs]}


def compare(
    cluster: Cluster,
    workload: CompiledWorkload,
    agents: Sequence[str | Agent],
    limits: Limits | None = None,
    *,
    timer: Callable[[], float] = time.perf_counter,
) -> Comparison:
    """Plan the same workload with each agent on an empty Plan.

    Parameters
    ----------
    agents
        Names or agents, at least one, each once.

    Raises
    ------
    ValueError
        If there is no agent, one is not known, or one is named twice.
    """
    chosen = [agent_named(one) if isinstance(one, str) else one for one in agents]
    names = [agent.name for agent in chosen]
    if not names or len(set(names)) < len(names):
        raise ValueError("name at least one agent, each once")
    planned = [plan_from_nothing(cluster, workload, agent, limits, timer=timer) for agent in chosen]
    base = names.index(BASELINE) if BASELINE in names else 0
    runs = [
        AgentRun(
            name,
            one.metrics,
            one.document,
            relative_to(planned[base].metrics, one.metrics),
            None if index == base else plan_diff(planned[base].document, one.document),
        )
        for index, (name, one) in enumerate(zip(names, planned, strict=True))
    ]
    return Comparison(names[base], tuple(runs))


def relative_to(base: Metrics, metrics: Metrics) -> dict[str, float | None]:
    """Return each metric divided by the baseline's."""
    found: dict[str, float | None] = {}
    for name in RELATIVE:
        whole, part = getattr(base, name), getattr(metrics, name)
        found[name] = None if not whole or part is None else part / whole
    return found
