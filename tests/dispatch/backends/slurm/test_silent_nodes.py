"""Nodes that do not answer: what ran there counts as having run until they were heard last."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from dispatch.backends.slurm.backend import SlurmBackend
from dispatch.backends.slurm.component_jobs import ComponentOrder
from dispatch.backends.slurm.control.capabilities import Capabilities
from dispatch.backends.slurm.control.commands import JobRequest
from dispatch.backends.slurm.control.records import SlurmJob, SlurmNode
from dispatch.backends.slurm.control.settings import SlurmSettings
from dispatch.backends.slurm.control.slurm import Look
from dispatch.executions.assignment import Delta, Op
from dispatch.executions.events import EventKind
from rdl.resources import Resources

_START = Delta(Op.START, "x", "w", 0, "m-0")
_STOP = replace(_START, op=Op.STOP)
_SILENT = ("NOT_RESPONDING",)


class _Slurm:
    """A Slurm of one node, on which a job runs as soon as it is submitted."""

    def __init__(self) -> None:
        self.settings = SlurmSettings({"m-0": "n1"}, "agenda", "scavenge", user="u", poll_s=0.0)
        self.commands = self
        self.capabilities = Capabilities("22.05", accounting=False)
        self.jobs: dict[int, SlurmJob] = {}
        self.now_s = 0.0
        self.node = SlurmNode("n1", 4, 2000, "IDLE", (), "", ("agenda", "scavenge"))

    def submit(self, job: JobRequest) -> int:
        self.jobs[1] = SlurmJob(1, job.name, "u", job.comment, "RUNNING", "", ("n1",))
        return 1

    def cancel(self, ids: list[int]) -> None:
        del ids

    def look(self) -> Look:
        return Look(dict(self.jobs), {"n1": self.node})


def _ran_until_40(flags: tuple[str, ...], *, core: bool = True) -> tuple[_Slurm, SlurmBackend]:
    """Return a component that runs since 0, on a node that was heard at 40 and not at 50."""
    order = ComponentOrder("x", "t", "true", Resources.of({"cpu": 1000}), (), core, None, 1)
    slurm = _Slurm()
    backend = SlurmBackend(cast("Any", slurm), lambda _: order, steady_s=lambda: slurm.now_s)
    assert backend.apply([_START], 0) == ()
    _told(slurm, backend, 40)
    slurm.node = replace(slurm.node, flags=flags)
    _told(slurm, backend, 50)
    return slurm, backend


def _told(slurm: _Slurm, backend: SlurmBackend, at_s: int) -> list[tuple[EventKind, int]]:
    slurm.now_s = float(at_s)
    return [(event.kind, event.at_ms // 1000) for event in backend.events(1000 * at_s)]


def test_a_job_that_failed_with_its_node_ran_until_that_was_heard_last() -> None:
    """Slurm waits for a silent node, and calls the job failed a good while later."""
    slurm, backend = _ran_until_40(_SILENT)
    slurm.node = replace(slurm.node, state="DOWN")
    slurm.jobs[1] = replace(slurm.jobs[1], state="NODE_FAIL")
    assert _told(slurm, backend, 60) == [(EventKind.LOST, 40), (EventKind.MACHINE_LOST, 60)]


def test_what_is_stopped_on_a_silent_node_ran_until_that_was_heard_last() -> None:
    """It is not known whether it continued."""
    slurm, backend = _ran_until_40(_SILENT)
    assert backend.apply([_STOP], 60_000) == ()
    assert _told(slurm, backend, 60) == [(EventKind.VOID, 40), (EventKind.STOPPED, 60)]


@pytest.mark.parametrize(("flags", "core"), [((), True), (("DRAIN",), True), (_SILENT, False)])
def test_what_is_stopped_on_a_node_that_answers_ran_until_then(
    flags: tuple[str, ...], core: bool
) -> None:
    """So does one that is drained; what is elastic is not counted."""
    slurm, backend = _ran_until_40(flags, core=core)
    assert backend.apply([_STOP], 60_000) == ()
    assert (EventKind.STOPPED, 60) in (told := _told(slurm, backend, 60))
    assert all(kind is not EventKind.VOID for kind, _ in told)


@pytest.mark.parametrize("later_s", [0, 5])
@pytest.mark.parametrize("state", ["NODE_FAIL", "PENDING", None])
def test_a_job_that_failed_with_a_node_that_is_back_ran_until_it_was_silent(
    state: str | None, later_s: int
) -> None:
    """Its slurmd began again without it: that is seen at once, or a little later."""
    slurm, backend = _ran_until_40(_SILENT)
    slurm.node = replace(slurm.node, flags=())
    if later_s:
        assert _told(slurm, backend, 60) == []
    slurm.jobs = {} if state is None else {1: replace(slurm.jobs[1], state=state)}
    assert _told(slurm, backend, 60 + later_s) == [(EventKind.LOST, 40)]


def test_a_slurmctld_that_began_anew_has_not_heard_a_silent_node() -> None:
    """It says UNKNOWN, and later that it is down."""
    slurm, backend = _ran_until_40(_SILENT)
    slurm.node = replace(slurm.node, state="UNKNOWN", flags=())
    assert _told(slurm, backend, 60) == []
    slurm.node = replace(slurm.node, state="DOWN")
    slurm.jobs[1] = replace(slurm.jobs[1], state="NODE_FAIL")
    assert _told(slurm, backend, 70)[0] == (EventKind.LOST, 40)


def test_a_slurmctld_that_began_anew_takes_no_time_from_what_it_has_not_heard_of_yet() -> None:
    """UNKNOWN alone is no silence."""
    slurm, backend = _ran_until_40(())
    slurm.node = replace(slurm.node, state="UNKNOWN")
    assert _told(slurm, backend, 60) == []
    assert backend.apply([_STOP], 60_000) == ()
    assert _told(slurm, backend, 61) == [(EventKind.STOPPED, 60)]


def test_a_node_that_answers_again_is_heard() -> None:
    """What is lost after that ran until then."""
    slurm, backend = _ran_until_40(_SILENT)
    slurm.node = replace(slurm.node, flags=())
    assert _told(slurm, backend, 60) == []
    slurm.jobs[1] = replace(slurm.jobs[1], state="PREEMPTED")
    assert _told(slurm, backend, 90) == [(EventKind.LOST, 90)]
