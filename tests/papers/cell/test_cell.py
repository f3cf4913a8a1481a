"""The model of a cell: held against a plain one, against queueing theory, and by its laws."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from bench.papers.cell.architecture import (
    Architecture,
    CellScheduler,
    Decision,
    Growth,
    View,
    multi_path,
    partitioned,
    shared_state,
    single_path,
    two_level,
)
from bench.papers.cell.kernels.arrays import CLAIMS, END, EVENTS, TRANSACTIONS
from bench.papers.cell.simulator import (
    CellRun,
    median_deviation,
    run_jobs,
    simulate_cell,
)
from bench.papers.cell.workload import (
    BATCH,
    CELLS,
    DAY_S,
    SERVICE,
    WHOLE,
    CellJobs,
    CellMix,
    draw_jobs,
)
from tests.papers.cell.one_machine import OneMachine

#: A small cell with the shapes of cell C, and jobs for an hour or two.
SMALL = replace(CELLS["C"], machines=300)
TINY = replace(SMALL, machines=1, kinds=1)
SLOW = Decision(20.0, 0.05)


def _tiny_jobs(seed: int) -> CellJobs:
    """Return jobs that crowd one machine, at times that nothing else shares."""
    rng = np.random.default_rng(seed)
    count = 12
    arrival = np.sort(rng.uniform(0, 60, count))
    length = rng.uniform(5, 40, count)
    tasks, cores, memory = (rng.integers(1, most, count) for most in (6, 400, 400))
    type_ = rng.integers(0, 2, count)
    useful = tasks * rng.integers(1, 9, count)
    one_kind = np.ones(count, dtype=np.int64)
    serial, setup = rng.uniform(0, 0.3, (2, count))
    equal = np.zeros(count, dtype=np.int64)
    return CellJobs(
        arrival, length, type_, tasks, cores, memory, one_kind, useful, serial, setup, equal
    )


def _none() -> CellJobs:
    return CellJobs._make(column[:0] for column in _tiny_jobs(0))


RULES = st.sampled_from([(False, False), (False, True), (True, False), (True, True)])
SHARERS = st.sampled_from(
    [single_path(3.0), multi_path(SLOW), shared_state(SLOW, Decision(2.0), 2)]
)


GROWTHS = st.sampled_from([Growth.NONE, Growth.MAX_PARALLELISM, Growth.RELATIVE_SIZE])
PRECEDENCES = st.sampled_from([(0, 0), (0, 1), (3, 1)])
#: Precedences of schedulers in turn, and of every job in turn; most jobs of the schedulers' queues.
SCALES = st.sampled_from([((0,), (0,)), ((0, 2), (0,)), ((0,), (0, 1, 2)), ((2, 0, 1), (1, 0, 4))])
ADMITS = st.sampled_from([None, 1, 3])


@given(
    seed=st.integers(0, 10_000),
    architecture=SHARERS,
    rules=RULES,
    growth=GROWTHS,
    precedence=PRECEDENCES,
    scales=SCALES,
    admits=ADMITS,
)
def test_on_one_machine_it_is_the_plain_model(
    seed: int,
    architecture: Architecture,
    rules: tuple[bool, bool],
    growth: Growth,
    precedence: tuple[int, int],
    scales: tuple[tuple[int, ...], tuple[int, ...]],
    admits: int | None,
) -> None:
    """Every first attempt, last placement, attempt, conflict, refusal and eviction is the same."""
    chosen = architecture.rules(coarse=rules[0], gang=rules[1])
    chosen = replace(chosen, attempts=7, growth=growth, times=2, precedence=precedence)
    of_schedulers, of_jobs = scales
    schedulers = tuple(
        replace(one, precedence=level, admits=admits)
        for one, level in zip(chosen.schedulers, cycle(of_schedulers), strict=False)
    )
    chosen = replace(chosen, schedulers=schedulers)
    jobs = _tiny_jobs(seed)._replace(precedence=np.resize(np.array(of_jobs), 12))
    plain = OneMachine(chosen, jobs, 400.0).run()
    found = run_jobs(TINY, chosen, _none(), jobs, 400.0)
    first, placed = found.jobs.first_s, found.jobs.placed_s
    assert {j: first[j] for j in np.flatnonzero(~np.isnan(first)).tolist()} == plain.first
    assert {j: placed[j] for j in np.flatnonzero(~np.isnan(placed)).tolist()} == plain.placed
    assert found.jobs.attempts.tolist() == [plain.attempts.get(j, 0) for j in range(12)]
    assert found.jobs.conflicts.tolist() == [plain.conflicts.get(j, 0) for j in range(12)]
    assert found.machines.cores.tolist() == [plain.free]
    held, evicts = found.log.precedence, len(set(plain.precedences())) > 1
    assert held.evictions.tolist() == [plain.evictions.get(j, 0) for j in range(12) if evicts]
    assert held.lost_s.tolist() == [plain.lost_s.get(j, 0.0) for j in range(12) if evicts]
    assert np.flatnonzero(found.jobs.refused).tolist() == sorted(plain.refused)


ARCHITECTURES = (
    single_path(0.1),
    multi_path(SLOW),
    partitioned(SLOW, 0.4),
    two_level(SLOW),
    shared_state(SLOW, batches=3),
    shared_state(SLOW).rules(coarse=True, gang=False),
    shared_state(SLOW).rules(coarse=True, gang=True),
    replace(shared_state(SLOW, batches=3), precedence=(0, 1)),
    replace(multi_path(SLOW), precedence=(1, 0)),
    Architecture(
        "by scheduler",
        View.SHARED,
        tuple(CellScheduler((BATCH, SERVICE), SLOW, SLOW, precedence=level) for level in range(3)),
    ),
)


def _run(architecture: Architecture, mix: CellMix = SMALL, seed: int = 1) -> CellRun:
    busy = mix.busier(2.0)
    length_s = 2 * 3_600.0
    return run_jobs(busy, architecture, *draw_jobs(busy, length_s, seed), length_s, seed)


def _not_evicted(found: CellRun) -> NDArray[np.bool_]:
    evictor = found.log.precedence.evictor
    return evictor < 0 if len(evictor) else np.ones(len(found.log.claim), dtype=np.bool_)


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda one: one.name)
def test_what_is_held_is_what_runs_and_no_machine_holds_too_much(
    architecture: Architecture,
) -> None:
    """Free and held capacity add up on every machine, and nothing is below 0."""
    found = _run(architecture)
    log, counts = found.log, found.counts
    runs = log.which[: counts[EVENTS]][log.what[: counts[EVENTS]] == END]
    held = np.zeros((SMALL.machines, 2), dtype=np.int64)
    for number in runs.tolist():
        places = log.claim[log.first[number] : log.first[number] + log.tasks[number]]
        stays = _not_evicted(found)[log.first[number] : log.first[number] + log.tasks[number]]
        np.add.at(held, places[stays], (log.cores[number], log.memory[number]))
    assert (found.machines.cores == WHOLE - held[:, 0]).all()
    assert (found.machines.memory == WHOLE - held[:, 1]).all()
    assert min(found.machines.cores.min(), found.machines.memory.min()) >= 0
    assert counts[TRANSACTIONS] > 300


@pytest.mark.parametrize("architecture", ARCHITECTURES, ids=lambda one: one.name)
def test_every_task_is_placed_waits_or_was_given_up(architecture: Architecture) -> None:
    """Placed tasks of the jobs, less those evicted, and those that are left are all of them."""
    found = _run(architecture)
    log, count = found.log, found.counts[TRANSACTIONS]
    placed = np.zeros(len(found.states.left), dtype=np.int64)
    stay = np.add.reduceat(_not_evicted(found).astype(np.int64), log.first[:count])
    last = int(log.first[count - 1])
    stay[-1] = _not_evicted(found)[last : last + log.tasks[count - 1]].sum()
    np.add.at(placed, log.job[:count], stay)
    came = slice(0, found.came)
    assert (placed[came] + found.jobs.left == found.jobs.asked).all()


def test_waits_are_those_of_a_queue_with_one_server() -> None:
    """Pollaczek and Khinchine: lambda E[S^2] / (2 (1 - rho)), on a cell with capacity for all."""
    mix = replace(CELLS["C"], machines=20_000)
    measured, foretold = [], []
    for seed in range(4):
        _, coming = draw_jobs(mix, DAY_S, seed)
        taking = 1.5 + 0.005 * coming.tasks
        rate = len(coming.tasks) / DAY_S
        busy = rate * taking.mean()
        foretold.append(rate * (taking**2).mean() / (2 * (1 - busy)))
        found = run_jobs(mix, single_path(1.5), _none(), coming, DAY_S, seed)
        measured.append(float(np.nanmean(found.jobs.first_s - found.jobs.arrival_s)))
    assert np.mean(measured) == pytest.approx(np.mean(foretold), rel=0.1)


def test_parts_of_a_partition_hold_only_their_own_jobs() -> None:
    """Batch tasks stand on the first machines, service tasks on the others."""
    found = _run(partitioned(SLOW, 0.4))
    log, border = found.log, round(0.4 * SMALL.machines)
    for number in range(int(found.counts[TRANSACTIONS])):
        places = log.claim[log.first[number] : log.first[number] + log.tasks[number]]
        if log.owner[number] == 0:
            assert (places < border).all()
        elif log.owner[number] == 1:
            assert (places >= border).all()


def test_picky_jobs_stand_on_machines_of_their_kinds() -> None:
    """No claim is on a machine of a kind that its job does not allow."""
    mix = SMALL.picky(1.0)
    _, coming = draw_jobs(mix, 3_600.0, 1)
    found = run_jobs(mix, shared_state(Decision()), _none(), coming, 3_600.0)
    rows = {
        (int(c), int(m)): int(a)
        for c, m, a in zip(coming.cores, coming.memory, coming.allowed, strict=True)
    }
    alike = len(rows) == len(coming.cores)
    checked = 0
    for number in range(int(found.counts[TRANSACTIONS])):
        allowed = rows[int(found.log.cores[number]), int(found.log.memory[number])]
        first = int(found.log.first[number])
        places = found.log.claim[first : first + int(found.log.tasks[number])]
        if alike:
            assert ((allowed >> found.machines.kind[places]) & 1).all()
            checked += len(places)
    assert checked == found.counts[CLAIMS] * alike


def test_a_limit_bounds_what_a_scheduler_holds() -> None:
    """Of a tenth of the cell its jobs never hold more."""
    little = CellScheduler((BATCH, SERVICE), limit=0.1)
    found = _run(Architecture("limited", View.SHARED, (little,)))
    most = round(0.1 * SMALL.machines * WHOLE)
    assert max(found.schedulers.held_cores[0], found.schedulers.held_memory[0]) <= most
    assert (found.jobs.left > 0).any()


def test_coarse_and_gang_rules_conflict_more_often() -> None:
    """As Omega's figure 14: fine and incremental is the least."""
    fractions = []
    for coarse, gang in ((False, False), (False, True), (True, False)):
        chosen = shared_state(Decision(100.0)).rules(coarse=coarse, gang=gang)
        found = run_jobs(CELLS["C"], chosen, *draw_jobs(CELLS["C"], DAY_S, 1), DAY_S)
        conflicts, done = found.schedulers.conflicts.sum(), found.schedulers.successes.sum()
        fractions.append(conflicts / done)
    assert fractions[0] < fractions[1]
    assert fractions[0] < fractions[2]


