"""A Slurm that does not answer is requested looks alone, so that no tick waits for many calls."""

from __future__ import annotations

from typing import Any, cast

import pytest

from dispatch.backends.slurm.backend import SlurmBackend
from dispatch.backends.slurm.component_jobs import ComponentOrder
from dispatch.backends.slurm.control.capabilities import Capabilities
from dispatch.backends.slurm.control.commands import JobRequest
from dispatch.backends.slurm.control.errors import SlurmAwayError, SlurmError
from dispatch.backends.slurm.control.job_names import promise_comment
from dispatch.backends.slurm.control.records import SlurmJob, SlurmNode, SlurmReservation
from dispatch.backends.slurm.control.settings import SlurmSettings
from dispatch.backends.slurm.control.slurm import Look
from dispatch.backends.slurm.slurm_follower import SlurmFollower
from dispatch.executions.assignment import Delta, Op
from rdl.resources import Resources

_START = Delta(Op.START, "x", "w", 0, "m-0")
_STOP = Delta(Op.STOP, "x", "w", 0, "m-0")
_ORDER = ComponentOrder("x", "t", "true", Resources.of({"cpu": 1000}), (), True, None, 1)


class _Slurm:
    """A Slurm of one node, on a clock of its own, that notes what it is asked."""

    def __init__(self) -> None:
        self.settings = SlurmSettings({"m-0": "n1"}, "agenda", "scavenge", user="u", poll_s=1.0)
        self.commands = self
        self.capabilities = Capabilities("22.05", accounting=False)
        self.now_s = 0.0
        self.is_away = False
        self.asked: list[str] = []
        self.jobs: dict[int, SlurmJob] = {}

    def _note(self, what: str) -> None:
        self.asked.append(what)
        if self.is_away:
            self.now_s += 6.0
            raise SlurmAwayError(f"{what} did not answer in 6 s")

    def submit(self, job: JobRequest) -> int:
        self._note("submit")
        id_ = len(self.jobs) + 1
        self.jobs[id_] = SlurmJob(id_, job.name, "u", job.comment, "RUNNING", "", ("n1",))
        return id_

    def cancel(self, ids: object) -> None:
        self._note("cancel")

    def reservations(self) -> list[SlurmReservation]:
        self._note("reservations")
        return []

    def look(self) -> Look:
        self._note("look")
        node = SlurmNode("n1", 4, 2000, "IDLE", (), "", ("agenda", "scavenge"))
        return Look(dict(self.jobs), {"n1": node})

    def take_asked(self) -> list[str]:
        """Return what was asked since the last call."""
        asked, self.asked = self.asked, []
        return asked


def _backend(slurm: _Slurm) -> SlurmBackend:
    backend = SlurmBackend(cast("Any", slurm), lambda _: _ORDER, steady_s=lambda: slurm.now_s)
    backend.events(0)
    slurm.take_asked()
    return backend


def test_after_a_look_that_failed_nothing_is_submitted_or_cancelled() -> None:
    """Until a look is answered, which says so: then it is."""
    slurm = _Slurm()
    backend = _backend(slurm)
    assert backend.apply([_START], 0) == ()
    slurm.is_away = True
    backend.events(1_000)
    slurm.take_asked()
    found = backend.apply([_STOP, _START], 1_000)
    assert [(one.delta, one.retry) for one in found] == [(_STOP, True), (_START, True)]
    assert slurm.take_asked() == []
    slurm.is_away, slurm.now_s = False, slurm.now_s + 3
    backend.events(9_000)
    assert backend.apply([_STOP], 9_000) == ()
    assert slurm.take_asked() == ["look", "cancel"]


def test_a_submission_without_an_answer_is_no_failure_of_the_component() -> None:
    """It was not heard; nothing more is asked before the next look, which is soon."""
    slurm = _Slurm()
    backend = _backend(slurm)
    slurm.is_away = True
    assert [one.retry for one in backend.apply([_START], 0)] == [True]
    assert [one.retry for one in backend.apply([_START], 0)] == [True]
    backend.events(6_000)
    assert slurm.take_asked() == ["submit"]
    slurm.now_s += 2.1
    backend.events(8_000)
    assert slurm.take_asked() == ["look"]


def test_reservations_are_not_read_from_a_slurm_that_is_silent() -> None:
    """Once it has not answered, the looks alone ask; afterwards all of it is read again."""
    slurm = _Slurm()
    follower = SlurmFollower(cast("Any", slurm), lambda _: _ORDER, 1, 0, lambda: slurm.now_s)
    follower.backend.events(0)
    slurm.take_asked()
    slurm.is_away = True
    follower.follow(1_000)
    follower.follow(7_000)
    assert slurm.take_asked() == ["reservations"]
    slurm.is_away, slurm.now_s = False, slurm.now_s + 3
    follower.backend.events(9_000)
    follower.follow(9_000)
    assert slurm.take_asked() == ["look", "reservations"]


@pytest.mark.parametrize("fault", [SlurmAwayError, SlurmError])
def test_jobs_that_waited_before_a_fault_are_not_told_as_waiting_after_it(
    fault: type[SlurmError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They may have run and ended in it; the look after it shows what waits, and when it did."""
    slurm = _Slurm()
    slurm.jobs[1] = SlurmJob(
        1, "job", "ann", promise_comment("p", 99, 9), "PENDING", "BeginTime", ()
    )
    follower = SlurmFollower(cast("Any", slurm), lambda _: _ORDER, 1, 0, lambda: slurm.now_s)
    follower._tenants = {"p": "ann"}
    follower.backend.events(500)
    follower.follow(1_000)
    assert (set(follower.waits), follower.seen_ms) == ({"p"}, 500)

    def fail() -> list[SlurmReservation]:
        raise fault("no answer")

    slurm.now_s = 40.0
    with monkeypatch.context() as patch:
        patch.setattr(slurm, "reservations", fail)
        follower.follow(40_000)
    slurm.now_s = 50.0
    follower.backend.events(50_000)
    assert not follower.backend.is_silent
    assert follower.waits == {}
    follower.follow(51_000)
    assert (set(follower.waits), follower.seen_ms) == ({"p"}, 50_000)


def test_jobs_that_waited_before_a_look_that_failed_are_not_told_when_one_is_answered() -> None:
    """The tick that hears Slurm again has followed what it knew before."""
    slurm = _Slurm()
    slurm.jobs[1] = SlurmJob(
        1, "job", "ann", promise_comment("p", 99, 9), "PENDING", "BeginTime", ()
    )
    follower = SlurmFollower(cast("Any", slurm), lambda _: _ORDER, 1, 0, lambda: slurm.now_s)
    follower._tenants = {"p": "ann"}
    follower.backend.events(0)
    follower.follow(0)
    assert set(follower.waits) == {"p"}
    slurm.is_away, slurm.now_s = True, 2.0
    follower.backend.events(2_000)
    slurm.is_away, slurm.now_s = False, 30.0
    follower.follow(30_000)
    follower.backend.events(30_000)
    assert not follower.backend.is_silent
    assert follower.waits == {}
