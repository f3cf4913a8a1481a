"""What the ledger finds out of jobs: which vanished, which never began, which are cancelled."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dispatch.backends.slurm.component_jobs import ComponentOrder
from dispatch.backends.slurm.control.commands import SlurmCommands
from dispatch.backends.slurm.control.errors import SlurmAwayError
from dispatch.backends.slurm.control.records import SlurmJob, SlurmNode
from dispatch.backends.slurm.control.slurm import Look
from dispatch.backends.slurm.job_history import JobHistory
from dispatch.backends.slurm.job_ledger import JobLedger
from dispatch.backends.slurm.job_records import JobRecord, Phase
from dispatch.executions.assignment import Key
from rdl.resources import Resources

_KEY = ("x", "w", 0)
_JOB = SlurmJob(7, "j", "u", "", "CANCELLED", "", ("n0",), started_s=100)


def _ledger(steps: Any = None, monotonic_s: Any = lambda: 0.0) -> JobLedger:
    def key_of(job: SlurmJob) -> Key | None:
        return ("x", "w", job.id) if job.name == "many" else {"j": _KEY}.get(job.name)

    return JobLedger(key_of, JobHistory(None, "u"), steps, monotonic_s)


def _stopped(**more: Any) -> tuple[JobLedger, JobRecord]:
    """Return a ledger with one job that was stopped."""
    ledger, record = _ledger(), JobRecord(_KEY, "m-0", 99_000, 7, 0.0, core=True, phase=Phase.UP)
    ledger.add(record)
    record.phase = Phase.LEFT
    for name, value in more.items():
        setattr(record, name, value)
    return ledger, record


def _look(begun_s: int, *flags: str, job: bool = True) -> Look:
    node = SlurmNode("n0", 4, 2000, "IDLE", flags, "", (), begun_s=begun_s)
    return Look({7: _JOB} if job else {}, {"n0": node})


def _void(ledger: JobLedger, look: Look) -> list[int]:
    return [one.job for one in ledger.take_void(look, {"m-0": "n0"})]


@pytest.mark.parametrize(
    ("begun_s", "node_began_s", "void"),
    [
        pytest.param(50, 0, [], id="its slurmd was there before it"),
        pytest.param(100, 0, [], id="its slurmd began with it"),
        pytest.param(103, 0, [7], id="its slurmd began after it"),
        pytest.param(103, 103, [], id="its new slurmd had it"),
        pytest.param(109, 103, [7], id="another slurmd began since it was asked"),
    ],
)
def test_a_stopped_run_whose_slurmd_began_after_it_is_void(
    begun_s: int, node_began_s: int, void: list[int]
) -> None:
    """It is reported once."""
    ledger, _ = _stopped(in_doubt=True, node_began_s=node_began_s)
    assert _void(ledger, _look(begun_s)) == void
    assert _void(ledger, _look(begun_s)) == []


def test_a_silent_node_is_waited_for() -> None:
    """Until it answers, or Slurm has forgotten the job; though its component has a new one."""
    ledger, record = _stopped(in_doubt=True)
    ledger.add(JobRecord(_KEY, "m-0", 120_000, 8, 0.0, core=True))
    assert _void(ledger, _look(50, "NOT_RESPONDING")) == []
    assert _void(ledger, _look(50, "DRAIN")) == []
    assert _void(ledger, _look(0)) == []  # slurmctld began again, and has not heard of it yet
    assert _void(ledger, _look(109)) == [7]
    record.in_doubt = True
    ledger, _ = _stopped(in_doubt=True)
    assert _void(ledger, _look(109, job=False)) == []
    assert _void(ledger, _look(109)) == []


@pytest.mark.parametrize(
    ("state", "name", "cancelled"),
    [
        pytest.param("RUNNING", "j", [7], id="still runs"),
        pytest.param("COMPLETING", "j", [7], id="is being cleaned"),
        pytest.param("CANCELLED", "j", [], id="is gone"),
        pytest.param("RUNNING", "stranger", [], id="its number is another's by now"),
    ],
)
def test_what_was_stopped_is_cancelled_while_slurm_lists_it(
    state: str, name: str, cancelled: list[int]
) -> None:
    """Though its component has another job by now."""
    ledger, _ = _stopped(to_cancel=True)
    ledger.add(JobRecord(_KEY, "m-0", 120_000, 8, 0.0, core=True))
    look = Look({7: replace(_JOB, state=state, name=name)}, {})
    assert ledger.to_cancel(look, lambda _: 0, 0) == cancelled


def test_jobs_that_no_component_has_are_cancelled_but_those_of_a_later_leader() -> None:
    """A stranger's job is left alone."""
    ledger = _ledger()
    jobs = [replace(_JOB, id=id_, state="RUNNING") for id_ in (7, 8)]
    look = Look({job.id: job for job in [*jobs, replace(_JOB, id=9, name="stranger")]}, {})
    tenure = {7: 1, 8: 2}
    assert ledger.to_cancel(look, lambda job: tenure[job.id], 1) == [7]


