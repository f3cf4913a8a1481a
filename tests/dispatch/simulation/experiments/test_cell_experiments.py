"""Omega's precedence, and its MapReduce jobs by past runs: figures of small runs."""

from __future__ import annotations

from dataclasses import replace

from dispatch.simulation.cell.architecture import Growth
from dispatch.simulation.experiments.cell_history import HistoryPoint, history_points, run_history
from dispatch.simulation.experiments.cell_precedence import (
    PrecedencePoint,
    precedence_points,
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
        for points in (precedence_points(small), history_points(small)):
            assert len(set(points)) == len(points)
