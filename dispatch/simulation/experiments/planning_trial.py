"""One agent on one set of requests, alone on an empty Plan: seconds, metrics, a solver's report."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from planner.agent import Agent, Limits, SolverAgent, SolverReport
from planner.agents import agent_named
from planner.agents.milp.agent import MILP
from planner.cluster.cluster import Cluster
from planner.metrics import Metrics, measure, outcome_of
from planner.plan.plan import Plan
from planner.request import Request


@dataclass(frozen=True, slots=True)
class PlanningTrial:
    """What an agent made of a set.

    Attributes
    ----------
    seconds
        Of the clock, for the answers alone.
    report
        Of a solver; None of any other agent.
    """

    seconds: float
    metrics: Metrics
    report: SolverReport | None


def trial_agent(name: str) -> Agent:
    """Return an agent; `milp-cold` is the solver by itself, without a greedy plan to start from."""
    if name == "milp-cold":
        return replace(MILP, name=name, start=(), fills=False)
    return agent_named(name)


def planning_trial(
    agent: Agent, cluster: Cluster, requests: Sequence[Request], limits: Limits
) -> PlanningTrial:
    """Let an agent place requests on an empty Plan of a cluster; totals are all that counts."""
    view, asked = Plan(cluster, cluster.grid()).snapshot(), list(requests)
    report: SolverReport | None = None
    began = time.perf_counter()
    if isinstance(agent, SolverAgent):
        results, report = agent.solve(asked, view, limits)
    else:
        results = agent.plan(asked, view, limits)
    seconds = time.perf_counter() - began
    outcomes = [outcome_of(r, a, cluster.nominal) for r, a in zip(asked, results, strict=True)]
    bound = None if report is None else report.bound
    metrics = measure(outcomes, cluster.nominal, cluster.grid().horizon, bound=bound)
    return PlanningTrial(seconds, metrics, report)
