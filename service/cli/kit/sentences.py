"""Sentences that every command writes alike: how much better a plan could be, and questions.

The pages for browsers write the same words on plans (`service/web/static/improve/better.js`); a
test holds both against each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

#: What a bound may be above a value by rounding alone, as a part of it.
ROUNDING: Final = 1e-9


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


def plan_bound_text(told: Mapping[str, Any] | None) -> str:
    """Return what a server says of its Plan, as `plan_bound` of an answer holds it."""
    if told is None or told["bound"] is None or told["value"] is None:
        return "the Plan: no bound is known"
    return f"the Plan: {better_text(told['value'], told['bound'])}"


def _percent(part: float) -> str:
    """Return a part as per cent, rounded so that a little more than nothing is not nothing."""
    return f"{max(100 * part, 0.1):,.1f}".removesuffix(".0") + " %"


def question_lines(source: str | Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each number of a request that somebody should look at twice.

    Parameters
    ----------
    source
        RDL as text, which is shown with the place; or as JSON.
    """
    from rdl.errors import render
    from rdl.meaning.questions import questions

    text = source if isinstance(source, str) else None
    for one in questions(source):
        yield f"question: {render((one,), text)}"