def test_a_slow_framework_with_all_in_its_offer_keeps_the_other_waiting() -> None:
    """Two-level, against shared state on the same jobs: batch jobs are placed later."""
    late = []
    for architecture in (shared_state(Decision(60.0)), two_level(Decision(60.0))):
        found = _run(architecture)
        batch = found.jobs.type == BATCH
        late.append(np.nanmean((found.jobs.placed_s - found.jobs.arrival_s)[batch]))
    assert late[1] > 3 * late[0]


def test_more_workers_shorten_jobs_as_far_as_the_policy_goes() -> None:
    """Max-parallelism the most, four times as many at most by size, none above the cap."""
    mix, median = CELLS["D"].mapreduce(), {}
    for growth in Growth:
        architecture = replace(shared_state(Decision()), growth=growth, cap=0.0)
        found = simulate_cell(mix, architecture, 0.5)
        assert len(found.speed_ups) > 300
        median[growth] = float(np.median(found.speed_ups))
        if growth is Growth.RELATIVE_SIZE:
            assert found.speed_ups.max() == pytest.approx(4.0)
    assert median[Growth.MAX_PARALLELISM] > median[Growth.RELATIVE_SIZE] > 1.0
    assert median[Growth.NONE] == median[Growth.GLOBAL_CAP] == 1.0


