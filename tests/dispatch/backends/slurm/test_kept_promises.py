"""What Slurm's accounting says of the work of a promise: in time, short, late, failed or open."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dispatch.backends.slurm.control.job_names import promise_comment
from dispatch.backends.slurm.control.records import SlurmJob
from dispatch.backends.slurm.reserved.kept_promises import (
    Verdict,
    deadline_of,
    promise_record,
    reservations_of,
)

DEADLINE_S, WORK_S = 1000, 40


def run_of(
    state: str, started_s: int, ends_s: int, name: str = "job", comment: str | None = None
) -> SlurmJob:
    """Return one run of two nodes for the reservation `r`."""
    said = promise_comment("r", DEADLINE_S, WORK_S) if comment is None else comment
    return SlurmJob(
        7, name, "ann", said, state, "", ("n1", "n2"), submitted_s=started_s, started_s=started_s,
        ends_s=ends_s,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("runs", "now_s", "verdict"),
    [
        ([run_of("COMPLETED", 980, 1000)], 1100, Verdict.IN_TIME),
        ([run_of("COMPLETED", 985, 1001)], 1100, Verdict.LATE),
        ([run_of("COMPLETED", 980, 1001)], 1100, Verdict.SHORT),
        ([run_of("TIMEOUT", 970, 990)], 995, Verdict.SHORT),
        ([run_of("FAILED", 970, 971)], 995, Verdict.FAILED),
        ([run_of("NODE_FAIL", 970, 975), run_of("COMPLETED", 976, 990)], 1100, Verdict.IN_TIME),
        ([run_of("NODE_FAIL", 970, 975), run_of("PENDING", 0, 0)], 990, Verdict.OPEN),
        ([run_of("NODE_FAIL", 970, 975), run_of("PENDING", 0, 0)], 1001, Verdict.LATE),
        ([run_of("COMPLETED", 970, 975), run_of("RUNNING", 999, 0, "other")], 1050, Verdict.LATE),
    ],
)
def test_work_is_judged_by_its_runs(runs: list[SlurmJob], now_s: int, verdict: Verdict) -> None:
    """A deadline that is met to the second is in time; node time that was had is not late."""
    assert deadline_of(runs) == DEADLINE_S
    assert promise_record("r", runs, DEADLINE_S, now_s).verdict is verdict


@pytest.mark.parametrize(
    ("own", "others", "verdict"),
    [(True, [], Verdict.CANCELLED), (False, [], Verdict.FAILED),
     (True, [run_of("FAILED", 970, 971, "other")], Verdict.FAILED)],
)  # fmt: skip
def test_what_its_owner_cancelled_has_not_failed(
    own: bool, others: list[SlurmJob], verdict: Verdict
) -> None:
    """It has where an operator cancelled it, or another job of the promise failed."""
    run = replace(run_of("CANCELLED", 970, 971), is_cancelled_by_owner=own)
    assert promise_record("r", [run, *others], DEADLINE_S, 995).verdict is verdict


def test_node_time_counts_until_the_deadline_and_in_every_run() -> None:
    """Two nodes: 5 s lost with a node, 10 s of 20 before the deadline."""
    runs = [run_of("NODE_FAIL", 900, 905), run_of("COMPLETED", 990, 1010)]
    found = promise_record("r", runs, DEADLINE_S, 2000)
    assert (found.had_s, found.promised_s, found.runs, found.jobs) == (30, WORK_S, 2, 1)
    assert (found.begun_s, found.ended_s) == (900, 1010)


def test_jobs_of_others_and_best_effort_are_no_promises() -> None:
    """A comment names a reservation; without a deadline nothing is judged."""
    best_effort = run_of("COMPLETED", 1, 2, comment="agenda tenure=1 reservation=-")
    component = run_of("COMPLETED", 1, 2, comment="agenda tenure=1 reservation=gang")
    other = run_of("COMPLETED", 1, 2, comment="reservation=x")
    assert reservations_of([best_effort, component, other]) == {"gang": [component]}
    assert promise_record("gang", [component], None, 9).verdict is Verdict.UNKNOWN
