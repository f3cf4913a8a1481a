"""How much better a plan could be, in the words that every command uses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def better_text(value: float, bound: float) -> str:
    """Return what is held, and how much better a plan could be at most."""
    if bound <= value:
        return f"value {value:,.6g}; nothing better exists"
    if value <= 0:
        return f"value 0; at most {bound:,.6g} could be held"
    return f"value {value:,.6g}; at most {percent_text(bound / value - 1)} better exists"


def plan_bound_text(told: Mapping[str, Any] | None) -> str:
    """Return what a server says of its Plan, as `plan_bound` of an answer holds it."""
    if told is None or told["bound"] is None or told["value"] is None:
        return "the Plan: no bound is known"
    return f"the Plan: {better_text(told['value'], told['bound'])}"


def percent_text(part: float) -> str:
    """Return a part as per cent, rounded so that a little more than nothing is not nothing."""
    percent = 100 * part
    return f"{percent:.1f} %" if percent >= 0.05 else "0.1 %"
