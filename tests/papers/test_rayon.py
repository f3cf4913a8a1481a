"""Rayon's workload, the capacity scheduler, and the simulation on the real Plan and dispatcher."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.papers.cluster.capacity_scheduler import (
    CapacityOptions,
    guarantees,
    run_capacity_scheduler,
)
from bench.papers.cluster.job_progress import JobOutcome, JobProgress
from bench.papers.cluster.planned_cluster import (
    PlannedOptions,
    request_of,
    run_planned_cluster,
)
from bench.papers.cluster.rayon_workload import (
    READ_MIB,
    SHUFFLED_MIB,
    RayonJob,
    RayonStage,
    RayonWorkload,
    deadline_of,
    half_of,
    most_tasks,
    queue_of,
    rayon_workload,
    read_swim_sizes,
    size_at,
)
from planner.metrics import measure
from planner.plan.plan import Plan
from planner.promise import PromiseLevel
from planner.validation.validate import validate
from planner.workload.plan import document_of
from rdl.compile.compiler import compile_expression
from rdl.compile.context import CompileContext
from rdl.expressions import Atom, Order, Window
from rdl.time_grid import TimeGrid

SMALL = RayonWorkload(machines=4, jobs_per_hour=200.0, hours=0.2, load=1.2)


def jobs_of(seed: int = 1, workload: RayonWorkload = SMALL) -> list[RayonJob]:
    """Return a few jobs; a third of them with deadlines, so that there are some."""
    return rayon_workload(replace(workload, production=0.3), np.random.default_rng(seed))


def planned(workload: RayonWorkload = SMALL) -> PlannedOptions:
    """Return the options of the real parts on the workload's cluster."""
    return PlannedOptions(workload.machines, workload.containers_each, workload.hours * 3600)


@st.composite
def jobs(draw: st.DrawFn) -> list[RayonJob]:
    """Up to six jobs of one or two stages on eight containers, gangs among them."""
    found: list[RayonJob] = []
    at = 0.0
    for index in range(draw(st.integers(1, 6))):
        at += draw(st.floats(0.0, 40.0))
        stages = tuple(
            RayonStage(width := draw(st.integers(1, 6)), width * draw(st.floats(1.0, 20.0)), gang)
            for gang in draw(st.lists(st.booleans(), min_size=1, max_size=2))
        )
        slack = draw(st.floats(0.5, 3.0))
        deadline = deadline_of(at, stages, slack, 10) if draw(st.booleans()) else None
        found.append(RayonJob(f"j{index}", "A", index % 8, at, stages, deadline))
    return found


@given(
    st.lists(st.tuples(st.integers(1, 300), st.floats(10.0, 500.0)), min_size=1, max_size=20),
    st.floats(0.01, 2.0),
)
def test_stages_are_limited_just_so_much_that_the_load_comes_out(
    stages: list[tuple[int, float]], load: float
) -> None:
    """At the limit no more than the load is offered, with one more task a stage it would be."""
    drafts = [(RayonStage(tasks, tasks * each),) for tasks, each in stages]
    workload = replace(SMALL, load=load)
    room = load * workload.containers * 720.0
    most = most_tasks(drafts, workload)

    def offered(limit: int) -> float:
        return sum(min(tasks, limit) * each for tasks, each in stages)

    assert most == 1 or offered(most) <= room * (1 + 1e-9)
    assert most == workload.containers or offered(most + 1) > room * (1 - 1e-9)


def test_deadlines_lie_on_the_grid_behind_the_submission() -> None:
    """Drawn jobs: whole steps, no earlier than the time alone allows, a share as asked for."""
    drawn = rayon_workload(replace(SMALL, jobs_per_hour=5_000.0), np.random.default_rng(4))
    with_deadline = [job for job in drawn if job.deadline_s is not None]
    assert 0.02 < len(with_deadline) / len(drawn) < 0.09
    for job in with_deadline:
        assert job.deadline_s is not None
        assert job.deadline_s % 10 == 0
        assert job.deadline_s - job.at_s >= 1.1 * sum(stage.alone_s for stage in job.stages)


