"""Words that the command line, the API and the pages show alike: agents, how much better exists.

Nothing here loads a planner: help and completion read it.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class AgentLine(NamedTuple):
    """An agent in a few words.

    Attributes
    ----------
    says
        What it does best.
    options
        Options of `agenda plan` that are its own.
    solves
        Whether it uses the time that it is given, and proves a bound.
    is_usual
        Whether a page compares it by default.
    """

    name: str
    says: str
    options: str = ""
    solves: bool = False
    is_usual: bool = False


AGENTS: Final = (
    AgentLine("gree", "as late as possible: capacity for early deadlines to come", is_usual=True),
    AgentLine("gree-l", "flat allocations, fewest falls"),
    AgentLine("aligned", "the place that leaves most headroom, late"),
    AgentLine("headroom", "as aligned, but refuses rather than squeeze in", is_usual=True),
    AgentLine("earliest", "as early as possible"),
    AgentLine("portfolio", "the best of several agents and orders, by value"),
    AgentLine("portfolio-free", "the same agents, requests in any order"),
    AgentLine("milp", "Rayon's model by a MILP solver", "(--solver)", solves=True),
    AgentLine(
        "exact", "the most value, with a proven gap", "(--time-limit, --gap)",
        solves=True, is_usual=True,
    ),
    AgentLine("hybrid", "exact with a cheaper bound above 1,000 requests", solves=True),
)  # fmt: skip

#: What a bound may be above a value by rounding alone, as a part of it.
ROUNDING: Final = 1e-9


def bound_sentence(value: float | None, bound: float | None, requests: int) -> str:
    """Return what a Plan holds and how much better it could be; the bound may not be known."""
    if value is None or bound is None:
        return f"no bound is found for {requests:,} requests"
    return better_text(value, bound)


def better_text(value: float, bound: float) -> str:
    """Return what is held, and how much better a plan could be at most."""
    return f"value {max(0.0, value):,.6g}; {better_clause(value, bound)}"


def better_clause(value: float, bound: float) -> str:
    """Return how much better a plan could be at most."""
    if bound <= value * (1 + ROUNDING):
        return "nothing better exists"
    if value <= 0:
        return f"at most {bound:,.6g} could be held"
    return f"at most {_percent(bound / value - 1)} better exists"


def _percent(part: float) -> str:
    """Return a part as per cent, rounded so that a little more than nothing is not nothing."""
    return f"{max(100 * part, 0.1):,.1f}".removesuffix(".0") + " %"
