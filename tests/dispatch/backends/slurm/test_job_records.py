"""The life of a component's job as rows: what a sight of it says, and what follows from that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import pytest

from dispatch.backends.slurm.control.records import SlurmJob
from dispatch.backends.slurm.job_records import (
    STANDING,
    TRANSITIONS,
    JobFinding,
    JobRecord,
    Phase,
    Sight,
    judge,
)
from dispatch.executions.events import EventKind

_NODE: Final = "n1"
_JOB: Final = SlurmJob(7, "agenda/x", "u", "", "RUNNING", "", (_NODE,), started_s=100)
_WAITS: Final = replace(_JOB, state="PENDING", nodes=(), reason="Resources")
_STRANDED: Final = replace(_WAITS, state="RESV_DEL_HOLD", reason="Reservation deleted")


def _record(phase: Phase, **more: bool) -> JobRecord:
    record = JobRecord(("x", "w", 0), "m-0", 0, 7, 0.0, core=True, phase=phase)
    for name, value in more.items():
        setattr(record, name, value)
    return record


def _seen(state: str) -> SlurmJob:
    return replace(_JOB, state=state)


#: Phase, what is known of the record, the job (by a look or the accounting) and what else is seen;
#: the finding, the next phase and the events.
_ROWS = [
    pytest.param("sent", {}, _WAITS, {}, "waiting", "sent", "", id="waits for its turn"),
    pytest.param("sent", {}, _JOB, {}, "running", "up", "started", id="has begun"),
    pytest.param("up", {}, _JOB, {}, "running", "up", "", id="runs on"),
    pytest.param("up", {}, _seen("SUSPENDED"), {}, "running", "up", "", id="is suspended"),
    pytest.param(
        "sent", {}, _seen("COMPLETED"), {}, "completed", "exited", "started exited",
        id="ended well between two looks",
    ),
    pytest.param("up", {}, _seen("COMPLETED"), {}, "completed", "exited", "exited", id="done"),
    pytest.param("up", {}, _seen("FAILED"), {}, "failed", "over", "failed", id="failed"),
    pytest.param("sent", {}, _seen("FAILED"), {}, "failed", "over", "failed", id="failed at once"),
    pytest.param("up", {}, _seen("CANCELLED"), {}, "failed", "over", "failed", id="cancelled"),
    pytest.param(
        "up", {"ending": True}, _seen("CANCELLED"), {}, "lost", "left", "lost",
        id="cancelled by the previous leader",
    ),
    pytest.param("up", {}, _seen("TIMEOUT"), {}, "failed", "over", "failed", id="at its limit"),
    pytest.param(
        "up", {"limit": True}, _seen("TIMEOUT"), {}, "lost", "left", "lost",
        id="reached the limit of a foreign reservation",
    ),
    pytest.param(
        "up", {}, _seen("OUT_OF_MEMORY"), {}, "failed", "over", "failed", id="out of memory"
    ),
    pytest.param("up", {}, _seen("NODE_FAIL"), {}, "lost", "left", "lost", id="its node failed"),
    pytest.param("sent", {}, _seen("BOOT_FAIL"), {}, "lost", "left", "lost", id="did not boot"),
    pytest.param("up", {}, _seen("PREEMPTED"), {}, "lost", "left", "lost", id="was preempted"),
    pytest.param("up", {}, _seen("REVOKED"), {}, "lost", "left", "lost", id="was revoked"),
    pytest.param(
        "up", {}, _seen("COMPLETING"), {}, "unknown", "up", "", id="its node is being cleaned"
    ),
    pytest.param(
        "sent", {}, _seen("COMPLETING"), {}, "unknown", "sent", "", id="cleaned before it was seen"
    ),
    pytest.param(
        "up", {"is_gone": True}, _seen("COMPLETING"), {}, "unknown", "up", "",
        id="cleaned, and its slurmd knows nothing of it",
    ),
    pytest.param("up", {}, None, {}, "lost", "left", "lost", id="forgotten by everybody"),
    pytest.param(
        "up", {}, None, {"may_be_accounted": True}, "unknown", "up", "",
        id="forgotten by slurmctld while slurmdbd is unavailable",
    ),
    pytest.param(
        "sent", {}, None, {"may_be_accounted": True}, "unknown", "sent", "",
        id="not seen, and forgotten, while slurmdbd is unavailable",
    ),
    pytest.param("up", {}, _WAITS, {}, "lost", "left", "lost", id="was put back into the queue"),
    pytest.param("sent", {}, _STRANDED, {}, "lost", "left", "lost", id="its reservation ended"),
    pytest.param(
        "sent", {}, replace(_STRANDED, reason="JobHeldAdmin"), {}, "waiting", "sent", "",
        id="is held by an administrator",
    ),
    pytest.param(
        "up", {}, replace(_JOB, nodes=("n2",)), {}, "lost", "left", "lost", id="moved elsewhere"
    ),
    pytest.param(
        "sent", {}, replace(_JOB, nodes=("n1", "n2")), {}, "lost", "left", "lost", id="widened"
    ),
    pytest.param(
        "up", {"is_gone": True}, _JOB, {}, "lost", "left", "lost", id="vanished with its slurmd"
    ),
    pytest.param(
        "sent", {}, _WAITS, {"is_taken": True}, "lost", "left", "lost",
        id="other people's jobs came onto its node",
    ),
    pytest.param(
        "up", {}, _JOB, {"is_taken": True}, "running", "up", "", id="runs alongside other people's"
    ),
    pytest.param(
        "sent", {}, _WAITS, {"is_overdue": True, "waited_s": 301.0}, "lost", "left", "lost",
        id="was not started in time",
    ),
    pytest.param(
        "up", {}, _JOB, {"is_overdue": True}, "running", "up", "", id="began long ago"
    ),
]  # fmt: skip


@pytest.mark.parametrize(("phase", "known", "job", "seen", "finding", "after", "events"), _ROWS)
def test_a_look_moves_a_job_on(
    phase: str,
    known: dict[str, bool],
    job: SlurmJob | None,
    seen: dict[str, Any],
    finding: str,
    after: str,
    events: str,
) -> None:
    """The finding, the phase after it, and the events that are reported."""
    record = _record(Phase(phase), **known)
    sight = Sight(job, _NODE, **seen)
    found, _ = judge(record, sight)
    assert found is JobFinding(finding)
    kinds = tuple(EventKind(word) for word in events.split())
    assert TRANSITIONS[record.phase, found] == (Phase(after), kinds)


def test_every_row_of_the_table_occurs() -> None:
    """And nothing moves on from a phase in which no look is needed."""
    shown = {(Phase(row.values[0]), JobFinding(row.values[4])) for row in _ROWS}
    assert shown == TRANSITIONS.keys()
    assert {phase for phase, _ in TRANSITIONS} == STANDING - {Phase.EXITED}


@pytest.mark.parametrize(
    ("phase", "job", "part"),
    [
        ("up", None, "Slurm knows no job 7"),
        ("up", _WAITS, "put back"),
        ("sent", _STRANDED, "reservation in Slurm ended"),
        ("up", replace(_JOB, nodes=("n2",)), "moved to n2"),
        ("up", replace(_JOB, state="FAILED", status=3 << 8), "exit code 3"),
        ("up", replace(_JOB, state="FAILED", status=9), "signal 9"),
        ("up", replace(_JOB, state="COMPLETED"), ""),
    ],
)
def test_the_reason_says_what_happened(phase: str, job: SlurmJob | None, part: str) -> None:
    """Nothing is said of what ended well."""
    detail = judge(_record(Phase(phase)), Sight(job, _NODE))[1]
    assert part in detail
    assert bool(detail) is bool(part)
