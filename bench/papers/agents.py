"""Agents that only papers' figures and benches compare, alongside those of the product."""

from __future__ import annotations

from typing import Final

from planner.agent import Agent
from planner.agents import agent_named
from planner.agents.greedy.agent import LEVELLED, GreedyAgent
from planner.agents.greedy.kernels import codes

#: GREE as Rayon's paper prints it, without fall-backs.
GREE_PAPER: Final = GreedyAgent("gree-paper", (codes.PAPER,))

#: `aligned` with ties to the earliest rectangle.
ALIGNED_EARLY: Final = GreedyAgent("aligned-early", (codes.HEADROOM, codes.COMPACT), early=True)

PAPER_AGENTS: Final[dict[str, Agent]] = {
    agent.name: agent for agent in (GREE_PAPER, ALIGNED_EARLY, LEVELLED)
}


def bench_agent(name: str) -> Agent:
    """Return an agent of this module or of the product.

    Raises
    ------
    ValueError
        If there is no such agent.
    """
    return PAPER_AGENTS.get(name) or agent_named(name)
