"""Agents by the name that users type; each is imported on first use."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from rdl.errors import nearest

if TYPE_CHECKING:
    from planner.agent import Agent

_GREEDY: Final = {
    "gree": "planner.agents.greedy.agent:GREE",
    "gree-l": "planner.agents.greedy.agent:GREE_L",
    "aligned": "planner.agents.greedy.agent:ALIGNED",
    "headroom": "planner.agents.greedy.agent:HEADROOM_ALONE",
    "earliest": "planner.agents.greedy.agent:EARLIEST",
}

_HOMES: Final = {
    **_GREEDY,
    "portfolio": "planner.agents.portfolio:PORTFOLIO",
    "portfolio-free": "planner.agents.portfolio:PORTFOLIO_FREE",
    "milp": "planner.agents.milp.agent:MILP",
    "exact": "planner.agents.exact.agent:EXACT",
    "hybrid": "planner.agents.exact.agent:HYBRID",
}

#: All agents; the reference of comparisons comes first.
AGENT_NAMES: Final = tuple(_HOMES)

#: Agents that take well under a millisecond: other processes may wait for them.
QUICK_AGENTS: Final = frozenset(_GREEDY)

#: The agent for requests that name none (planning.md).
DEFAULT_AGENT: Final = "headroom"

#: The agent used if a solver would take too long: unlike the default, it also squeezes work into
#: tight free capacity.
QUICK_SUBSTITUTE: Final = "gree-l"

#: Agents compared by default: the baseline, the default and a solver.
COMPARED_AGENTS: Final = ("gree", DEFAULT_AGENT, "exact")


def agent_named(name: str) -> Agent:
    """Return an agent by name.

    Raises
    ------
    ValueError
        If there is no such agent; the message lists similar names, or all.
    """
    home = _HOMES.get(name)
    if home is None:
        known = nearest(name, AGENT_NAMES) or ", ".join(AGENT_NAMES)
        raise ValueError(f"there is no agent {name!r}; write {known}")
    module, _, constant = home.partition(":")
    agent: Agent = getattr(import_module(module), constant)
    return agent
