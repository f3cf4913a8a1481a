"""Which agents are quick: other changes may wait for their answers."""

from __future__ import annotations

from typing import Final

from service.commits.commands import Admission, Command, Renegotiation

#: Agents that answer in well under a millisecond: other processes may wait for them.
QUICK_AGENTS: Final = frozenset(
    {
        "gree",
        "gree-paper",
        "gree-l",
        "aligned",
        "aligned-early",
        "earliest",
        "headroom",
        "level",
    }
)


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