@pytest.mark.traces
def test_the_drawn_sizes_have_mean_and_quantiles_of_the_trace(traces: Path) -> None:
    """Facebook's day: MiB read and shuffled agree at 50, 80, 90, 99 % and in the mean, to 5 %."""
    sizes, _ = read_swim_sizes(traces / "swim" / "FB-2009_samples_24_times_1hr_0.tsv.gz")
    evenly = (np.arange(400_000) + 0.5) / 400_000
    for column, table in enumerate((READ_MIB, SHUFFLED_MIB)):
        drawn = size_at(table, evenly)
        places = [0.9, 0.95, 0.99] if column else [0.5, 0.8, 0.9, 0.99]
        there, here = np.quantile(sizes[:, column], places), np.quantile(drawn, places)
        assert here == pytest.approx(there, rel=0.05)
        assert drawn.mean() == pytest.approx(sizes[:, column].mean(), rel=0.05)


def test_each_tenant_has_three_hours_of_the_trace(tmp_path: Path) -> None:
    """A job of 4 h belongs to tenant 1, one of 23 h 59 min to tenant 7; bytes become MiB."""
    path = tmp_path / "swim.tsv.gz"
    with gzip.open(path, "wt") as file:
        file.write(f"a\t14400\t0\t{1 << 20}\t0\t0\nb\t86340\t0\t0\t{1 << 21}\t0\n")
    sizes, tenants = read_swim_sizes(path)
    assert tenants.tolist() == [1, 7]
    assert sizes.tolist() == [[1.0, 0.0], [0.0, 2.0]]
    with gzip.open(path, "wt") as file:
        file.write("a\t1\tx\n")
    with pytest.raises(ValueError, match="line 1: six tab-separated columns"):
        read_swim_sizes(path)


def test_half_of_the_jobs_are_half_of_both_classes() -> None:
    """Every second job with a deadline and every second without, in order of submission."""
    whole = jobs_of()
    half = half_of(whole)
    for production in (True, False):
        there = [job for job in whole if (job.deadline_s is not None) is production]
        here = [job for job in half if (job.deadline_s is not None) is production]
        assert here == there[::2]
    assert half == sorted(half, key=lambda job: job.at_s)


def test_a_gang_works_only_when_it_is_whole() -> None:
    """Three of four containers do nothing; when the fourth has started it ends 10 s later."""
    job = RayonJob("g", "B", 0, 0.0, (RayonStage(4, 40.0, gang=True),))
    progress = JobProgress(job, 0.0)
    progress.hold(4, 3)
    assert not progress.advance(100.0)
    assert progress.left_s == 40.0
    progress.hold(4, 4)
    assert not progress.advance(105.0)
    assert progress.advance(111.0)
    assert (progress.began_s, progress.full_s, progress.ended_s) == (0.0, 0.0, 110.0)


def test_guarantees_follow_the_known_work_and_maxima_bound_a_queue() -> None:
    """Two queues with work 3 : 1 have 6 and 2 of 8 containers; alone, one takes at most twice."""
    stages = (RayonStage(8, 240.0),)
    first = RayonJob("a", "A", 0, 0.0, stages)
    second = RayonJob("b", "A", 1, 1_000.0, (RayonStage(8, 80.0),))
    shares = guarantees([first, second], 8)
    assert (shares[queue_of(first)], shares[queue_of(second)]) == (6, 2)
    run = run_capacity_scheduler([first, second], CapacityOptions(8, 2_000.0, start_s=0.0))
    ends = [one.ended_s for one in run.outcomes]
    assert ends == [30.0, 1_020.0]  # all 8 of 12 allowed; then 4, twice a guarantee of 2


def test_a_container_works_when_it_has_started_up() -> None:
    """Alone on eight containers, 30 s of work end after 2 s of starting up; so long it is below."""
    job = RayonJob("a", "A", 0, 0.0, (RayonStage(8, 240.0),))
    assert run_capacity_scheduler([job], CapacityOptions(8, 100.0)).outcomes[0].ended_s == 32.0
    options = PlannedOptions(1, 8, 100.0)
    assert run_planned_cluster([job], options).outcomes[0].ended_s == 32.0
    entitled = replace(job, deadline_s=40.0)
    (one,) = run_planned_cluster([entitled], replace(options, production="1")).outcomes
    assert (one.accepted, one.ended_s, one.below_s) == (True, 32.0, 2.0)


