"""`exact_few`: sets of 5 to 20 requests (`bench/workloads/small_sets.py`), 60 s of two cores each.

Seconds are those of the processor, half of what all threads and solvers use together: so on a busy
machine a run takes longer, and comes to about the same; CP-SAT on the whole of a set of blocks
keeps its limit by the wall clock, and has less there. Figures are of the second half of the seeds,
in an order drawn once, so that the first few of them are a fair part: how each set ended and what
gave its last bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from bench.cases.exact.runs import warm
from bench.workloads.processor_time import family_cpu_s
from bench.workloads.small_sets import REPORTED_ON, small_set
from planner.agent import Ending, Limits, SolveProgress, SolverReport
from planner.agents.check import check_plan
from planner.agents.exact.agent import EXACT
from planner.plan.plan import Plan

NAME = "exact_few"

SECONDS: Final = 60.0
#: Five requests, all malleable.
_SMALL: Final = (69,)
#: The seeds in the order in which they run.
ORDER: Final = tuple(np.random.default_rng(21).permutation(REPORTED_ON).tolist())


@dataclass(frozen=True, slots=True)
class _SmallSetProof:
    """How one set ended: the report, what gave the last bound, seconds of the processor."""

    seed: int
    requests: int
    report: SolverReport
    by: str
    processor_s: float

    @property
    def line(self) -> list[object]:
        """Seed, requests, ending, what gave the bound, per cent left, seconds."""
        left = round(100 * self.report.gap, 2)
        ending = str(self.report.ending)
        return [self.seed, self.requests, ending, self.by, left, round(self.processor_s, 1)]


def run(small: bool) -> dict[str, object]:
    """Run every set; small: one of few requests, for half a second."""
    seeds, seconds = (_SMALL, 0.5) if small else (ORDER, SECONDS)
    params = {"sets": len(seeds), "seconds": seconds, "clock": "processor seconds, halved"}
    return {"params": params, "figures": figures_of(seeds, seconds)}


def figures_of(seeds: Sequence[int], seconds: float = SECONDS) -> dict[str, object]:
    """Return the figures of some sets; the first few of `ORDER` are a fair part of all."""
    warm(*small_set(seeds[0]))
    proofs = [_prove(seed, seconds) for seed in seeds]
    proven = [one for one in proofs if one.report.ending is Ending.PROVEN]
    return {
        "proven": len(proven),
        "proven_by": dict(Counter(one.by for one in proven)),
        "endings": dict(Counter(str(one.report.ending) for one in proofs)),
        "sets": [one.line for one in proofs],
        "processor_s": round(sum(one.processor_s for one in proofs), 1),
    }


def _clock() -> float:
    """Return the seconds that two cores have worked for this process and its solvers."""
    return family_cpu_s() / 2


def _prove(seed: int, seconds: float) -> _SmallSetProof:
    cluster, requests = small_set(seed)
    view = Plan(cluster, cluster.grid()).view()
    news: list[SolveProgress] = []
    began = family_cpu_s()
    limits = Limits(time_s=seconds, gap=0.0, news=news.append)
    results, report = replace(EXACT, clock=_clock).solve(requests, view, limits)
    spent_s = family_cpu_s() - began
    checked = check_plan(requests, results, view)
    assert [one.placed for one in checked] == [one.placed for one in results]
    by = news[-1].proof if news else "everything accepted"
    return _SmallSetProof(seed, len(requests), report, by, spent_s)
