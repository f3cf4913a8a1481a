"""Omega's precedence, and its MapReduce jobs by past runs: figures of small runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bench.papers import omega_cell as sweeps
from bench.papers.cell.architecture import Growth
from bench.papers.cell.workload import draw_jobs
from bench.papers.omega_cell import (
    CellPoint,
    HistoryPoint,
    PrecedencePoint,
    history_points,
    precedence_points,
    run_history,
    run_precedence,
)


def test_precedence_serves_service_jobs_of_a_full_cell_at_the_price_of_lost_work() -> None:
    """Cell D with twenty times the batch jobs, and no claim against the policy."""
    equal = run_precedence(PrecedencePoint("D", 20.0, above=False, days=0.1), 1)
    above = run_precedence(PrecedencePoint("D", 20.0, above=True, days=0.1), 1)
    assert equal["evictions"] == equal["lost"] == 0.0
    assert above["evictions"] > 0
    assert 0.0 < above["lost"] < 0.1
    assert above["service_placed_s"] <= equal["service_placed_s"]
    assert above["breaches"] == equal["breaches"] == 0.0


def test_linear_jobs_never_run_slower_and_others_slow_less_by_their_history() -> None:
    """Max-parallelism on cell D: parts of the jobs that take longer than with what they ask for."""
    one = HistoryPoint("D", True, Growth.MAX_PARALLELISM, fitted=True, days=0.1)
    assert run_history(one, 1)["slower"] == 0.0
    slower = [
        run_history(replace(one, linear=False, fitted=fitted), 1)["slower"]
        for fitted in (False, True)
    ]
    assert 0.0 < slower[1] < slower[0]


def test_points_are_all_different() -> None:
    """Those of either size."""
    for small in (False, True):
        for points in (precedence_points(small), history_points(small), *_sweeps(small)):
            assert len(set(points)) == len(points)


def _sweeps(small: bool) -> list[Sequence[CellPoint]]:
    made = (sweeps.waits, sweeps.loads, sweeps.balance, sweeps.schedulers, sweeps.decisions)
    return [one(small) for one in (*made, sweeps.rules, sweeps.constraints)]


def test_constraints_stand_on_a_part_of_the_jobs_that_come() -> None:
    """Half of them, on one to five of ten kinds of machines; none without."""
    for picky in (0.0, 0.5):
        _, coming = draw_jobs(sweeps.PickyPoint(cell="D", picky=picky).mix(), 40_000.0, 1)
        kinds = np.array([one.bit_count() for one in coming.allowed.tolist()])
        assert abs(float((kinds < 10).mean()) - picky) < 0.05
        assert set(kinds.tolist()) <= {1, 2, 3, 4, 5, 10}


def test_more_batch_schedulers_are_each_less_busy() -> None:
    """Four times the batch jobs of cell D, dealt to one and to four."""
    busy = [
        sweeps.run_point(sweeps.CellPoint(cell="D", busier=4.0, batches=n, days=0.1), 1)
        for n in (1, 4)
    ]
    assert busy[1]["batch_busyness"] < 0.5 * busy[0]["batch_busyness"]
