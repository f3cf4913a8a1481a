"""A Plan made as the service makes it: one request after the other, each in a commit of its own."""

from __future__ import annotations

from collections.abc import Iterable

from planner.agent import Agent, Limits
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit
from planner.request import Request


def admit_in_turn(plan: Plan, agent: Agent, requests: Iterable[Request]) -> list[Request]:
    """Commit what an agent places and the Plan promises; return it.

    Where the agent's place finds no machines, the Plan looks elsewhere.
    """
    accepted: list[Request] = []
    for request in requests:
        result = agent.plan([request], plan.view(), Limits())[0]
        if not result.placed:
            continue
        prepared = plan.prepare([Admit(request, result, agent.name, planner=agent)], plan.version)
        if prepared.record is not None:
            plan.apply(prepared.record, prepared.takings)
            accepted.append(request)
    return accepted
