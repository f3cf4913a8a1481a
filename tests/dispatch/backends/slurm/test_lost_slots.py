"""Components whose slot passes though nothing of their work is done: they begin again in time."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dispatch.backends.slurm.backend import SlurmBackend
from dispatch.backends.slurm.component_jobs import ComponentOrder
from dispatch.backends.slurm.control.capabilities import Capabilities
from dispatch.backends.slurm.control.errors import SlurmError
from dispatch.backends.slurm.control.job_names import promise_comment
from dispatch.backends.slurm.control.records import SlurmJob, SlurmNode, SlurmReservation
from dispatch.backends.slurm.control.settings import SlurmSettings
from dispatch.backends.slurm.control.slurm import Look
from dispatch.backends.slurm.reserved.user_jobs import UserJobs, WaitingJobs
from dispatch.executions.assignment import Delta, Op
from dispatch.executions.events import EventKind
from rdl.resources import CPU, Resources

_ORDER = ComponentOrder("x", "t", "sleep 9", Resources.of({CPU: 1000}), (), True, None, 1)
_NODE = SlurmNode("n1", 4, 2000, "IDLE", (), "", ("agenda", "scavenge"), begun_s=50)


class _Slurm:
    """A Slurm of one node and one job, as a test sets them."""

    def __init__(self) -> None:
        self.settings = SlurmSettings({"m-0": "n1"}, "agenda", "scavenge", user="u", poll_s=0.0)
        self.commands = self
        self.capabilities = Capabilities("22.05", accounting=False)
        self.node = _NODE
        self.job: SlurmJob | None = None

    def submit(self, job: Any) -> int:
        self.job = SlurmJob(1, job.name, "u", job.comment, "PENDING", "", (), submitted_s=100)
        return 1

    def cancel(self, ids: list[int]) -> None: ...

    def jobs_with_processes(self, ids: Any) -> dict[int, bool]:
        return dict.fromkeys(ids, True)

    def look(self) -> Look:
        return Look({} if self.job is None else {1: self.job}, {"n1": self.node})


def _placed() -> tuple[_Slurm, SlurmBackend]:
    slurm = _Slurm()
    backend = SlurmBackend(cast("Any", slurm), lambda _: _ORDER, steady_s=lambda: 0.0)
    assert backend.apply([Delta(Op.START, "x", "w", 0, "m-0")], 100_000) == ()
    backend.events(100_500)
    return slurm, backend


@pytest.mark.parametrize("reason", ["ReservationDeleted", "Reservation a_p_1 was deleted"])
def test_a_component_whose_reservation_ended_before_it_began_is_lost(reason: str) -> None:
    """Slurm keeps its job for ever and never starts it."""
    slurm, backend = _placed()
    assert slurm.job is not None
    slurm.job = replace(slurm.job, state="RESV_DEL_HOLD", reason=reason)
    (lost,) = backend.events(113_000)
    assert lost.kind is EventKind.LOST
    assert lost.detail == "its reservation in Slurm ended before it began (job 1)"


@pytest.mark.parametrize(
    ("begun_s", "seen_ms", "until_ms"),
    [
        (111, 112_000, 100_001),  # it was away while the job "ran"
        (99, 112_000, 112_000),  # the slurmd that started the job
        (101, 112_000, 112_000),  # began again long ago
        (0, 112_000, 112_000),  # slurmctld does not know yet
    ],
)
def test_what_ran_on_a_node_that_began_anew_unmissed_is_not_had(
    begun_s: int, seen_ms: int, until_ms: int
) -> None:
    """Its job is found back in the queue before slurmctld has noticed that its slurmd was away."""
    slurm, backend = _placed()
    assert slurm.job is not None
    slurm.job = replace(slurm.job, state="RUNNING", nodes=("n1",), started_s=100)
    backend.events(101_000)
    slurm.job = replace(slurm.job, state="PENDING", nodes=(), started_s=0)
    slurm.node = replace(_NODE, begun_s=begun_s)
    (lost,) = backend.events(seen_ms)
    assert (lost.kind, lost.at_ms) == (EventKind.LOST, until_ms)


def test_a_job_of_people_whose_reservation_ended_before_it_began_is_bound_anew() -> None:
    """Until it is, its promise waits and its time is owed."""
    changed: list[str] = []
    released: list[int] = []
    there = [SlurmReservation("a_p_1", 98, 110, ("n1",), ("ann",), ())]
    commands = SimpleNamespace(
        update_job=lambda _id, **changes: changed.append(changes["reservationname"]),
        release=released.append,
    )
    keeper = SimpleNamespace(of=lambda _id: there, admit=lambda _one, _user: None)
    jobs = UserJobs(_Slurm().settings, cast("Any", commands), cast("Any", keeper))
    comment = promise_comment("p", 200, 9)
    job = SlurmJob(7, "job", "ann", comment, "PENDING", "BeginTime", (), submitted_s=97)
    jobs.follow([job], {"p": "ann"}, 99)
    stranded = replace(job, state="RESV_DEL_HOLD", reason="ReservationDeleted")
    there.clear()
    jobs.follow([stranded], {"p": "ann"}, 111, seen_s=111)
    assert jobs.waits == {"p": WaitingJobs(97, may_run=False)}
    there.append(SlurmReservation("a_p_1", 120, 132, ("n1",), ("ann",), ()))
    jobs.follow([stranded], {"p": "ann"}, 112, seen_s=112)
    assert changed == ["a_p_1", "a_p_1"]
    assert released == [7]
    given = replace(stranded, reason="None", reservations=("a_p_1",))
    jobs.follow([given], {"p": "ann"}, 113, seen_s=113)
    assert jobs.waits == {"p": WaitingJobs(97, may_run=True)}


def test_a_leader_may_begin_without_what_the_accounting_knows(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Where it must not, a silent accounting is an error; what slurmctld knows is there anyway."""

    class Silent(_Slurm):
        def __init__(self) -> None:
            super().__init__()
            self.capabilities = Capabilities("22.05", accounting=True)

        def ended_jobs(self, user: str, since: str) -> list[SlurmJob]:
            raise SlurmError("slurmdbd is unavailable")

    slurm = cast("Any", Silent())
    with pytest.raises(SlurmError, match="slurmdbd is unavailable"):
        SlurmBackend(slurm, lambda _: _ORDER)
    SlurmBackend(slurm, lambda _: _ORDER, needs_history=False)
    assert "jobs that slurmctld has forgotten are not known: slurmdbd is unavailable" in caplog.text
