"""Precedence in the model of a cell: who gives way to whom, and the audit after the fact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench.papers.cell.architecture import (
    Architecture,
    CellScheduler,
    Decision,
    View,
    shared_state,
    two_level,
)
from bench.papers.cell.audit import audit_claims
from bench.papers.cell.kernels.arrays import CLAIMS
from bench.papers.cell.simulator import (
    CellRun,
    measure_cell,
    run_jobs,
    simulate_cell,
)
from bench.papers.cell.workload import (
    BATCH,
    CELLS,
    SERVICE,
    CellJobs,
    draw_jobs,
)

ONE = replace(CELLS["C"], machines=1, kinds=1)
FULL = replace(CELLS["C"], machines=300, filled=1.0).busier(4.0)
ABOVE = replace(shared_state(Decision(1.0, 0.0), Decision(1.0, 0.0)), precedence=(0, 1))


def _jobs(*rows: tuple[float, float, int, int, int]) -> CellJobs:
    """Return jobs of one kind of machines: arrival, length, type, tasks, cores (memory alike)."""
    arrival, length, types, tasks, cores = (np.array(column) for column in zip(*rows, strict=True))
    none, equal = np.zeros(len(rows)), np.zeros(len(rows), dtype=np.int64)
    return CellJobs(
        arrival, length, types, tasks, cores, cores, np.ones_like(tasks), tasks,
        none, none.copy(), equal,
    )  # fmt: skip


def _nothing() -> CellJobs:
    return CellJobs._make(column[:0] for column in _jobs((0.0, 1.0, BATCH, 1, 1)))


def _crowded(architecture: Architecture) -> CellRun:
    return run_jobs(FULL, architecture, *draw_jobs(FULL, 3_600.0, 1), 3_600.0)


def test_the_newest_tasks_give_way_and_are_placed_again() -> None:
    """By hand: of three batch tasks of 300 two fit alongside a service task of 400.

    Jobs 0 and 1 are placed at 1 and 2 s, the service job at 11 s, for which the task of job 1, the
    newest, gives way after 9 s. It is tried without success, each second, until the service task
    ends at 31 s, and is placed by the attempt that begins at or after it.
    """
    jobs = _jobs(
        (0.0, 100.0, BATCH, 2, 300), (1.0, 50.0, BATCH, 1, 300), (10.0, 20.0, SERVICE, 1, 400)
    )
    found = run_jobs(ONE, ABOVE, _nothing(), jobs, 200.0)
    assert found.log.precedence.evictions.tolist() == [0, 1, 0]
    assert found.log.precedence.lost_s.tolist() == [0.0, 9.0, 0.0]
    assert found.jobs.placed_s.tolist() == [1.0, 32.0, 11.0]
    assert found.jobs.first_s.tolist() == [0.0, 1.0, 10.0]
    assert audit_claims(found, ABOVE) == []


def test_without_precedence_the_same_job_waits_for_capacity() -> None:
    """The hand-computed case with equal precedences: at 52 s the task of job 1 ends."""
    jobs = _jobs(
        (0.0, 100.0, BATCH, 2, 300), (1.0, 50.0, BATCH, 1, 300), (10.0, 20.0, SERVICE, 1, 400)
    )
    found = run_jobs(ONE, replace(ABOVE, precedence=(1, 1)), _nothing(), jobs, 200.0)
    assert found.jobs.placed_s.tolist() == [1.0, 2.0, 53.0]
    assert len(found.log.precedence.evictions) == 0


def test_tasks_that_stood_at_the_start_give_way_too() -> None:
    """The standing batch job loses its task after 1 s and has it back 6 s later."""
    standing = _jobs((0.0, 100.0, BATCH, 1, 900))
    coming = _jobs((0.0, 5.0, SERVICE, 1, 500))
    found = run_jobs(ONE, ABOVE, standing, coming, 50.0)
    assert found.jobs.placed_s.tolist() == [1.0]
    assert found.states.placed_s.tolist() == [1.0, 7.0]
    assert found.log.precedence.lost_s.tolist() == [0.0, 1.0]


def test_equal_precedence_changes_nothing() -> None:
    """A cell whose types have one precedence runs as one without any."""
    plain = _crowded(shared_state(Decision(5.0)))
    same = _crowded(replace(shared_state(Decision(5.0)), precedence=(4, 4)))
    assert np.array_equal(plain.jobs.placed_s, same.jobs.placed_s, equal_nan=True)


def test_the_least_important_tasks_give_way_first() -> None:
    """By hand: of two batch tasks the older goes, whose job has the lower precedence of its own.

    It frees capacity enough for the service job; the newer alone would not.
    """
    jobs = _jobs(
        (0.0, 100.0, BATCH, 1, 500), (1.0, 100.0, BATCH, 1, 300), (10.0, 300.0, SERVICE, 1, 600)
    )
    jobs = jobs._replace(precedence=np.array([0, 1, 1]))
    found = run_jobs(ONE, ABOVE, _nothing(), jobs, 200.0)
    assert found.log.precedence.evictions.tolist() == [1, 0, 0]
    assert audit_claims(found, ABOVE) == []


def test_a_scheduler_has_precedence_over_another_of_the_same_type() -> None:
    """By hand: of two batch schedulers one may evict; the other's job is placed after it.

    Jobs are dealt in turn. The second takes the machine at 2 s from the first, which is placed by
    the attempt that begins when its task ends, at 12 s.
    """
    plain = CellScheduler((BATCH, SERVICE), Decision(1.0, 0.0))
    above = replace(plain, precedence=1)
    two = Architecture("one above", View.SHARED, (plain, above))
    jobs = _jobs((0.0, 100.0, BATCH, 1, 900), (1.0, 10.0, BATCH, 1, 900))
    found = run_jobs(ONE, two, _nothing(), jobs, 200.0)
    assert found.jobs.placed_s.tolist() == [13.0, 2.0]
    assert found.log.precedence.evictions.tolist() == [1, 0]
    assert audit_claims(found, two) == []
    turned = replace(two, schedulers=(above, plain))
    assert "(precedence 1) was evicted for" in audit_claims(found, turned)[0]


def test_parts_of_the_jobs_have_precedences_of_their_own() -> None:
    """A tenth of the batch jobs is above the others: it alone evicts, and the rest is as it was."""
    batch = replace(FULL.batch, precedences=(0.9, 0.1))
    length_s = 3_600.0
    standing, coming = draw_jobs(replace(FULL, batch=batch), length_s, 1)
    plain = draw_jobs(FULL, length_s, 1)[1]
    assert coming.arrival_s.tolist() == plain.arrival_s.tolist()
    assert coming.cores.tolist() == plain.cores.tolist()
    assert 0.05 < coming.precedence[coming.type == BATCH].mean() < 0.15
    assert not coming.precedence[coming.type == SERVICE].any()
    shared = shared_state(Decision(5.0))
    found = run_jobs(FULL, shared, standing, coming, length_s)
    evictions = found.log.precedence.evictions
    assert evictions.sum() > 50
    assert not evictions[found.precedence == 1].any()
    assert audit_claims(found, shared) == []


def test_a_scheduler_refuses_jobs_while_as_many_wait_as_it_admits() -> None:
    """By hand: one is decided about for 10 s, two wait, the fourth is refused.

    Refused jobs have no wait.
    """
    narrow = CellScheduler((BATCH, SERVICE), Decision(10.0, 0.0), admits=2)
    architecture = Architecture("admits 2", View.SHARED, (narrow,))
    jobs = _jobs(*((at, 5.0, BATCH, 1, 10) for at in (0.0, 1.0, 2.0, 3.0, 11.0)))
    found = run_jobs(ONE, architecture, _nothing(), jobs, 100.0)
    assert found.jobs.refused.tolist() == [0, 0, 0, 1, 0]
    assert found.jobs.placed_s[found.jobs.refused == 0].tolist() == [10.0, 20.0, 30.0, 40.0]
    figures = measure_cell(found, architecture, 100.0).batch
    assert (figures.jobs, figures.refused, figures.placed, figures.waiting) == (5, 1, 4, 0)
    assert figures.wait_s == (0 + 9 + 18 + 19) / 4


def test_a_scheduler_that_admits_nothing_is_refused() -> None:
    """With what is wrong."""
    closed = Architecture("closed", View.SHARED, (CellScheduler((BATCH, SERVICE), admits=0),))
    with pytest.raises(ValueError, match="admits 0 jobs; 1 is the least"):
        simulate_cell(ONE, closed, 0.01)


def test_only_tasks_of_lower_precedence_are_evicted_and_the_audit_agrees() -> None:
    """In a crowded cell batch tasks give way, service tasks never; the log shows no breach."""
    architecture = replace(shared_state(Decision(5.0)), precedence=(0, 1))
    found = _crowded(architecture)
    evictions = found.log.precedence.evictions
    assert evictions[found.states.type == BATCH].sum() > 100
    assert evictions[found.states.type == SERVICE].sum() == 0
    assert audit_claims(found, architecture) == []


def test_service_jobs_are_placed_sooner_and_batch_jobs_later() -> None:
    """Service above batch in a crowded cell, by the mean time until all tasks are placed."""
    after = []
    for precedence in ((0, 0), (0, 1)):
        architecture = replace(shared_state(Decision(5.0)), precedence=precedence)
        found = simulate_cell(FULL, architecture, 0.05)
        after.append((found.service.placed_after_s, found.batch.placed_after_s))
        assert (found.batch.evicted > 0) is (precedence == (0, 1))
        assert (found.batch.lost_task_s > 0) is (precedence == (0, 1))
    assert after[1][0] < after[0][0]
    assert after[1][1] > after[0][1]


def test_the_log_grows_where_tasks_are_placed_again_and_again() -> None:
    """A short service job each 4 s: more claims than tasks, all kept, all accounted for."""
    rows = [(0.0, 1e6, BATCH, 5, 150)]
    rows += [(4.0 * turn, 1.0, SERVICE, 1, 800) for turn in range(1, 60)]
    found = run_jobs(ONE, ABOVE, _nothing(), _jobs(*rows), 300.0)
    claims = int(found.counts[CLAIMS])
    assert claims > found.jobs.asked.sum() + 100
    assert claims == found.jobs.asked.sum() + found.log.precedence.evictions.sum()
    assert (found.jobs.left == 0).all()
    assert audit_claims(found, ABOVE) == []


def test_the_audit_shows_what_broke_the_policy() -> None:
    """Of a sound run, held against stricter policies and with a doctored log."""
    found = _crowded(replace(shared_state(Decision(5.0)), precedence=(0, 1)))
    narrow = tuple(replace(one, limit=0.05) for one in shared_state(Decision(5.0)).schedulers)
    limited = Architecture("narrow", View.SHARED, narrow, precedence=(0, 1))
    told = audit_claims(found, limited)
    assert any("scheduler 0 held" in line and "its limit is 0.05" in line for line in told)
    turned = replace(shared_state(Decision(5.0)), precedence=(1, 0))
    assert any("(precedence 1) was evicted for" in line for line in audit_claims(found, turned))
    found.log.cores[:] *= 2
    assert audit_claims(found, ABOVE)[0].startswith("machine ")


def test_a_limit_that_is_kept_passes_the_audit() -> None:
    """A scheduler with a tenth of the cell."""
    little = CellScheduler((BATCH, SERVICE), limit=0.1)
    limited = Architecture("limited", View.SHARED, (little,))
    assert audit_claims(_crowded(limited), limited) == []


def test_offers_know_no_precedence() -> None:
    """A framework sees no claims of others, so that precedence is refused there."""
    with pytest.raises(ValueError, match="offers show what is free"):
        simulate_cell(ONE, replace(two_level(Decision()), precedence=(0, 1)), 0.01)
