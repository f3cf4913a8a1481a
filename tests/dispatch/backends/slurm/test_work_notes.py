"""What an owner is notified of a job: why it waits, that it runs on, how it ended; each once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dispatch.backends.slurm.control.job_names import promise_comment
from dispatch.backends.slurm.control.records import SlurmJob
from dispatch.backends.slurm.slurm_follower import WorkNotes
from planner.plan.plan import Plan
from planner.plan.records.changes import Note
from tests.builders import a_cluster, a_plan, a_request, commit

CLUSTER = a_cluster().machines("m", 2, cpu=4).build()
#: Its slot is from 20 to 60 s after the origin, which is Unix time 0.
REQUEST = "window(atom(<4 cpu>, 1, 1, 40, 40), 20, 60)"
JOB = SlurmJob(7, "job", "ann", promise_comment("r", 60, 40), "PENDING", "Resources", ())
RUNS = replace(JOB, state="RUNNING", reason="None", nodes=("n1",), ends_s=90, limit_min=1)


def the_plan() -> Plan:
    """Return a plan that holds r."""
    return a_plan(CLUSTER).holding(a_request("r", REQUEST).on(CLUSTER)).build()


def told(job: SlurmJob, now_s: int) -> list[tuple[str, str]]:
    """Return what is notified of one job at a time."""
    due = WorkNotes().due(the_plan(), [("r", job)], 1000 * now_s, 0)
    return [(note.what, note.reason) for note in due]


@pytest.mark.parametrize(
    ("job", "now_s", "expected"),
    [
        (JOB, 15, []),
        (JOB, 25, []),  # Slurm may take its time
        (JOB, 31, [("work_waits", "job 7 waits in Slurm: Resources")]),
        (replace(JOB, submitted_s=25), 31, []),
        (replace(JOB, reason="JobHeldUser"), 31, []),  # the service has not bound it yet
        (replace(JOB, reason="JobHeldUser", reservations=("a_r_1",)), 31,
         [("work_waits", "job 7 waits in Slurm: JobHeldUser")]),
        (replace(JOB, reason="BeginTime"), 31, []),
        (RUNS, 65, []),
        (RUNS, 70,
         [("work_runs_on", "job 7 runs on in Slurm, at most until 1m30s from the origin")]),
        (replace(RUNS, limit_min=0), 70, [("work_runs_on", "job 7 runs on in Slurm")]),
        (replace(RUNS, state="COMPLETED"), 40, []),
        (replace(RUNS, state="FAILED", status=3 << 8), 40,
         [("work_ended", "job 7 failed with exit code 3")]),
        (replace(RUNS, state="FAILED", status=9), 40, [("work_ended", "job 7 failed by signal 9")]),
        (replace(RUNS, state="CANCELLED"), 40, [("work_ended", "job 7 was cancelled")]),
        (replace(RUNS, state="TIMEOUT"), 40, [("work_ended", "job 7 reached its time limit")]),
        (replace(RUNS, state="NODE_FAIL"), 40, []),  # it may be on its way back
    ],
)  # fmt: skip
def test_what_is_told_of_a_job(job: SlurmJob, now_s: int, expected: list[tuple[str, str]]) -> None:
    """Nothing that is as it was promised."""
    assert told(job, now_s) == expected


def test_what_the_history_says_is_not_told_again_by_the_next_leader() -> None:
    """And what the Plan did not take is reported at the next look."""
    plan, notes = the_plan(), WorkNotes()
    jobs = [("r", RUNS)]
    due = notes.due(plan, jobs, 70_000, 0)
    assert len(due) == 1
    assert notes.due(plan, jobs, 70_000, 0) == due
    commit(plan, *due)
    assert notes.due(plan, jobs, 71_000, 0) == []
    assert WorkNotes().due(plan, jobs, 71_000, 0) == []
    ended = [("r", replace(RUNS, state="COMPLETED"))]
    assert notes.due(plan, ended, 80_000, 0) == [Note("r", "work_ended", "job 7 has ended well")]


def test_a_job_for_what_the_plan_has_not_is_told_of_nowhere() -> None:
    """Its reservation may have been archived."""
    assert WorkNotes().due(the_plan(), [("gone", RUNS)], 70_000, 0) == []


def test_the_tasks_of_an_array_are_told_of_together_and_few_at_a_look() -> None:
    """A thousand that fail alike are one note; of many that fail otherwise five are told first."""
    failed = replace(RUNS, state="FAILED", status=1 << 8, array=7)
    alike = [("r", replace(failed, id=number)) for number in range(10, 1010)]
    due = WorkNotes().due(the_plan(), alike, 70_000, 0)
    assert due == [Note("r", "work_ended", "a task of array 7 failed with exit code 1")]
    plan, notes = the_plan(), WorkNotes()
    others = [("r", replace(failed, id=n, status=n << 8)) for n in range(1, 10)]
    first = notes.due(plan, others, 70_000, 0)
    commit(plan, *first)
    assert (len(first), len(notes.due(plan, others, 71_000, 0))) == (5, 4)
