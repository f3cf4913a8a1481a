"""Rayon's metrics and experiments: what is counted, and that every claim has its figure."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from bench.papers.cluster.job_progress import JobOutcome, RayonRun
from bench.papers.cluster.rayon_workload import RayonJob, RayonStage, RayonWorkload
from bench.papers.rayon import (
    RayonOptions,
    compare_rayon,
    measure_rayon,
    rayon_design,
    rayon_table,
    run_rayon_seed,
)

SMALL = RayonWorkload(machines=4, jobs_per_hour=200.0, hours=0.1, load=1.2, production=0.3)


def test_metrics_count_what_the_paper_counts() -> None:
    """One of two SLAs met, one of two best-effort jobs in the window, figure 17 from 3 s below."""
    stage = (RayonStage(1, 10.0),)
    with_deadline = [RayonJob(f"p{k}", "A", 0, 0.0, stage, 50.0) for k in range(3)]
    rest = [RayonJob(f"b{k}", "A", 0, 0.0, stage) for k in range(2)]
    run = RayonRun(
        (
            JobOutcome(with_deadline[0], True, 0.0, 0.0, 40.0, below_s=3.0),
            JobOutcome(with_deadline[1], True, 0.0, 0.0, 51.0),
            JobOutcome(with_deadline[2], False, None, None, None),
            JobOutcome(rest[0], True, 0.0, 0.0, 90.0),
            JobOutcome(rest[1], True, 0.0, 0.0, 130.0),
        ),
        2,
        100.0,
        (1, 2, 2, 1),
    )
    figures = measure_rayon(run)
    assert figures["sla acceptance"] == pytest.approx(2 / 3)
    assert figures["sla fulfilment"] == 0.5
    assert figures["best-effort completed"] == 1
    assert figures["utilisation"] == 0.75
    assert (figures["below over 2 s"], figures["below over 5 s"]) == (0.5, 0.0)
    slower = replace(run, outcomes=tuple(replace(o, ended_s=140.0) for o in run.outcomes))
    gains = compare_rayon(run, slower)
    assert gains["best-effort latency better"] == 1.0
    assert gains["best-effort throughput"] == 1.0


@pytest.mark.parametrize(
    "name",
    ["rayon-sla", "rayon-overreserve", "rayon-mixed", "rayon-served-mixed"],
)
def test_experiments_give_figures_claims_and_plain_json(name: str) -> None:
    """Small runs: SLAs that were accepted are kept, and every claim has its figure."""
    options = RayonOptions(SMALL, (1, 2))
    design = rayon_design(name)
    table = rayon_table(design, options, [run_rayon_seed(design, options, seed) for seed in (1, 2)])
    document = json.loads(json.dumps(table.to_json()))
    assert document["params"]["seeds"] == [1, 2]
    assert document["claimed"].keys() == document["claims"].keys()
    served = table.rows.get("agenda as served", table.rows["agenda"])
    assert table.rows["agenda"]["sla fulfilment"].mean == 1.0
    assert served["sla fulfilment"].mean == 1.0
