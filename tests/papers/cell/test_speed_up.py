"""Models of a MapReduce job's time by its workers: what past runs show, and what they do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.papers.cell.architecture import Decision, Growth, shared_state
from bench.papers.cell.simulator import simulate_cell
from bench.papers.cell.speed_up import (
    SpeedUpModel,
    fit_speed_up,
    length_parts,
    workers_by_history,
)
from bench.papers.cell.workload import CELLS, DAY_S, I64, draw_jobs

PLANTED = SpeedUpModel(40.0, 3_000.0, 0.25)
COUNTS = np.array([5, 11, 50, 200], dtype=np.int64)


def _lengths(model: SpeedUpModel, workers: I64) -> list[float]:
    return [model.length_s(n) for n in workers.tolist()]


def test_runs_without_noise_give_the_planted_model() -> None:
    """Four runs with differing workers: all three coefficients."""
    found = fit_speed_up(COUNTS, np.array(_lengths(PLANTED, COUNTS)))
    assert found.serial_s == pytest.approx(PLANTED.serial_s)
    assert found.work_s == pytest.approx(PLANTED.work_s)
    assert found.setup_s == pytest.approx(PLANTED.setup_s)


def test_noise_moves_the_planted_model_little() -> None:
    """Runs a twentieth above and below the truth: each coefficient within a tenth."""
    workers = np.tile(COUNTS, 2)
    lengths = np.array(_lengths(PLANTED, workers)) * np.repeat([1.05, 0.95], 4)
    found = fit_speed_up(workers, lengths)
    assert found.serial_s == pytest.approx(PLANTED.serial_s, rel=0.1)
    assert found.work_s == pytest.approx(PLANTED.work_s, rel=0.1)
    assert found.setup_s == pytest.approx(PLANTED.setup_s, rel=0.1)


@given(
    workers=st.lists(st.integers(1, 3_000), min_size=1, max_size=8),
    length_s=st.floats(1.0, 1e6),
    noise=st.floats(0.1, 2.0),
)
def test_no_coefficient_is_below_zero(workers: list[int], length_s: float, noise: float) -> None:
    """Whatever the runs were, even where more workers took longer."""
    counts = np.array(workers, dtype=np.int64)
    lengths = length_s * counts.astype(np.float64) ** (noise - 1.0)
    found = fit_speed_up(counts, lengths)
    assert min(found.serial_s, found.work_s, found.setup_s) >= 0.0


def test_runs_of_one_count_of_workers_give_the_linear_model() -> None:
    """They cannot tell what is shared, so twice the workers halve the job, as far as is useful."""
    for runs in (1, 3):
        found = fit_speed_up(np.full(runs, 8, dtype=np.int64), np.full(runs, 60.0))
        assert found == SpeedUpModel(0.0, 480.0, 0.0)
        assert found.best(8, 37) == 37


def test_two_counts_of_workers_show_what_is_serial() -> None:
    """20 + 400 / n at 5 and 10 workers; what setting up costs cannot be reported in addition."""
    found = fit_speed_up(np.array([5, 10]), np.array([100.0, 60.0]))
    assert found.serial_s == pytest.approx(20.0)
    assert found.work_s == pytest.approx(400.0)
    assert found.setup_s == 0.0


def test_the_best_workers_are_those_of_every_count() -> None:
    """Against all counts in turn; the fewest of those that are best, and never below the least."""
    for model in (PLANTED, SpeedUpModel(1.0, 0.0, 0.0), SpeedUpModel(0.0, 90.0, 10.0)):
        for least, most in ((1, 400), (1, 20), (150, 160), (7, 7)):
            lengths = [model.length_s(n) for n in range(least, most + 1)]
            assert model.best(least, most) == least + int(np.argmin(lengths))


@pytest.mark.parametrize(
    ("workers", "lengths"), [([], []), ([1, 2], [3.0]), ([0], [1.0]), ([1], [0.0]), ([2], [np.inf])]
)
def test_runs_that_are_none_are_refused(workers: list[int], lengths: list[float]) -> None:
    """No run, lengths of other runs, no workers, no length."""
    with pytest.raises(ValueError, match="run"):
        fit_speed_up(np.array(workers, dtype=np.int64), np.array(lengths))


def test_history_takes_fewer_workers_where_they_cost() -> None:
    """Never fewer than asked for nor more than useful; in the mean nearer to the true best."""
    _, jobs = draw_jobs(CELLS["D"].mapreduce(0.2, 0.3, 0.1), DAY_S, 1)
    chosen = workers_by_history(jobs, 1)
    grows = jobs.useful > jobs.tasks
    assert (chosen[~grows] == jobs.useful[~grows]).all()
    assert ((jobs.tasks <= chosen) & (chosen <= jobs.useful)).all()
    lengths = [
        length_parts(jobs.serial, jobs.setup, workers / jobs.tasks)[grows].mean()
        for workers in (jobs.useful, chosen)
    ]
    assert lengths[1] < 0.9 * lengths[0]


def test_where_jobs_are_linear_a_job_known_by_one_run_grows_as_by_the_linear_model() -> None:
    """The fitted model falls back to it, so that no such job runs slower."""
    _, jobs = draw_jobs(CELLS["D"].mapreduce(), DAY_S, 1)
    chosen = workers_by_history(jobs, 1)
    grows = jobs.useful > jobs.tasks
    assert (chosen[grows] == jobs.useful[grows]).mean() > 0.25


def test_in_a_cell_the_fitted_model_slows_fewer_jobs() -> None:
    """With overheads, all that helps by the linear model makes many jobs slower than asked for."""
    mix, slower = CELLS["D"].mapreduce(0.2, 0.3, 0.1), {}
    for fitted in (False, True):
        architecture = replace(
            shared_state(Decision()), growth=Growth.MAX_PARALLELISM, fitted=fitted
        )
        found = simulate_cell(mix, architecture, 0.25)
        assert len(found.speed_ups) > 100
        slower[fitted] = float((found.speed_ups < 1 - 1e-9).mean())
    assert slower[True] < 0.7 * slower[False]
