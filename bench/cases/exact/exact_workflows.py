"""`exact_workflows`: 100 workflows of 3 to 20 stages, 120 steps: figure 14's hard end.

Target: a proven gap of 5 % within 60 s, mean of 5 seeds; 1 % is the goal.
"""

from __future__ import annotations

from typing import Final

from bench.cases.exact.runs import of_kind
from bench.workloads.generator import Mix

NAME = "exact_workflows"

LOADS: Final = (1.2, 2.0)
SEEDS: Final = (1, 2, 3, 4, 5)
SECONDS: Final = 60.0
MARKS: Final = (5.0, 15.0, 60.0)


def run(small: bool) -> dict[str, object]:
    """Run every load and seed; small: 15 workflows for a second."""
    loads, seeds = (LOADS[:1], SEEDS[:1]) if small else (LOADS, SEEDS)
    count, seconds = (15, 1.0) if small else (100, SECONDS)
    figures = {
        f"load {load:g}": of_kind(
            Mix(count, 120, kind="workflows", load=load), seeds, seconds, MARKS
        )
        for load in loads
    }
    params = {"requests": count, "steps": 120, "machines": 4000, "seeds": seeds, "seconds": seconds}
    return {"params": params, "figures": figures}
