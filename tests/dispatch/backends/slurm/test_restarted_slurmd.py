"""A slurmd that begins anew: what it may not have started, and what it has not cleaned up after."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dispatch.backends.slurm.backend import SlurmBackend
from dispatch.backends.slurm.component_jobs import ComponentOrder
from dispatch.backends.slurm.control.commands import JobRequest
from dispatch.backends.slurm.control.records import SlurmJob, SlurmNode
from dispatch.backends.slurm.control.settings import SlurmSettings
from dispatch.backends.slurm.control.slurm import Look
from dispatch.executions.assignment import Delta, Op
from dispatch.executions.events import EventKind
from rdl.resources import Resources

_START = Delta(Op.START, "x", "w", 0, "m-0")
_ORDER = ComponentOrder("x", "t", "true", Resources.of({"cpu": 1000}), (), True, None)


class _Slurm:
    """A Slurm of one node, which starts each job at 100."""

    def __init__(self) -> None:
        self.settings = SlurmSettings({"m-0": "n1"}, "agenda", "scavenge", user="u", poll_s=0.0)
        self.commands = self
        self.capabilities = SimpleNamespace(accounting=True, rest=None)
        self.now_s = 0.0
        self.node = SlurmNode("n1", 4, 2000, "IDLE", (), "", ("agenda", "scavenge"))
        self.job: SlurmJob | None = None
        self.accounted: list[SlurmJob] = []
        self.asked = 0
        self.cancelled: list[int] = []

    def submit(self, job: JobRequest) -> int:
        self.job = SlurmJob(
            1, job.name, "u", job.comment, "RUNNING", "", ("n1",), submitted_s=100, started_s=100
        )
        return 1

    def cancel(self, ids: list[int]) -> None:
        self.cancelled += ids

    def ended_jobs(self, user: str, since: str) -> list[SlurmJob]:
        self.asked += 1
        return self.accounted

    def look(self) -> Look:
        return Look({} if self.job is None else {1: self.job}, {"n1": self.node})


def _started() -> tuple[_Slurm, SlurmBackend]:
    slurm = _Slurm()
    backend = SlurmBackend(cast("Any", slurm), lambda _: _ORDER, steady_s=lambda: slurm.now_s)
    assert backend.apply([_START], 100_000) == ()
    slurm.asked = 0
    return slurm, backend


def _kinds(backend: SlurmBackend, at_s: int) -> list[EventKind]:
    return [event.kind for event in backend.events(at_s * 1000)]


@pytest.mark.parametrize(
    ("begun_s", "is_lost"),
    [(0, False), (99, False), (100, False), (101, True), (110, True), (111, False)],
)
def test_what_a_new_slurmd_may_not_have_read_of_begins_anew(begun_s: int, is_lost: bool) -> None:
    """Slurm says that it runs; long before, it was started, and the slurmd after it finds it."""
    slurm, backend = _started()
    slurm.node = replace(slurm.node, begun_s=begun_s)
    told = _kinds(backend, 112)
    assert told == ([EventKind.LOST] if is_lost else [EventKind.STARTED])
    assert slurm.cancelled == ([1] if is_lost else [])


def test_work_that_ended_well_is_done_though_its_node_is_not_cleaned_up() -> None:
    """The accounting says how it ended; it is asked after two seconds."""
    slurm, backend = _started()
    assert _kinds(backend, 101) == [EventKind.STARTED]
    assert slurm.job is not None
    slurm.accounted = [replace(slurm.job, state="COMPLETED")]
    slurm.job = replace(slurm.job, state="COMPLETING")
    assert _kinds(backend, 103) == []
    slurm.now_s += 1.9
    assert _kinds(backend, 104) == []
    assert slurm.asked == 0
    slurm.now_s += 0.2
    assert _kinds(backend, 105) == [EventKind.EXITED]


def test_what_did_not_end_well_is_waited_for_until_its_node_is_cleaned_up() -> None:
    """Its accounting is asked every two seconds, not at every look."""
    slurm, backend = _started()
    assert slurm.job is not None
    slurm.accounted = [replace(slurm.job, state="CANCELLED")]
    slurm.job = replace(slurm.job, state="COMPLETING")
    for _ in range(61):
        assert EventKind.EXITED not in _kinds(backend, 101)
        slurm.now_s += 0.1
    assert slurm.asked == 2
