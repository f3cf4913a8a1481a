"""A completed reservation whose job in Slurm still runs is said to be so, until that has ended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.reservations.reservation import HistoryEntry
from planner.reservations.state import State
from service.cli.reservations import state_of
from service.windows import work_entry
from tests.builders import a_cluster, a_plan, a_request

CLUSTER = a_cluster().machines("m", 1, cpu=4).build()
REQUEST = a_request("r", "window(atom(<4 cpu>, 1, 1, 60, 60), 0, 60)").on(CLUSTER)
RESERVATION = a_plan(CLUSTER).holding(REQUEST).build().reservation("r")


@pytest.mark.parametrize(
    ("notes", "runs_on"),
    [
        ([], False),
        ([("work_waits", "job 7 waits in Slurm: Resources")], False),
        ([("work_runs_on", "job 7 runs on in Slurm, at most until 12:00")], True),
        ([("work_runs_on", "job 7 runs on in Slurm"),
          ("work_ended", "job 7 has ended well")], False),
        ([("work_runs_on", "job 7 runs on in Slurm"), ("work_ended", "job 8 failed")], True),
        ([("work_runs_on", "a task of array 7 runs on in Slurm"),
          ("work_ended", "a task of array 7 failed with exit code 1")], False),
    ],
)  # fmt: skip
def test_a_completed_reservation_says_that_its_job_runs_on(
    notes: list[tuple[str, str]], runs_on: bool
) -> None:
    """In the answer, and as the state `over` of a list."""
    assert RESERVATION is not None
    history = tuple(HistoryEntry(0, 1, what, detail) for what, detail in notes)
    completed = replace(RESERVATION, state=State.COMPLETED, history=history)
    assert work_entry(completed) == ({"runs_on": True} if runs_on else {})
    shown = {"state": "completed", **work_entry(completed)}
    assert state_of(shown) == ("over" if runs_on else "completed")
    assert work_entry(replace(completed, state=State.ACTIVE)) == {}
