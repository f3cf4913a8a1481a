"""A slurmd that began again: what has vanished with it, and what it has not cleaned up after."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, cast

import pytest

from dispatch.backends.slurm.backend import SlurmBackend
from dispatch.backends.slurm.component_jobs import ComponentOrder
from dispatch.backends.slurm.control.capabilities import Capabilities
from dispatch.backends.slurm.control.commands import JobRequest
from dispatch.backends.slurm.control.errors import SlurmAwayError, SlurmError
from dispatch.backends.slurm.control.records import SlurmJob, SlurmNode
from dispatch.backends.slurm.control.settings import SlurmSettings
from dispatch.backends.slurm.control.slurm import Look
from dispatch.executions.assignment import Delta, Op
from dispatch.executions.events import BackendEvent, EventKind
from rdl.resources import Resources

_START = Delta(Op.START, "x", "w", 0, "m-0")
_ORDER = ComponentOrder("x", "t", "true", Resources.of({"cpu": 1000}), (), True, None, 1)


class _Slurm:
    """A Slurm of one node, which starts each job at 100."""

    def __init__(self) -> None:
        self.settings = SlurmSettings({"m-0": "n1"}, "agenda", "scavenge", user="u", poll_s=0.0)
        self.commands = self
        self.capabilities = Capabilities("22.05", accounting=True)
        self.now_s = 0.0
        self.node = SlurmNode("n1", 4, 2000, "IDLE", (), "", ("agenda", "scavenge"))
        self.job: SlurmJob | None = None
        self.accounted: list[SlurmJob] = []
        self.steps: set[int] | None = set()
        self.unknown: set[int] = set()
        self.asked: list[str] = []
        self.cancelled: list[int] = []

    def submit(self, job: JobRequest) -> int:
        self.job = SlurmJob(
            1, job.name, "u", job.comment, "RUNNING", "", ("n1",), submitted_s=100, started_s=100
        )
        return 1

    def cancel(self, ids: list[int]) -> None:
        self.cancelled += ids

    def ended_jobs(self, user: str, since: str) -> list[SlurmJob]:
        self.asked.append("sacct")
        return self.accounted

    def jobs_with_processes(self, ids: Collection[int]) -> dict[int, bool]:
        self.asked.append("sstat")
        if self.steps is None:
            raise SlurmAwayError("sstat did not answer in 2 s")
        return {id_: id_ in self.steps for id_ in ids if id_ not in self.unknown}

    def look(self) -> Look:
        return Look({} if self.job is None else {1: self.job}, {"n1": self.node})


def _started() -> tuple[_Slurm, SlurmBackend]:
    slurm = _Slurm()
    backend = SlurmBackend(cast("Any", slurm), lambda _: _ORDER, steady_s=lambda: slurm.now_s)
    assert backend.apply([_START], 100_000) == ()
    assert _kinds(backend, 101) == [EventKind.STARTED]
    slurm.asked.clear()
    return slurm, backend


def _kinds(backend: SlurmBackend, at_s: int) -> list[EventKind]:
    return [event.kind for event in backend.events(at_s * 1000)]


def _told_in(slurm: _Slurm, backend: SlurmBackend, seconds: int) -> list[EventKind]:
    """Return what is reported while it is looked at ten times a second."""
    return [event.kind for event in _events_in(slurm, backend, seconds)]


def _events_in(slurm: _Slurm, backend: SlurmBackend, seconds: int) -> list[BackendEvent]:
    told: list[BackendEvent] = []
    for _ in range(seconds * 10):
        slurm.now_s += 0.1
        told += backend.events(110_000)
    return told


@pytest.mark.parametrize("begun_s", [0, 99, 100])
def test_a_slurmd_that_was_there_before_a_job_is_not_asked(begun_s: int) -> None:
    """Slurm's word is enough; so it is where no one says since when it runs."""
    slurm, backend = _started()
    slurm.node = replace(slurm.node, begun_s=begun_s)
    assert _told_in(slurm, backend, 10) == []
    assert slurm.asked == []


def test_a_job_of_which_nothing_is_left_begins_anew() -> None:
    """Its slurmd began after it, at 103, and has nothing of it: asked twice, a second apart.

    None of its time counts as had: it is not known whether it ever ran.
    """
    slurm, backend = _started()
    slurm.node = replace(slurm.node, begun_s=103)
    assert _told_in(slurm, backend, 1) == []
    assert [(one.kind, one.at_ms) for one in _events_in(slurm, backend, 2)] == [
        (EventKind.LOST, 100_001)
    ]
    assert slurm.cancelled[:1] == [1]


