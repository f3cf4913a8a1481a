"""Pictures of experiments: scales that can be read, and nothing drawn where nothing was."""

from __future__ import annotations

import dataclasses
from math import isnan
from pathlib import Path

import pytest

from bench.papers.lotes import lotes_result
from bench.papers.lotes_runs import LotesRow, LotesTable
from service.pictures.experiments import ExperimentPanel, PanelSeries, write_panels


def row(
    policy: str = "lotes", seed: int = 1, mean: float = 100.0, **setting: float | str
) -> LotesRow:
    """A run whose second hour saw no start."""
    return LotesRow(
        setting=dict(setting),
        policy=policy,
        seed=seed,
        jobs=10,
        refused=0,
        still_waiting=0,
        arrival_rate_per_h=1.0,
        sustained_rate_per_h=2.0,
        nominal_load=0.5,
        offered_load=0.5,
        wait_mean_s=mean,
        wait_p99_s=7200.0,
        wait_max_s=7200.0,
        long_share=0.1,
        waiting_max=1,
        waiting_mean=0.5,
        wait_by_interval_s=[1.0, 0.0, 5.0],
        starts_by_interval=[3, 0, 7],
    )


@pytest.mark.parametrize("form", ["rows", "lines"])
@pytest.mark.parametrize("most", [1500.0, 90_000.0])
def test_log_scales_have_plain_numbers(tmp_path: Path, form: str, most: float) -> None:
    """No formula of matplotlib's stands in the picture, and at least two powers or parts do."""
    path = tmp_path / "panels.svg"
    names = ["a", "b"] if form == "rows" else [1.0, 2.0]
    series = PanelSeries("one", names, [700.0, most])
    panel = ExperimentPanel("title", "x", "s", (series,), log_y=True, least=100.0, form=form)  # type: ignore[arg-type]
    write_panels("all", [panel], path)
    text = path.read_text()
    assert "mathdefault" not in text
    assert sum(f">{label}<" in text for label in (200, 500, 700, 1000, 1500, 10000, 100000)) >= 2


def test_hours_without_starts_are_left_out() -> None:
    """An hour in which nothing started has no mean wait; a zero would draw a dip."""
    rows = (row(run="scaled", machines=0.5), row("tetris", run="scaled", machines=0.5))
    outcome = lotes_result([LotesTable("lotes-trace", rows, {})])
    hourly = outcome.panels[-1].series[0].y
    assert [hourly[0], hourly[2]] == [1.0, 5.0]
    assert isnan(hourly[1])


def test_waits_are_shown_with_their_spread_over_seeds() -> None:
    """Mean 200 and deviation 141 of 100 and 300, in the table and in the panel of the run."""
    rows = tuple(
        row(seed=s, mean=m, run="scaled", machines=0.5) for s, m in ((1, 100.0), (2, 300.0))
    )
    outcome = lotes_result([LotesTable("lotes-trace", rows, {})])
    header, cells = outcome.tables[0].header, outcome.tables[0].rows[0]
    assert cells[header.index("mean wait s")] == 200.0
    assert cells[header.index("spread")] == pytest.approx(141.42, abs=0.01)
    assert list(outcome.panels[0].series[0].y) == [200.0]
    assert cells[header.index("p99 h")] == 2.0


def test_what_varies_little_is_not_drawn_on_a_log_scale() -> None:
    """Waits of one order have a linear scale in order of what varies, others a log scale."""
    near = LotesTable("d", (row(mean=150.0, every_h=2.0), row(mean=100.0, every_h=0.0)), {})
    panel = lotes_result([near]).panels[0]
    assert (panel.log_y, list(panel.series[0].x)) == (False, [0.0, 2.0])
    far = dataclasses.replace(near, rows=(*near.rows, row(mean=1e4, every_h=4.0)))
    assert lotes_result([far]).panels[0].log_y
