"""`exact_atoms`: 1,000 malleable atoms on 4,000 machines, 120 steps: the proven gap in 10 s.

Target: 0.5 % at load 1.2 and above, 1 % at load 1; better than greedy within a second.
"""

from __future__ import annotations

from typing import Final

from bench.cases.exact.runs import of_kind
from bench.workloads.generator import Mix

NAME = "exact_atoms"

LOADS: Final = (1.0, 1.2, 1.8)
SEEDS: Final = (1, 2, 3, 4, 5)
SECONDS: Final = 10.0
MARKS: Final = (1.0, 5.0, 10.0)


def run(small: bool) -> dict[str, object]:
    """Run every load and seed; small: a tenth of one."""
    loads, seeds = (LOADS[1:2], SEEDS[:1]) if small else (LOADS, SEEDS)
    count, seconds = (100, 1.0) if small else (1000, SECONDS)
    figures = {
        f"load {load:g}": of_kind(Mix(count, 120, load=load), seeds, seconds, MARKS)
        for load in loads
    }
    params = {"requests": count, "steps": 120, "machines": 4000, "seeds": seeds, "seconds": seconds}
    return {"params": params, "figures": figures}
