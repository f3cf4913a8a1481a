"""Agents by name, with a line each: for help and completion, which load no planner."""

from __future__ import annotations

from typing import Final

import click

#: Name -> what it does best.
AGENT_LINES: Final = {
    "gree": "as late as possible: room for early deadlines to come",
    "gree-l": "flat allocations, fewest falls",
    "aligned": "the place that leaves most headroom, late",
    "headroom": "as aligned, but refuses rather than squeeze in",
    "earliest": "as early as possible",
    "portfolio": "the best of several agents and orders, by value",
    "portfolio-free": "the same agents, requests in any order",
    "milp": "Rayon's model by a MILP solver (--solver)",
    "exact": "the most value, with a proven gap (--time-limit, --gap)",
    "hybrid": "exact with a cheaper bound above 1,000 requests",
}

#: The same as the end of a help text.
AGENTS_HELP: Final = "\b\nAgents (docs/planning.md):\n" + "\n".join(
    f"  {name:<17}{line}" for name, line in AGENT_LINES.items()
)


def complete_agent(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Return the agents that a word begins, or the last of several with commas between."""
    before, comma, begun = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in AGENT_LINES if name.startswith(begun)]