def test_a_job_that_outlived_its_slurmd_is_asked_for_once() -> None:
    """And again where that begins again again."""
    slurm, backend = _started()
    slurm.steps = {1}
    for begun_s in (103, 107):
        slurm.node = replace(slurm.node, begun_s=begun_s)
        assert _told_in(slurm, backend, 10) == []
    assert slurm.asked == ["sstat", "sstat"]


def test_where_nobody_says_what_is_left_nothing_is_lost() -> None:
    """It is asked again every second."""
    slurm, backend = _started()
    slurm.steps = None
    slurm.node = replace(slurm.node, begun_s=103)
    assert _told_in(slurm, backend, 10) == []
    assert 8 <= len(slurm.asked) <= 11


def test_a_job_of_which_nobody_says_what_is_left_is_not_lost() -> None:
    """Its slurmd has not answered, though the question ended well."""
    slurm, backend = _started()
    slurm.unknown = {1}
    slurm.node = replace(slurm.node, begun_s=103)
    assert _told_in(slurm, backend, 10) == []
    slurm.unknown = set()
    assert _told_in(slurm, backend, 3) == [EventKind.LOST]


def test_a_job_that_ends_between_two_questions_has_ended() -> None:
    """It was missing in the first; the look says why."""
    slurm, backend = _started()
    slurm.node = replace(slurm.node, begun_s=103)
    assert _told_in(slurm, backend, 1) == []
    assert slurm.job is not None
    slurm.job = replace(slurm.job, state="COMPLETED")
    assert _told_in(slurm, backend, 5) == [EventKind.EXITED]


def test_work_that_ended_well_is_done_though_its_node_is_not_cleaned_up() -> None:
    """The accounting says how it ended; it is asked after two seconds."""
    slurm, backend = _started()
    assert slurm.job is not None
    slurm.accounted = [replace(slurm.job, state="COMPLETED")]
    slurm.job = replace(slurm.job, state="COMPLETING")
    assert _told_in(slurm, backend, 1) == []
    assert slurm.asked == []
    assert _told_in(slurm, backend, 2) == [EventKind.EXITED]


def test_what_did_not_end_well_is_waited_for_until_its_node_is_cleaned_up() -> None:
    """Its accounting is asked after 2 s, then after pauses of 4, 8, 16, 32, and 60 s from there."""
    slurm, backend = _started()
    assert slurm.job is not None
    slurm.accounted = [replace(slurm.job, state="CANCELLED")]
    slurm.job = replace(slurm.job, state="COMPLETING")
    counts = []
    for seconds in (7, 8, 16, 32, 60, 60):
        assert _told_in(slurm, backend, seconds) == []
        counts.append(len(slurm.asked))
    assert counts == [2, 3, 4, 5, 6, 7]


def test_an_accounted_job_of_another_name_is_not_taken_for_a_component() -> None:
    """A slurmctld that lost its state gives numbers again."""
    slurm, backend = _started()
    assert slurm.job is not None
    slurm.accounted = [replace(slurm.job, state="COMPLETED", name="other")]
    slurm.job = replace(slurm.job, state="COMPLETING")
    assert _told_in(slurm, backend, 7) == []


@pytest.mark.parametrize("answers", [True, False])
def test_the_accounting_is_asked_once_in_a_look(
    answers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many jobs clean up, and whether it answers or not."""
    slurm = _Slurm()
    jobs: dict[int, SlurmJob] = {}

    def submit(job: JobRequest) -> int:
        id_ = len(jobs) + 1
        jobs[id_] = SlurmJob(id_, job.name, "u", job.comment, "RUNNING", "", ("n1",))
        return id_

    def ended_jobs(user: str, since: str) -> list[SlurmJob]:
        slurm.asked.append("sacct")
        if not answers:
            raise SlurmError("slurmdbd is unavailable")
        return [replace(job, state="COMPLETED") for job in jobs.values()]

    monkeypatch.setattr(slurm, "submit", submit)
    monkeypatch.setattr(slurm, "look", lambda: Look(dict(jobs), {"n1": slurm.node}))
    backend = SlurmBackend(cast("Any", slurm), lambda _: _ORDER, steady_s=lambda: slurm.now_s)
    starts = [Delta(Op.START, "x", "w", index, "m-0") for index in range(8)]
    assert backend.apply(starts, 0) == ()
    backend.events(0)
    jobs.update({id_: replace(job, state="COMPLETING") for id_, job in jobs.items()})
    slurm.asked.clear()
    monkeypatch.setattr(slurm, "ended_jobs", ended_jobs)
    told = _told_in(slurm, backend, 3)
    assert slurm.asked == ["sacct"]
    assert told == ([EventKind.EXITED] * 8 if answers else [])
