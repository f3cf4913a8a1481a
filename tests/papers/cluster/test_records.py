"""Records and metrics of a run say what the run was."""

from __future__ import annotations

import contextlib
import csv
import json
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from bench.papers.cluster.baselines import scheduler_named
from bench.papers.cluster.generator import ZoeWorkload
from bench.papers.cluster.job_progress import JobOutcome, RayonRun
from bench.papers.cluster.metrics import Spread, measure_run
from bench.papers.cluster.rayon_workload import RayonJob, RayonStage
from bench.papers.cluster.records import (
    COLUMNS,
    JobRecord,
    JobsFile,
    rayon_records_of,
    records_of,
)
from bench.papers.cluster.simulator import SimulatedRun, simulate_cluster
from bench.papers.cluster.workload import Submission
from bench.papers.zoe import SERVERS, cluster_design, zoe_design
from bench.papers.zoe_runs import (
    ExperimentDesign,
    ZoeOptions,
    ZoeTable,
    run_seed,
    table_of,
)
from dispatch.pool.claims import Claim, ClaimPart


def _run() -> SimulatedRun:
    """Ten units: a takes all for 4 s, b half from 1 s on, c never fits."""
    parts = [("a", 0, 4, 10), ("b", 1, 6, 5), ("c", 2, 1, 11)]
    submissions = [
        Submission(Claim(name, (ClaimPart(core, (1,)),), (), float(at), float(run)), at, run, "B-R")
        for name, at, run, core in parts
    ]
    return simulate_cluster(submissions, scheduler_named("flexible", {"u": 10}))


def _write(records: Iterable[JobRecord], path: Path) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        JobsFile(file).write(records)


def test_jobs_csv_has_the_columns_and_the_arithmetic(tmp_path: Path) -> None:
    """b waits 3 of 9 s, stretch 1.5; c is rejected and leaves its times empty."""
    _write(records_of(_run(), "w"), tmp_path / "jobs.csv")
    with (tmp_path / "jobs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    b, c = rows[1], rows[2]
    assert [
        float(b[key])
        for key in ("waiting_time", "execution_time", "finish_time", "turnaround_time", "stretch")
    ] == [3, 6, 10, 9, 1.5]
    assert (c["final_state"], c["success"], c["finish_time"]) == ("REJECTED", "0", "")
    assert json.loads(b["metadata"])["core"] == 5


def test_metrics_weight_by_time_until_the_last_submission() -> None:
    """Full for both seconds before the last arrival, one waits for the second of them."""
    metrics = measure_run(_run(), {"u": 10})
    assert metrics.allocation["u"].mean == 1.0
    assert metrics.waiting.mean == pytest.approx(0.5)
    assert (metrics.groups["B-R"].completed, metrics.groups["B-R"].rejected) == (2, 1)
    assert metrics.groups["all"].turnaround.mean == pytest.approx(6.5)


def test_a_weighted_spread_is_that_of_repeated_values() -> None:
    """Weights 1, 2, 3 are as good as each value that often, for mean and median."""
    spread = Spread.of(np.array([3.0, 1.0, 2.0]), np.array([1.0, 3.0, 2.0]))
    assert spread.mean == pytest.approx(np.mean([3, 1, 1, 1, 2, 2]))
    assert spread.median == 1.0


def run_experiment(design: ExperimentDesign, options: ZoeOptions) -> ZoeTable:
    """Run every variant on the same workload, seed by seed."""
    return table_of(design, options, [run_seed(design, options, seed) for seed in options.seeds])


def test_experiments_give_rows_over_seeds_and_plain_json() -> None:
    """Small runs: every variant has its row, every ratio its claim, and JSON holds it all."""
    workload = ZoeWorkload(applications=400, load=1.2)
    options = ZoeOptions(workload, (1, 2))
    for name, rows in (("zoe-baseline", 6), ("zoe-preemption", 4)):
        table = run_experiment(zoe_design(name), options)
        assert len(table.rows) == rows
        assert table.ratios.keys() == table.claims.keys()
        text = json.loads(json.dumps(table.to_json()))
        assert text["params"]["seeds"] == [1, 2]
    cluster = run_experiment(cluster_design(), ZoeOptions(SERVERS, (1, 2)))
    assert cluster.row("flexible", "fifo").figures["all rejected"].mean == 0


def test_what_sets_schedulers_apart_is_how_wide_applications_are() -> None:
    """zoe-widths: with narrow applications rigid is near flexible; with wide ones it falls back."""
    options = ZoeOptions(ZoeWorkload(applications=1_000, interactive=0.0, load=2.0), (1,))
    table = run_experiment(zoe_design("zoe-widths"), options)
    for name in ("rigid", "malleable"):
        key = f"widest {{}}, cores to 1,000: mean turnaround, {name} / flexible"
        narrow, wide = (table.ratios[key.format(widest)].mean for widest in (0.1, 0.5))
        assert 1.0 < narrow < 1.05 < wide
    assert {row.variant.setting for row in table.rows} >= {"widest 0.1, cores to 1,000"}


def test_seeds_that_were_not_run_are_not_told() -> None:
    """A run that is stopped after one of three seeds says that it holds one."""
    options = ZoeOptions(ZoeWorkload(applications=50), (1, 2, 3))
    design = zoe_design("zoe-preemption")
    table = table_of(design, options, [run_seed(design, options, 1)])
    assert table.params["seeds"] == [1]
    assert all(figure.deviation is None for figure in table.ratios.values())


def test_records_of_rayons_jobs_tell_ended_refused_and_unfinished(tmp_path: Path) -> None:
    """Three jobs: 5 s late of 10 s alone, refused, cut off by the end of the run."""
    stage = (RayonStage(2, 20.0),)
    jobs = [RayonJob(f"j{index}", "A", 3, 10.0, stage, 40.0) for index in range(3)]
    outcomes = (
        JobOutcome(jobs[0], True, 15.0, 15.0, 25.0, below_s=2.0),
        JobOutcome(jobs[1], False, None, None, None),
        JobOutcome(jobs[2], True, 12.0, None, None),
    )
    run = RayonRun(outcomes, 4, 100.0, ())
    path = tmp_path / "jobs.csv"
    _write(rayon_records_of(run, "w"), path)
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["final_state"] for row in rows] == [
        "COMPLETED_SUCCESSFULLY",
        "REJECTED",
        "UNFINISHED",
    ]
    assert [float(rows[0][key]) for key in ("waiting_time", "turnaround_time", "stretch")] == [
        5.0,
        15.0,
        1.5,
    ]
    assert json.loads(rows[0]["metadata"])["below"] == 2.0


def test_a_full_disk_is_reported_with_the_file() -> None:
    """Not with the trace that is read while jobs are written."""
    if not Path("/dev/full").exists():
        pytest.skip("no device that is always full")
    file = Path("/dev/full").open("w", encoding="utf-8")  # noqa: SIM115  closing fails as well
    with pytest.raises(OSError, match="No space left") as caught:
        JobsFile(file).write([])
    assert caught.value.filename == "/dev/full"
    with contextlib.suppress(OSError):
        file.close()
