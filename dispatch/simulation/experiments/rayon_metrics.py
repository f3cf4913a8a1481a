"""Rayon's metrics of a run (its 6.4), and of a run against the baseline's on the same jobs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dispatch.simulation.cluster.job_progress import JobOutcome, RayonRun

#: Seconds below the entitlement at which figure 17 is told.
BELOW_S = (0.0, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0)

#: A difference of latency that counts: runs go by seconds.
_SAME_S = 1.0


def measure_rayon(run: RayonRun) -> dict[str, float]:
    """Return the figures of one run; times in s, shares between 0 and 1.

    SLA figures are of jobs with a deadline, the others of best effort. What ends after the window
    of arrivals counts for a deadline, and not for throughput.
    """
    production = [one for one in run.outcomes if one.job.deadline_s is not None]
    accepted = [one for one in production if one.accepted]
    rest = [one for one in run.outcomes if one.job.deadline_s is None]
    latency = [one.ended_s - one.job.at_s for one in rest if one.ended_s is not None]
    asked = sum(one.job.work_s for one in production)
    figures = {
        "sla acceptance": _share(len(accepted), len(production)),
        "sla acceptance by work": _share(sum(one.job.work_s for one in accepted), asked),
        "sla fulfilment": _share(sum(one.in_time for one in accepted), len(accepted)),
        "best-effort completed": float(sum(_ended_in(one, run.window_s) for one in rest)),
        "best-effort latency mean_s": float(np.mean(latency)) if latency else 0.0,
        "best-effort latency median_s": float(np.median(latency)) if latency else 0.0,
        "utilisation": float(np.mean(run.used)) / run.containers if run.used else 0.0,
        "requeued": float(sum(one.requeued for one in run.outcomes)),
        "below longest_s": max((one.below_s for one in accepted), default=0.0),
        "gang gathering mean_s": _mean_gathering_s(run.outcomes),
        "slots kept": float(run.slots.kept),
        "slots broken": float(run.slots.broken),
    }
    for limit in BELOW_S:
        share = sum(one.below_s > limit for one in accepted) / max(len(accepted), 1)
        figures[f"below over {limit:g} s"] = share
    return figures


def compare_rayon(run: RayonRun, base: RayonRun) -> dict[str, float]:
    """Return what a run gains over a baseline's on the same jobs."""
    before = {one.job.name: one for one in base.outcomes}
    pairs = [(one, before[one.job.name]) for one in run.outcomes]
    rest = [_gain_s(one, other) for one, other in pairs if one.job.deadline_s is None]
    production = [
        _gain_s(one, other)
        for one, other in pairs
        if one.job.deadline_s is not None and one.accepted
    ]
    here = sum(_ended_in(one, run.window_s) for one, _ in pairs if one.job.deadline_s is None)
    there = sum(_ended_in(one, run.window_s) for _, one in pairs if one.job.deadline_s is None)
    return {
        "best-effort throughput": here / max(there, 1),
        "best-effort latency better": float(np.mean(np.array(rest) > _SAME_S)),
        "best-effort latency worse": float(np.mean(np.array(rest) < -_SAME_S)),
        "sla latency worse": float(np.mean(np.array(production) < -_SAME_S)) if production else 0.0,
    }


def _share(part: float, whole: float) -> float:
    """Return a share; all of nothing is 1, for no promise was broken."""
    return part / whole if whole else 1.0


def _ended_in(one: JobOutcome, window_s: float) -> bool:
    return one.ended_s is not None and one.ended_s <= window_s


def _gain_s(one: JobOutcome, other: JobOutcome) -> float:
    """Return how much earlier a job ends than under the baseline; infinite where only one did."""
    if one.ended_s is None:
        return 0.0 if other.ended_s is None else -np.inf
    return np.inf if other.ended_s is None else other.ended_s - one.ended_s


def _mean_gathering_s(outcomes: Sequence[JobOutcome]) -> float:
    """Return the mean time from a gang's first container to its last, s; 0 without gangs."""
    found = [
        one.full_s - one.began_s
        for one in outcomes
        if one.job.stages[0].gang and one.full_s is not None and one.began_s is not None
    ]
    return float(np.mean(found)) if found else 0.0
