"""Omega's transaction models on the real Plan: what must hold in every run."""

from __future__ import annotations

import numpy as np
import pytest

from bench.papers.omega import OmegaRun, _Simulation, run_omega

SHORT = OmegaRun(planners=8, length_s=30.0, cells=64, cores=8, jobs_per_s=2.2)


@pytest.mark.parametrize("all_or_nothing", [False, True])
@pytest.mark.parametrize("coarse", [False, True])
def test_every_task_is_committed_once_and_nothing_is_over_committed(
    all_or_nothing: bool, coarse: bool
) -> None:
    """Each job ends with all of its tasks in the Plan, and no cell is ever above its cores."""
    run = OmegaRun(
        planners=8,
        length_s=30.0,
        cells=64,
        cores=8,
        jobs_per_s=2.2,
        all_or_nothing=all_or_nothing,
        coarse=coarse,
    )
    simulation = _Simulation(run)

    figures = simulation.finish()

    held = sum(job.tasks for job in simulation.jobs)
    assert figures.given_up == 0
    assert sum(1 for _ in simulation.plan.reservations()) == held
    assert np.asarray(simulation.plan.view().free).min() >= 0


def test_one_planner_has_no_conflicts() -> None:
    """Alone on the Plan nothing changes under a planner, whatever the transaction model."""
    alone = OmegaRun(planners=1, length_s=30.0, coarse=True, all_or_nothing=True)

    assert run_omega(alone).conflict_fraction == 0.0


def test_coarser_transactions_conflict_more() -> None:
    """On the same jobs: fine and incremental least, coarse and all-or-nothing most (Omega 5.2)."""
    fractions = [
        run_omega(
            OmegaRun(planners=8, length_s=60.0, all_or_nothing=whole, coarse=coarse)
        ).conflict_fraction
        for whole, coarse in ((False, False), (False, True), (True, True))
    ]

    assert fractions == sorted(fractions)
    assert fractions[0] < fractions[-1]


def test_a_run_repeats() -> None:
    """The same seed gives the same figures."""
    assert run_omega(SHORT) == run_omega(SHORT)
