"""The LoTES experiments, small: they run, repeat, and their figures are consistent."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.cases.dispatch import lotes_integer, lotes_offline, lotes_sim
from bench.papers.lotes_runs import (
    VARIANTS,
    DrawnOptions,
    DriftOptions,
    Loads,
    TraceOptions,
    drawn_classes,
    is_unstable,
    lotes_drift,
    lotes_rates,
    lotes_resources,
    lotes_trace,
    row_of,
    true_classes,
)
from bench.papers.machines.measures import SimulationOptions
from bench.papers.machines.simulator import MachineSimulator, simulate
from bench.papers.machines.traces import TraceJobs
from bench.papers.machines.workload import JobChunk, PoissonWorkload
from dispatch.machines.placement.state import Machines
from lp.lotes.instance import JobClasses, LotesInstance, MachineConfigurations
from lp.lotes.pipeline import plan_lotes
from tests.papers.machines.google_files import google

SMALL = DrawnOptions(machines=10, hours=2.0, seeds=(1, 2))


def test_resources_experiment_repeats_and_sums_up() -> None:
    """Equal seeds give equal tables; offered load is above nominal by the truncation."""
    first = lotes_resources((0.015,), 0.97, SMALL)
    again = lotes_resources((0.015,), 0.97, replace(SMALL, seeds=(1,)))
    assert first.rows[:3] == again.rows
    assert len(first.rows) == 2 * 3
    for row in first.rows:
        assert row.nominal_load == pytest.approx(0.97)
        assert 1.0 < row.offered_load / row.nominal_load < 1.15
    assert {summary.seeds for summary in first.summaries()} == {2}
    json.dumps(first.to_json())


def test_rates_experiment_covers_its_loads() -> None:
    """One row for each Omega, seed, load and policy."""
    table = lotes_rates((0.0, 0.4), (0.5,), DrawnOptions(machines=10, hours=1.0, seeds=(3,)))
    assert [row.setting["omega"] for row in table.rows] == [0.0] * 3 + [0.4] * 3
    assert {row.policy for row in table.rows} == {"lotes", "tetris", "tetris without times"}


def test_drawn_classes_keep_requests_positive() -> None:
    """phi = 0.06 is refused in words; true means exceed nominal ones by 2.8 %."""
    with pytest.raises(ValueError, match="requests turn negative"):
        drawn_classes(0.06, 1)
    classes = drawn_classes(0.006, 1)
    assert np.abs(classes.request - 0.025).max() <= 0.006
    assert true_classes(classes).request / classes.request == pytest.approx(1.0276, abs=1e-3)


def test_trace_experiment_on_a_tiny_trace(tmp_path: Path) -> None:
    """All three runs of all variants; no one waits on an empty cluster, and all start."""
    rng = np.random.default_rng(1)
    start = np.sort(rng.integers(0, 60_000, 300))
    tasks = [
        f"{i},0,{t},{t},1800,{t + 1800},FINISH,{0.1 + 0.1 * (i % 2)},{0.2 - 0.1 * (i % 2)}"
        for i, t in enumerate(start)
    ]
    options = TraceOptions(shares=(0.1,), seeds=(1, 2))
    table = lotes_trace(google(tmp_path, tasks, ["1,1,1"] * 40), options)
    assert len(table.rows) == 3 * 2 * len(VARIANTS)
    assert not any(row.still_waiting for row in table.rows)
    assert {row.jobs for row in table.rows} != {300}
    by_run = {(row.setting["run"], row.policy): row for row in table.rows}
    assert by_run["empty", "lotes"].wait_mean_s == 0.0
    json.dumps(table.to_json())


def test_the_same_jobs_for_every_policy() -> None:
    """Under one seed policies see equal streams, so their differences are their own."""
    classes = JobClasses.of([0.5, 0.5], [[0.1, 0.1], [0.2, 0.1]], [0.1, 0.2])
    workload = PoissonWorkload(classes, 500.0, 2.0)
    machines = Machines(np.array([5]), np.array([[1.0, 1.0]]))
    arrived = {
        simulate(machines, workload, policy, np.random.default_rng(5)).arrived
        for policy in ("greedy", "tetris", "best_fit", "spread")
    }
    assert len(arrived) == 1


def test_work_is_conserved() -> None:
    """Arrived = refused + ended + running + waiting, and draining ends what was left."""
    classes = JobClasses.of([1.0], [[0.3, 0.1]], [0.5])
    machines = Machines(np.array([4]), np.array([[1.0, 1.0]]))
    workload = PoissonWorkload(classes, 40.0, 5.0)
    for drain in (None, 200.0):
        found = simulate(
            machines,
            workload,
            "greedy",
            np.random.default_rng(5),
            options=SimulationOptions(drain_until_h=drain),
        )
        left = found.running_now + found.still_waiting
        assert found.arrived == found.refused + found.ended + left
        assert (left == 0) == (drain is not None)


def test_no_wait_is_cut_off_when_all_are_to_start() -> None:
    """Without `start_all_h` the longest waits are missing; with it the mean is over every job."""
    classes = JobClasses.of([1.0], [[0.6, 0.1]], [0.5])
    machines = Machines(np.array([4]), np.array([[1.0, 1.0]]))
    workload = PoissonWorkload(classes, 40.0, 5.0, variation=0.0)
    cut, whole, stopped = (
        simulate(
            machines,
            workload,
            "greedy",
            np.random.default_rng(5),
            options=SimulationOptions(start_all_h=limit),
        )
        for limit in (0.0, 1_000.0, 2.0)
    )
    assert cut.still_waiting > stopped.still_waiting > 0
    assert (whole.still_waiting, whole.started) == (0, whole.arrived)
    assert whole.wait_mean_h > cut.wait_mean_h
    assert whole.interval_started.sum() == whole.arrived


def test_a_part_of_a_trace_is_drawn_job_by_job() -> None:
    """Equal seeds draw the same part; weights are thinned, not rows; the order stays."""
    jobs = drifting()
    heavy = TraceJobs(jobs.arrival_h, jobs.hours, jobs.request, np.full(jobs.jobs, 4), 0)
    parts = [heavy.random_part(0.5, np.random.default_rng(3)) for _ in range(2)]
    assert parts[0].weight.tolist() == parts[1].weight.tolist()
    assert parts[0].jobs == pytest.approx(0.5 * heavy.jobs, rel=0.05)
    assert set(parts[0].weight) == {1, 2, 3, 4}
    assert (np.diff(parts[0].arrival_h) >= 0).all()


def test_misuse_is_named() -> None:
    """LoTES without a table, and a policy that does not exist, are errors in words."""
    classes = JobClasses.of([1.0], [[0.3, 0.1]], [0.5])
    machines = Machines(np.array([4]), np.array([[1.0, 1.0]]))
    workload = PoissonWorkload(classes, 40.0, 5.0)
    with pytest.raises(ValueError, match="needs a dispatch table"):
        simulate(machines, workload, "lotes", np.random.default_rng(1))
    with pytest.raises(ValueError, match="expected one of lotes, greedy"):
        simulate(machines, workload, "worst", np.random.default_rng(1))  # type: ignore[arg-type]


@pytest.mark.parametrize("case", [lotes_offline, lotes_sim])
def test_bench_cases_run_small(case) -> None:  # type: ignore[no-untyped-def]
    """Each case returns parameters and figures that JSON can carry."""
    report = json.loads(json.dumps(case.run(True)))
    assert set(report) == {"params", "figures"}
    assert all(value > 0 for value in report["figures"].values())


def test_the_integer_program_lies_between_rounding_and_the_relaxation() -> None:
    """Over the same bins whole machines lose no more than rounding, and gain nothing on the LP."""
    figures: dict[str, Any] = json.loads(json.dumps(lotes_integer.run(True)))["figures"]
    for case in ("hundredth_priced", "tables_priced"):
        loss = figures[f"{case}_integer_highs_loss"]
        assert -1e-6 <= loss <= figures[f"{case}_rounded_loss"] + 1e-6


def drifting(hours: float = 12.0, rate: float = 300.0) -> TraceJobs:
    """A workload that turns from wide, flat jobs into narrow, tall ones half way."""
    rng = np.random.default_rng(11)
    arrival = np.sort(rng.uniform(0, hours, int(hours * rate)))
    late = arrival > hours / 2
    request = np.where(late[:, None], [[0.05, 0.3]], [[0.3, 0.05]])
    request = request + rng.uniform(0, 0.02, request.shape)
    weight = np.ones(arrival.size, dtype=np.int64)
    return TraceJobs(arrival, rng.exponential(0.5, arrival.size), request, weight, 0)


def test_retargeting_keeps_every_job() -> None:
    """Renewed tables lose no job, running or waiting, and serve kinds that static ones miss."""
    machines = MachineConfigurations.of([30, 30], [[1.0, 0.5], [0.5, 1.0]])
    options = DriftOptions(every_h=(1.0,), window_h=2.0, seeds=(1,), part=1.0)
    table = lotes_drift(machines, drifting(), options)
    static, renewed = table.rows[:2]
    assert [row.setting["every_h"] for row in table.rows] == [0.0, 1.0, 1.0, 1.0]
    assert len({row.policy for row in table.rows}) == 3
    for row in table.rows:
        assert row.jobs == 3_600
        assert (row.refused, row.still_waiting) == (0, 0)
    assert renewed.waiting_mean <= static.waiting_mean


def test_a_table_is_kept_until_a_new_one_gains_enough() -> None:
    """With a gain out of reach the run is the static one, job by job; with none it is not."""
    machines = MachineConfigurations.of([30, 30], [[1.0, 0.5], [0.5, 1.0]])

    def waits(least_gain: float) -> list[list[float]]:
        options = DriftOptions(
            (1.0,), ("shares",), least_gain=least_gain, window_h=2.0, seeds=(1,), part=1.0
        )
        return [r.wait_by_interval_s for r in lotes_drift(machines, drifting(), options).rows]

    static, kept = waits(1e9)
    assert kept == static
    assert waits(0.0)[1] != static


def test_a_queue_that_grows_is_unstable_before_many_wait() -> None:
    """One job in a thousand waiting is told from a queue that grows to that by its hourly waits."""
    machines, classes = (
        Machines(np.array([4]), np.ones((1, 2))),
        JobClasses.of([1.0], [[0.1, 0.1]], [0.1]),
    )
    workload = PoissonWorkload(classes, 10.0, 5.0)
    result = simulate(machines, workload, "greedy", np.random.default_rng(1))
    row = row_of(result, {}, 1, Loads(1.0, 1.0, 1.0))
    tail = replace(row, jobs=10_000, still_waiting=10)
    assert not is_unstable(replace(tail, wait_by_interval_s=[5.0, 1.0, 4.0, 4.0, 4.0, 4.0] * 2))
    assert is_unstable(replace(tail, wait_by_interval_s=[float(hour) for hour in range(12)]))
    assert is_unstable(replace(tail, still_waiting=101, wait_by_interval_s=[1.0] * 12))


def test_retargeting_to_the_same_table_changes_nothing() -> None:
    """Splitting a run by a retarget to the table in force gives every job the same machine."""
    machines = MachineConfigurations.of([8, 8], [[1.0, 0.5], [0.5, 1.0]])
    jobs = drifting(4.0)
    classes = JobClasses.of([0.5, 0.5], [[0.3, 0.05], [0.05, 0.3]], [0.5, 0.5])
    table = plan_lotes(LotesInstance.of(machines, classes)).table
    chunk = jobs.with_classes(classes)
    draw = np.random.default_rng(2).random(chunk.arrival_h.size)
    found = []
    for cut in (0, chunk.arrival_h.size // 2):
        simulator = MachineSimulator(
            Machines.of_table(table),
            np.ones(table.wheel.shape),
            "lotes",
            table,
            SimulationOptions(record=True, horizon_h=100.0),
        )
        for part in (slice(0, cut), slice(cut, None)):
            piece = JobChunk(
                chunk.arrival_h[part], chunk.request[part], chunk.hours[part], chunk.job_class[part]
            )
            simulator.feed(piece, draw[part])
            simulator.retarget(table, classes)
        simulator.feed(
            JobChunk(
                *(
                    array[:0]
                    for array in (chunk.arrival_h, chunk.request, chunk.hours, chunk.job_class)
                )
            ),
            draw[:0],
            100.0,
        )
        found.append(simulator.result().machine.tolist())
    assert found[0] == found[1]
    assert min(found[0]) >= 0
