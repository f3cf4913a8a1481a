"""`exact_mixed`: 100 requests, a third each of malleable atoms, gangs and workflows; and gangs.

Target: a proven gap of 4 % within 60 s, mean of 5 seeds; 1 % is the goal. The generator's gangs
(which may split into runs of a lease or more) are listed as well.
"""

from __future__ import annotations

from typing import Final

from bench.cases.exact.exact_workflows import MARKS, SECONDS, SEEDS
from bench.cases.exact.runs import of_kind
from bench.workloads.generator import Mix

NAME = "exact_mixed"

#: What is run: kind and load.
SETS: Final = {
    "mixed 1.2": ("mixed", 1.2),
    "mixed 2": ("mixed", 2.0),
    "gangs 1.2": ("gangs", 1.2),
}


def run(small: bool) -> dict[str, object]:
    """Run every set and seed; small: 20 requests of one for a second."""
    names = ("mixed 1.2",) if small else tuple(SETS)
    seeds, count, seconds = (SEEDS[:1], 20, 1.0) if small else (SEEDS, 100, SECONDS)
    mixes = {name: Mix(count, 120, kind=SETS[name][0], load=SETS[name][1]) for name in names}
    figures = {name: of_kind(mix, seeds, seconds, MARKS) for name, mix in mixes.items()}
    params = {"requests": count, "steps": 120, "machines": 4000, "seeds": seeds, "seconds": seconds}
    return {"params": params, "figures": figures}
