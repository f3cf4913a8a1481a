"""LoTES figures 6, 7, 9 and 10: arrivals by hour and class, waits beyond a length, queues."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from bench.papers.lotes import lotes_arrivals
from bench.papers.lotes_runs import GREEDY, LONGER_S, TETRIS, TraceOptions, lotes_trace
from bench.papers.machines.measures import (
    SimulationOptions,
    build_counters,
    result_of,
)
from service.cli.kit.errors import DONE
from tests.papers.command_line import papers
from tests.papers.machines.google_files import google


def _tasks(starts: list[int]) -> list[str]:
    """Return a task for each start, small and large ones by turns, half an hour long."""
    return [
        f"{i},0,{t},{t},1800,{t + 1800},FINISH,{0.1 + 0.3 * (i % 2)},{0.4 - 0.3 * (i % 2)}"
        for i, t in enumerate(starts)
    ]


def test_arrivals_are_counted_by_hour_and_class(tmp_path: Path) -> None:
    """Two in the first hour, one in the second, one of the trace's start, none past the window."""
    folder = google(tmp_path, _tasks([0, 600, 1200, 3700]), ["1,1,1"])
    found = lotes_arrivals(folder)
    assert found.at_start == 1
    assert len(found.arrived) == 19
    assert (found.arrived[0], found.arrived[1], sum(found.arrived)) == (2, 1, 3)
    for count, shares in zip(found.arrived, found.shares, strict=True):
        assert sum(shares) == pytest.approx(1.0 if count else 0.0)
    json.dumps(found.shares)


@pytest.mark.parametrize(("hours", "share"), [(0.0, 0.75), (0.5, 0.5), (2.0, 0.25), (20.0, 0.0)])
def test_shares_beyond_a_wait_are_read_off_the_histogram(hours: float, share: float) -> None:
    """Of waits of 0, 0.1, 1 and 10 h, this many are longer."""
    options = SimulationOptions()
    counters = build_counters(options, 1, 1)
    for wait in (0.0, 0.1, 1.0, 10.0):
        bucket = 1 + int(20 * np.log10(wait / 1e-6)) if wait else 0
        counters.histogram[bucket] += 1
    assert result_of("tetris", counters, options).share_beyond(hours) == share


def test_rows_tell_waits_and_queues_hour_by_hour(tmp_path: Path) -> None:
    """Twenty tasks at once on one machine: shares fall with the wait, the queue is all but some."""
    folder = google(tmp_path, _tasks([100] * 20), ["1,1,1"])
    options = TraceOptions(runs=("empty",), variants=(TETRIS, GREEDY), seeds=(1,), part=1.0)
    for row in lotes_trace(folder, options).rows:
        assert len(row.longer_shares) == len(LONGER_S)
        assert row.longer_shares == sorted(row.longer_shares, reverse=True)
        assert row.longer_shares[0] > 0.5
        assert max(row.waiting_by_interval) == row.waiting_max > 10


def test_the_command_draws_arrivals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes, hours and claims of a tiny trace, and a picture of both figures."""
    traces = tmp_path / "google2011"
    traces.mkdir()
    google(traces, _tasks(list(range(60, 60_000, 600))), ["1,1,1"])
    monkeypatch.setenv("AGENDA_TRACES", str(tmp_path))
    picture = tmp_path / "arrivals.svg"
    done = papers("lotes-arrivals", "--small", "--picture", picture, "-o", "json")
    assert done.exit_code == DONE, done.output
    document = json.loads(done.stdout)
    assert document["claims"].keys() == document["claimed"].keys()
    assert "by class (figure 7, seed 1)" in picture.read_text()