def test_a_queue_short_of_its_guarantee_gets_it_back_after_its_stall_limit() -> None:
    """A queue that holds everything gives half back 15 s after the other has come."""
    long = RayonJob("a", "A", 0, 0.0, (RayonStage(8, 800.0),))
    late = RayonJob("b", "A", 1, 10.0, (RayonStage(4, 800.0),))
    run = run_capacity_scheduler([long, late], CapacityOptions(8, 2_000.0, start_s=0.0))
    assert [one.began_s for one in run.outcomes] == [0.0, 25.0]


@given(jobs())
@settings(max_examples=8, deadline=None)
def test_the_capacity_scheduler_keeps_to_the_cluster_and_ends_everything(
    drawn: list[RayonJob],
) -> None:
    """Never more containers than there are, and every container-second of work is done."""
    run = run_capacity_scheduler(drawn, CapacityOptions(8, 300.0, after_s=2_000.0))
    assert max(run.used, default=0) <= 8
    assert all(_possible(one) for one in run.outcomes if not _blocked(one.job, drawn))


def _blocked(job: RayonJob, drawn: list[RayonJob]) -> bool:
    """Whether a gang of the same queue may be wider than the queue may ever be."""
    return any(
        stage.gang for one in drawn if queue_of(one) == queue_of(job) for stage in one.stages
    )


def _possible(one: JobOutcome) -> bool:
    least = sum(stage.alone_s for stage in one.job.stages)
    return one.ended_s is not None and one.ended_s >= one.job.at_s + least - 1e-3


def validated(plan: Plan) -> None:
    """Hold a Plan against the validator, which asks the oracle about every reservation."""
    metrics = measure([], plan.cluster.nominal, plan.grid.horizon)
    document = document_of(plan, "gree-l", "submitted", metrics).to_json()
    del document["metrics"]
    assert validate(document, grid=plan.grid) == []


@given(jobs())
@settings(max_examples=20, deadline=None)
def test_every_accepted_reservation_ends_by_its_deadline(drawn: list[RayonJob]) -> None:
    """Real Plan (valid throughout), follower, dispatcher, instant starts: accepted is in time."""
    options = PlannedOptions(1, 8, 300.0, after_s=3_000.0, production="1", over=1.3, start_s=0.0)
    run = run_planned_cluster(drawn, options, look=validated)
    assert max(run.used, default=0) <= 8
    for one in run.outcomes:
        if one.accepted:
            assert _possible(one)
            assert one.below_s == 0.0
        if one.accepted and one.job.deadline_s is not None:
            assert one.in_time


def test_a_request_asks_for_all_stages_in_order_above_the_truth() -> None:
    """Two stages of 80 and 20 container-seconds at 1.5: 120 and 30 in steps, by the deadline."""
    job = RayonJob("r", "C", 0, 3.0, (RayonStage(4, 80.0), RayonStage(2, 20.0)), 200.0)
    expression = request_of(job, 1.5, 10)
    graph = compile_expression(expression, CompileContext(TimeGrid(10_000, 100), 3_000))
    assert [graph.paths[vertex] for vertex in graph.atoms] == ["0.0", "0.1"]
    assert isinstance(expression, Window)
    assert isinstance(expression.of, Order)
    atoms = [atom for atom in expression.of.children if isinstance(atom, Atom)]
    assert [atom.work_ms for atom in atoms] == [120_000, 30_000]


def test_the_same_seed_gives_the_same_run() -> None:
    """Two runs over the real parts agree in every outcome."""
    drawn = jobs_of(3)
    assert run_planned_cluster(drawn, planned()) == run_planned_cluster(drawn, planned())


@pytest.mark.parametrize("mix", [(1.0, 0.0, 0.0), (0.5, 0.25, 0.25)])
def test_promised_machines_are_kept_to_the_end(mix: tuple[float, float, float]) -> None:
    """Jobs, gangs and workflows alongside best effort: every promise is kept."""
    options = replace(planned(), promise=PromiseLevel.PLACED)
    run = run_planned_cluster(jobs_of(workload=replace(SMALL, mix=mix)), options)
    assert run.broken == frozenset()
