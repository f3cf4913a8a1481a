"""Generated workloads have the shares, ranges and load they are requested."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.papers.cluster.generator import (
    BATCH_RIGID,
    INTERACTIVE,
    ZoeWorkload,
    read_google_jobs,
    without_interactive,
    zoe_workload,
)
from bench.papers.cluster.workload import Submission

COUNT = 20_000


def _offered(submissions: list[Submission], workload: ZoeWorkload) -> float:
    """Work on the scarcest resource over what the pool can do until the last arrival."""
    span = float(submissions[-1].at)
    loads = []
    for kind, total in enumerate(workload.total.values()):
        work = sum(
            float(one.run)
            * sum(part.count * part.amounts[kind] for part in one.claim.core + one.claim.elastic)
            for one in submissions
        )
        loads.append(work / (total * span))
    return max(loads)


def test_the_mix_and_the_load_are_what_was_asked() -> None:
    """80/20 batch and interactive, 80/20 elastic and rigid, load 0.7, within sampling error."""
    workload = ZoeWorkload(applications=COUNT, load=0.7)
    drawn = zoe_workload(workload, np.random.default_rng(3))
    labels = [one.label for one in drawn]
    error = 4 * 0.5 / COUNT**0.5
    assert labels.count(INTERACTIVE) / COUNT == pytest.approx(0.2, abs=error)
    assert labels.count(BATCH_RIGID) / COUNT == pytest.approx(0.16, abs=error)
    assert _offered(drawn, workload) == pytest.approx(0.7, rel=1e-3)


def test_every_application_stays_within_the_published_ranges() -> None:
    """Up to 6 cores, 30 s to three weeks, a core always, and no more than its share at once."""
    workload = ZoeWorkload(applications=COUNT)
    for one in zoe_workload(workload, np.random.default_rng(4)):
        parts = one.claim.core + one.claim.elastic
        assert all(5 <= part.amounts[0] <= 6_000 for part in parts)
        assert 30 <= one.run <= 21 * 86_400
        assert one.claim.core[0].count >= 1
        for kind, total in enumerate(workload.total.values()):
            asked = sum(part.count * part.amounts[kind] for part in parts)
            assert asked <= workload.widest * total
        assert (one.label == BATCH_RIGID) <= (not one.claim.elastic)


def test_drawn_run_times_keep_their_median() -> None:
    """Batch: median 600 s; a generator that inverts its distribution wrongly would double it."""
    drawn = zoe_workload(ZoeWorkload(applications=COUNT), np.random.default_rng(5))
    batch = [float(one.run) for one in without_interactive(drawn)]
    assert np.median(batch) == pytest.approx(600, rel=0.05)


@pytest.mark.traces
def test_sampling_googles_trace_keeps_its_mean_and_quantiles(traces: Path) -> None:
    """Run times and CPU of 20,000 sampled jobs against the trace's own, within a few per cent."""
    folder = traces / "google2011"
    table = read_google_jobs(folder)
    workload = ZoeWorkload(applications=COUNT, trace=folder)
    drawn = zoe_workload(workload, np.random.default_rng(6))
    run = np.array([float(one.run) for one in drawn])
    real = np.clip(table[:, 3], 30.0, 21 * 86_400.0)
    assert run.mean() == pytest.approx(real.mean(), rel=0.08)
    for share in (0.25, 0.5, 0.75, 0.9):
        assert np.quantile(run, share) == pytest.approx(np.quantile(real, share), rel=0.08)
    cpu = np.array([one.claim.core[0].amounts[0] for one in drawn]) / 1000
    assert cpu.mean() == pytest.approx(np.clip(table[:, 0] * 32, 0.005, 6).mean(), rel=0.05)
