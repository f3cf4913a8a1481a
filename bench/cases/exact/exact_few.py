"""`exact_few`: a hundred sets of 5 to 20 requests (`bench/workloads/small_sets.py`), 60 s each.

Figures are of the second half of the seeds: how many are proven and by what, why the others ended,
and the gaps that are left.
"""

from __future__ import annotations

import resource
import time
from collections import Counter
from dataclasses import dataclass
from typing import Final

from bench.cases.exact.runs import warm
from bench.workloads.small_sets import REPORTED_ON, small_set
from planner.agent import Ending, Limits, SolveProgress, SolverReport
from planner.agents.check import check_plan
from planner.agents.exact.agent import EXACT
from planner.plan.plan import Plan

NAME = "exact_few"

SECONDS: Final = 60.0
#: Five requests, all malleable.
_SMALL: Final = (69,)


@dataclass(frozen=True, slots=True)
class _SmallSetProof:
    """How one set ended: the report, what gave the last bound, seconds on the wall."""

    report: SolverReport
    by: str
    wall_s: float


def run(small: bool) -> dict[str, object]:
    """Run every set; small: one of few requests, for half a second."""
    seeds, seconds = (_SMALL, 0.5) if small else (REPORTED_ON, SECONDS)
    warm(*small_set(seeds[0]))
    before = _cpu_s()
    proofs = [_prove(seed, seconds) for seed in seeds]
    proven = [one for one in proofs if one.report.ending is Ending.PROVEN]
    open_ = [one for one in proofs if one.report.ending is not Ending.PROVEN]
    figures = {
        "proven": len(proven),
        "proven_by": dict(Counter(one.by for one in proven)),
        "seconds_to_proof": sorted(round(one.wall_s, 1) for one in proven),
        "endings": dict(Counter(str(one.report.ending) for one in proofs)),
        "gaps_percent": sorted(round(100 * one.report.gap, 2) for one in open_),
        "processor_s": round(_cpu_s() - before, 1),
    }
    return {"params": {"sets": len(seeds), "seconds": seconds}, "figures": figures}


def _prove(seed: int, seconds: float) -> _SmallSetProof:
    cluster, requests = small_set(seed)
    view = Plan(cluster, cluster.grid()).view()
    news: list[SolveProgress] = []
    began = time.monotonic()
    limits = Limits(time_s=seconds, gap=0.0, news=news.append)
    results, report = EXACT.solve(requests, view, limits)
    wall_s = time.monotonic() - began
    checked = check_plan(requests, results, view)
    assert [one.placed for one in checked] == [one.placed for one in results]
    return _SmallSetProof(report, news[-1].proof if news else "everything accepted", wall_s)


def _cpu_s() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)
