"""Job streams: distributions as stated, order, and traces reproduced."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.papers.machines.traces import (
    TraceJobs,
    read_columns,
    read_google_machines,
    read_google_tasks,
)
from bench.papers.machines.workload import (
    JobChunk,
    PoissonWorkload,
    TraceWorkload,
    Workload,
    truncated_normal,
)
from lp.lotes.instance import JobClasses
from tests.papers.machines.google_files import google


def joined(workload: Workload, seed: int = 1) -> JobChunk:
    """All chunks of a stream as one."""
    parts = list(workload.chunks(np.random.default_rng(seed)))
    return JobChunk.of(
        np.concatenate([part.arrival_h for part in parts]),
        np.concatenate([part.request for part in parts]),
        np.concatenate([part.hours for part in parts]),
        np.concatenate([part.job_class for part in parts]),
    )


def skewed(count: int = 5_000) -> JobChunk:
    """A heavy-tailed trace in which long jobs are large."""
    rng = np.random.default_rng(7)
    hours = rng.lognormal(-1.0, 1.2, count)
    request = np.stack([0.02 + 0.1 * (hours > 0.5), rng.uniform(0, 0.2, count)], axis=1)
    arrival = np.sort(rng.uniform(0, 20, count))
    return JobChunk.of(arrival, request, hours, (hours > 0.5).astype(np.int32))


def test_poisson_stream_has_its_rate_shares_and_times() -> None:
    """Counts, class shares and mean times agree with what was asked within 2 %."""
    classes = JobClasses.of([0.7, 0.3], [[0.1, 0.2], [0.3, 0.1]], [0.5, 2.0])
    jobs = joined(PoissonWorkload(classes, 10_000.0, 20.0))
    assert jobs.arrival_h.size == pytest.approx(200_000, rel=0.02)
    assert (jobs.job_class == 0).mean() == pytest.approx(0.7, rel=0.02)
    for kind, mean in ((0, 0.5), (1, 2.0)):
        assert jobs.hours[jobs.job_class == kind].mean() == pytest.approx(mean, rel=0.02)
    assert jobs.arrival_h.max() < 20.0


def test_equal_generators_give_equal_streams() -> None:
    """The stream depends on nothing but its generator."""
    classes = JobClasses.of([1.0], [[0.1, 0.2]], [0.5])
    workload = PoissonWorkload(classes, 1_000.0, 2.0)
    assert (joined(workload, 3).request == joined(workload, 3).request).all()
    assert joined(workload, 3).arrival_h[0] != joined(workload, 4).arrival_h[0]


def test_truncation_raises_the_mean_by_the_known_factor() -> None:
    """At a coefficient of variation of one half, cutting at zero gives 1.0276 of the mean."""
    mean = np.full((400_000, 1), 0.025)
    drawn = truncated_normal(mean, 0.5, np.random.default_rng(0))
    assert drawn.mean() / 0.025 == pytest.approx(1.0276, abs=0.002)
    assert 0 <= drawn.min() <= drawn.max() <= 1


def test_trace_in_chunks_is_the_trace() -> None:
    """Cutting a trace into chunks loses and changes nothing."""
    trace = skewed(1_000)
    assert (joined(TraceWorkload(trace, 2, chunk=37)).hours == trace.hours).all()


def test_bad_chunks_say_where() -> None:
    """Arrivals that descend, and numbers that are not, are refused with their position."""
    one = np.ones(2)
    kinds = np.zeros(2, dtype=np.int32)
    with pytest.raises(ValueError, match=r"arrival_h\[1\] is before"):
        JobChunk.of(np.array([2.0, 1.0]), np.ones((2, 1)), one, kinds)
    with pytest.raises(ValueError, match=r"hours\[1\]"):
        JobChunk.of(one, np.ones((2, 1)), np.array([1.0, np.nan]), kinds)


def test_google_rows_by_hand(tmp_path: Path) -> None:
    """Finished, killed, running and never started tasks; equal profiles are one configuration."""
    folder = google(
        tmp_path,
        [
            "1,0,3600,3610,720,4330,FINISH,0.1,0.2",
            "2,0,0,100,,1900,KILL,0.2,0.1",
            "3,0,7200,7200,,7200,SCHEDULE,0.3,0.1",
            "4,0,7200,,,7300,KILL,0.3,0.1",
        ],
        ["1,0.5,0.2493", "2,1,1", "3,0.5,0.2493", "4,,"],
    )
    jobs = read_google_tasks(folder, window_s=10_800.0)
    assert jobs.arrival_h.tolist() == [0.0, 1.0, 2.0]
    assert jobs.hours == pytest.approx([0.5, 0.2, 1.0])
    assert (jobs.dropped, jobs.jobs) == (1, 3)
    machines = read_google_machines(folder)
    assert machines.count.tolist() == [2, 1]
    assert machines.capacity.tolist() == [[0.5, 0.25], [1.0, 1.0]]


def test_malformed_traces_name_file_and_line(tmp_path: Path) -> None:
    """A missing column, a short row and a word for a number are located."""
    (tmp_path / "a.csv").write_text("x,y\n1,2\n3\n")
    with pytest.raises(ValueError, match=r"a\.csv: no column 'z'"):
        read_columns(tmp_path / "a.csv", ["z"])
    with pytest.raises(ValueError, match=r"a\.csv, line 3: 1 fields, expected 2"):
        read_columns(tmp_path / "a.csv", ["x"])
    folder = google(tmp_path, ["1,0,soon,1,1,1,FINISH,1,1"], [])
    with pytest.raises(ValueError, match=r"'submit_s', line 2: 'soon' is not a number"):
        read_google_tasks(folder)


def test_weights_become_jobs() -> None:
    """A row of weight three is three jobs of the class nearest to its request."""
    jobs = TraceJobs(
        np.array([0.0, 1.0]),
        np.array([1.0, 2.0]),
        np.array([[0.1, 0.1], [0.9, 0.9]]),
        np.array([3, 1]),
        0,
    )
    classes = JobClasses.of([0.5, 0.5], [[1.0, 1.0], [0.1, 0.1]], [1, 1])
    assert jobs.with_classes(classes).job_class.tolist() == [1, 1, 1, 0]
    assert jobs.rate_per_h == 4.0


@pytest.mark.traces
def test_real_google_machines_are_table_one(traces: Path) -> None:
    """The trace's machines are the paper's Table 1 (its last row has 0.50 cores, not 1.00)."""
    machines = read_google_machines(traces / "google2011")
    assert machines.count.tolist() == [6732, 3863, 1001, 795, 126, 52, 5, 5, 3, 1]
    assert machines.capacity[:4].tolist() == [[0.5, 0.5], [0.5, 0.25], [0.5, 0.75], [1.0, 1.0]]
