"""Words that the command line, the API and the pages show alike: agents, bounds, counts.

This module loads no planner, because help and completion use it.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class AgentLine(NamedTuple):
    """Short description of an agent.

    Attributes
    ----------
    says
        Its main strength.
    options
        Its own options of `agenda plan`.
    solves
        Whether it uses the given time, and proves a bound.
    is_usual
        Whether pages compare it by default.
    """

    name: str
    says: str
    options: str = ""
    solves: bool = False
    is_usual: bool = False


AGENTS: Final = (
    AgentLine("gree", "as late as possible: capacity for early deadlines to come", is_usual=True),
    AgentLine("gree-l", "flat allocations with the fewest decreases"),
    AgentLine("aligned", "the place that leaves the most headroom, late"),
    AgentLine("headroom", "like aligned, but refuses tight places", is_usual=True),
    AgentLine("earliest", "as early as possible"),
    AgentLine("portfolio", "the best of several agents and orders, by value"),
    AgentLine("portfolio-free", "the same agents, requests in any order"),
    AgentLine("milp", "Rayon's model by a MILP solver", "(--solver)", solves=True),
    AgentLine(
        "exact", "maximum value, with a proven gap", "(--time-limit, --gap)",
        solves=True, is_usual=True,
    ),
    AgentLine("hybrid", "exact with a cheaper bound above 1,000 requests", solves=True),
)  # fmt: skip

#: Relative excess of a bound over a value that may be due to rounding.
ROUNDING: Final = 1e-9


def counted(count: int, noun: str, many: str = "") -> str:
    """Return a count with its noun: ``1 policy``, ``1,200 policies``."""
    return f"{count:,} {noun if count == 1 else many or f'{noun}s'}"


def bound_sentence(value: float | None, bound: float | None, requests: int) -> str:
    """Return the value of a Plan and how much more is possible; the bound may not be known."""
    if value is None or bound is None:
        return f"no bound is known for {counted(requests, 'request')}"
    return better_text(value, bound)


def better_text(value: float, bound: float) -> str:
    """Return a value, and how much more is possible."""
    return f"value {max(0.0, value):,.6g}; {better_clause(value, bound)}"


def better_clause(value: float, bound: float) -> str:
    """Return how much more value is possible."""
    if bound <= value * (1 + ROUNDING):
        return "no plan has more value"
    if value <= 0:
        return f"up to {bound:,.6g} is possible"
    return f"up to {_percent(bound / value - 1)} more value is possible"


def _percent(part: float) -> str:
    """Return a fraction as per cent, rounded so that a small positive value is not 0."""
    return f"{max(100 * part, 0.1):,.1f}".removesuffix(".0") + " %"
