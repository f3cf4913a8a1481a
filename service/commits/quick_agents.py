"""Which agents are quick: other changes may wait for their answers."""

from __future__ import annotations

from planner.agents import QUICK_AGENTS
from service.commits.commands import Admission, Command, Renegotiation


def is_quick_agent(name: str) -> bool:
    """Return whether others may wait for an agent."""
    return name in QUICK_AGENTS


def is_quick(command: Command) -> bool:
    """Return whether others may wait for a command: no solver and no portfolio works on it."""
    match command:
        case Admission(asks=asks):
            return all(is_quick_agent(ask.agent) for ask in asks)
        case Renegotiation(ask=ask):
            return is_quick_agent(ask.agent)
        case _:
            return True
