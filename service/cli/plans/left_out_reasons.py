"""Why the agents of a comparison leave requests out, for the terminal and the page."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from service.cli.plans.plan_tables import short_why

if TYPE_CHECKING:
    from planner.workload.compare import Comparison

#: Id and tenant of a request; and each reason with the agents that say it.
ReasonsOfRequest = tuple[tuple[str, str], dict[str, list[str]]]


def left_out_counts(comparison: Comparison) -> list[str]:
    """Return a sentence for each agent that leaves requests out: how many, by code."""
    said = []
    for run in comparison.runs:
        left = run.left_out()
        if left:
            by_code = Counter(one.code for one in left).most_common()
            told = ", ".join(f"{count:,} {code}" for code, count in by_code)
            said.append(f"{run.agent} leaves out {len(left):,}: {told}")
    return said


def left_out_reasons(comparison: Comparison) -> list[ReasonsOfRequest]:
    """Return the reasons of every request left out; those that few agents leave out come first.

    They say most about the agents.
    """
    reasons: dict[tuple[str, str], dict[str, list[str]]] = {}
    for run in comparison.runs:
        for one in run.left_out():
            said = reasons.setdefault((one.id, one.tenant), {})
            said.setdefault(f"{one.code}: {short_why(one.detail)}", []).append(run.agent)
    return sorted(reasons.items(), key=lambda one: sum(len(agents) for agents in one[1].values()))
