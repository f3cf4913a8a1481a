"""What comes together: calls that one commit takes, and what happens while an agent decides."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pytest

from planner.agent import Limits
from planner.agents import agent_named
from planner.placement import PlacementResult
from planner.request import Request
from planner.view import PlanView
from service.commits.job import Job
from service.store import Store
from tests.service.conftest import Service


def in_one_commit(service: Service, *calls: Callable[[], object]) -> None:
    """Run calls in threads while another process appends, so that one commit takes them all."""
    other, room = Store(service.runtime.config.database), service.runtime.planner.lane.queue
    threads = [threading.Thread(target=call) for call in calls]
    entered, put = threading.Semaphore(0), room.put

    def counted(job: Job) -> bool:
        taken = put(job)
        entered.release()
        return taken

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(room, "put", counted)
        with other.turn():
            for thread in threads:
                thread.start()
            # How many of them the planner has taken already is a matter of chance.
            for _ in calls:
                assert entered.acquire(timeout=300), "a call has not come to the planner"
        for thread in threads:
            thread.join()
    other.close()


class Interrupting:
    """An agent that lets something happen after it has decided, the first times it is asked."""

    def __init__(self, name: str, happening: Sequence[Callable[[], object]]) -> None:
        self.agent = agent_named(name)
        self.name = name
        self.happening = list(happening)
        self.asked = 0
        self.allowed: list[float | None] = []

    def plan(
        self, requests: Sequence[Request], view: PlanView, limits: Limits
    ) -> Sequence[PlacementResult]:
        """Decide as the agent does, then let the next thing happen."""
        self.asked += 1
        self.allowed.append(limits.time_s)
        results = self.agent.plan(requests, view, limits)
        if self.happening:
            self.happening.pop(0)()
        return results


def solver(monkeypatch: pytest.MonkeyPatch, *happening: Callable[[], object]) -> Interrupting:
    """Put an interrupting agent in the place of exact, which works in the lane of solvers."""
    agent = Interrupting("gree", happening)
    monkeypatch.setattr(
        "service.commits.screening.agent_named",
        lambda name: agent if name == "exact" else agent_named(name),
    )
    return agent


def interrupt(monkeypatch: pytest.MonkeyPatch, *happening: Callable[[], object]) -> Interrupting:
    """Put an interrupting agent in the place of gree-l, one of the solvers' lane."""
    monkeypatch.setattr("service.commits.commands.QUICK_AGENTS", frozenset())
    agent = Interrupting("gree-l", happening)
    monkeypatch.setattr(
        "service.commits.screening.agent_named",
        lambda name: agent if name == "gree-l" else agent_named(name),
    )
    return agent
