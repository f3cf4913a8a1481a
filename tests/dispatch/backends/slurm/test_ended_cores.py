"""A core that has ended keeps its machine until its replicas have, and restarts only with them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

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
_ORDER = ComponentOrder("x", "t", "true", Resources.of({"cpu": 1000}), (), True, None, 1)


class _Slurm:
    """A Slurm of one node, on which each job runs as soon as it is submitted."""

    def __init__(self) -> None:
        self.settings = SlurmSettings({"m-0": "n1"}, "agenda", "scavenge", user="u", poll_s=0.0)
        self.commands = self
        self.capabilities = Capabilities("22.05", accounting=False)
        self.jobs: dict[int, SlurmJob] = {}

    def submit(self, job: JobRequest) -> int:
        id_ = len(self.jobs) + 1
        self.jobs[id_] = SlurmJob(id_, job.name, "u", job.comment, "RUNNING", "", ("n1",))
        return id_

    def complete(self, id_: int) -> None:
        """Let a job end well."""
        self.jobs[id_] = replace(self.jobs[id_], state="COMPLETED")

    def look(self) -> Look:
        node = SlurmNode("n1", 4, 2000, "IDLE", (), "", ("agenda", "scavenge"))
        return Look(dict(self.jobs), {"n1": node})


def _kinds(backend: SlurmBackend) -> list[EventKind]:
    return [event.kind for event in backend.events(60_000)]


def test_a_core_that_has_ended_is_started_again_with_its_replicas() -> None:
    """Its execution lost the other core before the end of this one was reported."""
    slurm = _Slurm()
    backend = SlurmBackend(cast("Any", slurm), lambda _: replace(_ORDER, cores=2))
    both = [_START, replace(_START, index=1)]
    assert backend.apply(both, 0) == ()
    slurm.jobs[1] = replace(slurm.jobs[1], state="COMPLETED")
    slurm.jobs[2] = replace(slurm.jobs[2], state="NODE_FAIL")
    kinds = _kinds(backend)
    assert sorted(kinds) == [EventKind.EXITED, EventKind.LOST, EventKind.STARTED]
    assert backend.apply(both, 5_000) == ()
    assert sorted(slurm.jobs) == [1, 2, 3, 4]


def test_a_core_whose_end_was_told_to_nobody_is_not_run_again() -> None:
    """Its execution was on its way back to the line: started again it has ended at once."""
    slurm = _Slurm()
    backend = SlurmBackend(cast("Any", slurm), lambda _: _ORDER)
    assert backend.apply([_START], 0) == ()
    slurm.complete(1)
    assert _kinds(backend) == [EventKind.STARTED, EventKind.EXITED]
    assert backend.apply([_START], 5_000) == ()
    assert sorted(slurm.jobs) == [1]
    assert _kinds(backend) == [EventKind.STARTED, EventKind.EXITED]


def test_a_core_that_runs_is_not_started_again() -> None:
    """One job a component."""
    slurm = _Slurm()
    backend = SlurmBackend(cast("Any", slurm), lambda _: _ORDER)
    assert backend.apply([_START], 0) == ()
    (refused,) = backend.apply([_START], 5_000)
    assert refused.reason == "it is on m-0 already"