@pytest.mark.parametrize(
    ("ordered", "standing", "done"),
    [
        pytest.param([0, 1], [], [0, 1], id="all cores are requested"),
        pytest.param([0], [("w", True)], [0], id="the other core stands"),
        pytest.param([0], [], [], id="the other core is nowhere"),
        pytest.param([0], [("e", False)], [], id="an elastic component is no core"),
    ],
)
def test_cores_that_ended_well_are_done_where_all_of_them_have_or_stand(
    ordered: list[int], standing: list[tuple[str, bool]], done: list[int]
) -> None:
    """Of a gang of two; what is to be started is no one's last job any more."""
    ledger = _ledger()
    for index in ordered:
        record = JobRecord(("x", "w", index), "m-0", 0, index + 1, 0.0, core=True, phase=Phase.LEFT)
        ledger.add(record)
        record.last_seen = replace(_JOB, id=index + 1, state="COMPLETED")
    for component, core in standing:
        ledger.add(JobRecord(("x", component, 1), "m-1", 0, 9, 0.0, core=core, phase=Phase.UP))
    order = ComponentOrder("x", "t", "true", Resources.of({}), (), True, None, cores=2)
    found = ledger.take_ended_well({("x", "w", index): order for index in ordered})
    assert found == {("x", "w", index): index + 1 for index in done}
    assert not ledger.lacks_look([("x", "w", index) for index in ordered])
    assert ledger.take_ended_well({("x", "w", index): order for index in ordered}) == {}


def test_what_an_earlier_leader_left_is_forgotten_where_it_is_not_resumed() -> None:
    """It does not stand until then."""
    ledger = _ledger()
    ledger.add(JobRecord(_KEY, "m-0", 0, 7, 0.0, core=False, phase=Phase.FORMER))
    assert ledger.standing() == []
    assert [one.job for one in ledger.former("x")] == [7]
    ledger.drop_former()
    assert ledger.former("x") == []


@pytest.mark.parametrize(
    ("errors", "known"),
    [
        ("", {5: True, 6: False, 7: False}),
        ("sstat: some remark", {5: True, 6: False, 7: False}),
        ("sstat: error: problem getting step_layout for StepId=6.batch: x", {5: True, 7: False}),
        ("sstat: error: couldn't get steps for job 7", {5: True, 6: False}),
        ("sstat: error: the request to n1 rc = Socket timed out", {5: True}),
    ],
)
def test_a_job_that_an_error_names_is_not_known_to_have_no_processes(
    tmp_path: Path, errors: str, known: dict[int, bool]
) -> None:
    """sstat ends well, without its row; an error that names no job may be of any."""
    command = tmp_path / "sstat"
    command.write_text(f'#!/bin/sh\necho "5.batch|123"\necho "{errors}" >&2\n')
    command.chmod(0o755)
    commands = SlurmCommands(environment={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert commands.jobs_with_processes([5, 6, 7]) == known


class _Nodes:
    """Nodes whose slurmd knows nothing of its job, but for one that never answers in time."""

    def __init__(self, mute: int) -> None:
        self.mute = mute
        self.asked: list[list[int]] = []

    def jobs_with_processes(self, ids: Collection[int]) -> dict[int, bool]:
        self.asked.append(list(ids))
        if self.mute in ids:
            raise SlurmAwayError("sstat did not answer in 2 s")
        return dict.fromkeys(ids, False)


def _gone_in(nodes: _Nodes, count: int, seconds: int) -> set[int]:
    """Return which of this many jobs are found gone by a look each second."""
    jobs = {
        id_: SlurmJob(id_, "many", "u", "", "RUNNING", "", (f"n{id_}",), started_s=100)
        for id_ in range(1, count + 1)
    }
    there = {f"n{id_}": SlurmNode(f"n{id_}", 1, 1, "IDLE", (), "", (), begun_s=200) for id_ in jobs}
    now = SimpleNamespace(s=0.0)
    ledger = _ledger(cast("Any", nodes), lambda: now.s)
    for id_ in jobs:
        ledger.add(JobRecord(("x", "w", id_), f"m-{id_}", 0, id_, 0.0, core=True, phase=Phase.UP))
    gone: set[int] = set()
    for _ in range(seconds):
        now.s += 1.0
        ledger.find_gone(Look(jobs, there))
        for record in ledger.standing():
            if record.is_gone:
                gone.add(record.job)
                ledger.drop(record.key)
    return gone


def test_all_jobs_are_asked_for_in_turn() -> None:
    """Three hundred in two questions, each asked twice."""
    nodes = _Nodes(mute=0)
    assert _gone_in(nodes, 300, 5) == set(range(1, 301))
    assert max(map(len, nodes.asked)) == 200


def test_a_node_that_does_not_answer_hides_no_other_for_long() -> None:
    """Fewer are requested at a time, until the others have answered."""
    assert _gone_in(_Nodes(mute=3), 40, 40) == set(range(1, 41)) - {3}
