"""What a log has recorded is shown next to the agents' plans: hours, waits and lateness."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from planner.files.workload_file import WorkloadLine, read_line
from planner.metrics import work_figures
from planner.workload.compare import NOT_RECORDED, RECORDED, compare
from planner.workload.compile import compile_workload
from planner.workload.plan import work_of
from rdl.time_grid import TimeGrid
from tests.builders import a_cluster

CLUSTER = a_cluster().horizon(400).machines("m", 4, cpu=1).build()
LINES = (
    WorkloadLine("a", "window(atom(<1 cpu>, 2, 2, 60, 120), 0, 100)", recorded=(10_000, 130_000)),
    WorkloadLine(
        "b", "window(atom(<1 cpu>, 1, 4, 40, 160), 0, 300)", submitted_ms=20_000,
        recorded=(50_000, 90_000),
    ),
    WorkloadLine("never", "window(atom(<1 cpu>, 1, 1, 60, 60), 0, 300)"),
)  # fmt: skip


def test_the_recorded_row_has_what_ran() -> None:
    """Two ran, one of them 30 s late; held for the recorded time, and no bound is one on it."""
    run = compare(CLUSTER, compile_workload(LINES, CLUSTER), ["gree"]).runs[-1]
    assert (run.agent, run.basis) == ("as recorded", RECORDED)
    assert run.metrics is not None
    assert run.document is not None
    assert (run.metrics.accepted, run.metrics.requests, run.metrics.bound) == (2, 3, None)
    assert run.metrics.value == pytest.approx((120 + 160) / 3600)
    work = work_of(run.document)
    assert work.hours["cpu"] == pytest.approx((2 * 120 + 4 * 40) / 3600)
    assert work.utilisation["cpu"] == pytest.approx(400 / (4 * 400))
    assert (work.wait_mean_s, work.wait_p95_s) == pytest.approx((20.0, 29.0))
    assert (work.late_mean_s, work.late_p95_s) == pytest.approx((-90.0, 18.0))
    assert [one.code for one in run.left_out()] == [NOT_RECORDED]


def test_without_records_there_is_no_such_row() -> None:
    """A workload that no log was read for is compared among agents alone."""
    compared = compare(CLUSTER, compile_workload(LINES[2:], CLUSTER), ["gree"])
    assert [run.agent for run in compared.runs] == ["gree"]


def test_a_line_is_read_and_written_with_its_run() -> None:
    """Seconds in the file, milliseconds inside."""
    [line] = [one for one in LINES if one.id == "b"]
    assert line.to_json()["recorded"] == {"start": 50, "end": 90}
    assert read_line(line.to_json()).recorded == line.recorded


@pytest.mark.parametrize(
    ("expression", "late"),
    [
        ("window(atom(<1 cpu>, 1, 1, 10, 10), 0, 100)", -40.0),
        ("window(atom(<1 cpu>, 1, 1, 10, 10), +0, +50)", 5.0),
        ("window(atom(<1 cpu>, 1, 1, 10, 10), 06:00, 07:00, zone=\"UTC\")", None),
        ("atom(<1 cpu>, 1, 1, 10, 10)", None),
    ],
)  # fmt: skip
def test_lateness_counts_from_the_window_around_it_all(expression: str, late: float | None) -> None:
    """Submitted at 5 s, done at 60 s; none has no end to count from, nor a clock without a day."""
    atom = {"bundle": {"cpu": 1}, "allocation": [[50, 60, 1]]}
    held = {"expression": expression, "submitted": 5, "atoms": [atom]}
    assert work_figures([held], CLUSTER.nominal, CLUSTER.grid()).late_mean_s == late


@pytest.mark.parametrize(
    ("expression", "late"),
    [
        ('window(atom(<1 cpu>, 1, 1, 10, 10), 06:00, 08:30, zone="UTC")', 1800.0),
        ('deadline(atom(<1 cpu>, 1, 1, 10, 10), 10:00, zone="Europe/Berlin")', 0.0),
        ("deadline(atom(<1 cpu>, 1, 1, 10, 10), 2026-01-05T09:30:00Z)", -1800.0),
    ],
)
def test_lateness_counts_from_a_time_of_the_clock(expression: str, late: float) -> None:
    """Submitted at 04:00 UTC, done at 09:00 UTC."""
    atom = {"bundle": {"cpu": 1}, "allocation": [[8 * 3600, 9 * 3600, 1]]}
    held = {"expression": expression, "submitted": 4 * 3600, "atoms": [atom]}
    day = TimeGrid(60_000, 1440, datetime(2026, 1, 5, tzinfo=UTC))
    assert work_figures([held], CLUSTER.nominal, day).late_mean_s == late