def test_equal_seeds_give_equal_runs() -> None:
    """Other seeds give others."""
    one, same, other = (simulate_cell(SMALL, shared_state(SLOW), 0.05, seed) for seed in (3, 3, 4))
    assert one.schedulers == same.schedulers
    assert one.batch == same.batch
    assert one.batch != other.batch


def test_the_mix_holds_about_what_it_says() -> None:
    """Two days of cell C: between half and three quarters of the dominant resource."""
    found = simulate_cell(replace(CELLS["C"], machines=12_500), shared_state(Decision()), 2.0)
    assert 0.35 < float(np.median(found.used)) < 0.7
    assert found.batch.jobs > 0.8 * (found.batch.jobs + found.service.jobs)
    assert not found.is_saturated


def test_jobs_without_a_scheduler_and_parts_that_are_none_are_refused() -> None:
    """With what is wrong."""
    nobody = Architecture("batch alone", View.SHARED, (CellScheduler((BATCH,)),))
    with pytest.raises(ValueError, match="no scheduler takes jobs of type 1"):
        simulate_cell(SMALL, nobody, 0.05)
    parts = tuple(CellScheduler((BATCH, SERVICE), part=0.3) for _ in range(2))
    with pytest.raises(ValueError, match=r"sum to 0\.6"):
        simulate_cell(SMALL, Architecture("parts", View.PART, parts), 0.05)


def test_the_median_deviation_is_of_the_median() -> None:
    """1, 1, 2, 2, 4, 6, 9: median 2, deviations 1, 1, 0, 0, 2, 4, 7, of which 1."""
    assert median_deviation(np.array([1.0, 1, 2, 2, 4, 6, 9])) == (2.0, 1.0)
