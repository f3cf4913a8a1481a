"""Jobs of people whose reservations are gone lose what was promised and give the rest back."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dispatch.backends.slurm.control.errors import SlurmError
from dispatch.backends.slurm.control.job_names import promise_comment
from dispatch.backends.slurm.control.records import SlurmJob, SlurmReservation
from dispatch.backends.slurm.control.settings import SlurmSettings
from dispatch.backends.slurm.reserved.user_jobs import UserJobs

BOUND = SlurmJob(
    7, "job", "ann", promise_comment("p", 99, 9), "PENDING", "BeginTime", (),
    partition="agenda", reservations=("agenda_p_1",), submitted_s=100,
)  # fmt: skip
PLAIN = {"partition": "scavenge", "reservationname": "", "reqnodelist": ""}


class _Slurm:
    """What was asked of a Slurm."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.refuses = False

    def update_job(self, id_: int, **changes: str) -> None:
        if self.refuses:
            raise SlurmError("Job/step already completing or completed")
        self.asked.append((id_, changes))

    def hold(self, id_: int) -> None:
        self.asked.append((id_, "hold"))

    def release(self, id_: int) -> None:
        self.asked.append((id_, "release"))


def _jobs(slurm: _Slurm) -> UserJobs:
    one = SlurmReservation("agenda_p_2", 200, 260, ("n0",), ("ann",), ())
    keeper = SimpleNamespace(of=lambda _id: [one], admit=lambda _one, _user: None)
    settings = SlurmSettings({"m-0": "n0"}, promised="agenda", best_effort="scavenge")
    return UserJobs(settings, cast("Any", slurm), cast("Any", keeper))


@pytest.mark.parametrize(
    ("job", "asked"),
    [
        (BOUND, [(7, "hold"), (7, PLAIN)]),
        (replace(BOUND, reservations=()), [(7, "hold"), (7, PLAIN)]),
        (replace(BOUND, partition="main"), [(7, "hold"), (7, PLAIN)]),
        (replace(BOUND, reason="JobHeldUser"), [(7, PLAIN)]),
        (replace(BOUND, state="RESV_DEL_HOLD"), [(7, "hold"), (7, PLAIN)]),
        (replace(BOUND, partition="main", reservations=()), []),  # it was never bound
        (replace(BOUND, state="RUNNING", nodes=("n0",)), []),
        (replace(BOUND, comment=""), []),
        (replace(BOUND, name="agenda/x/w/0"), []),  # a component
    ],
)
def test_a_job_that_waits_loses_what_its_reservation_does_not_hold(
    job: SlurmJob, asked: list[Any]
) -> None:
    """It is held in the other partition, and keeps all of it while the reservation holds some."""
    slurm = _Slurm()
    _jobs(slurm).unbind_lost([job], {"p"})
    assert slurm.asked == []
    _jobs(slurm).unbind_lost([job], set())
    assert slurm.asked == asked


def test_a_job_is_bound_again_when_its_reservation_has_another_slot() -> None:
    """As one that was restored after its nodes were lost."""
    slurm = _Slurm()
    jobs = _jobs(slurm)
    jobs.unbind_lost([BOUND], set())
    slurm.asked.clear()
    held = replace(BOUND, partition="scavenge", reservations=(), reason="JobHeldUser")
    jobs.follow([held], {"p": "ann"}, 110, seen_s=110)
    (_, changes), released = slurm.asked
    assert changes["reservationname"] == "agenda_p_2"
    assert released == (7, "release")


def test_a_job_that_was_bound_after_the_look_is_held_too() -> None:
    """The look still shows it as held: it was released since."""
    slurm = _Slurm()
    jobs = _jobs(slurm)
    held = replace(BOUND, partition="main", reservations=(), reason="JobHeldUser")
    jobs.follow([held], {"p": "ann"}, 110, seen_s=110)
    assert slurm.asked.pop() == (7, "release")
    slurm.asked.clear()
    jobs.unbind_lost([held], set())
    assert slurm.asked == [(7, "hold"), (7, PLAIN)]


def test_a_job_that_cannot_be_changed_is_tried_again() -> None:
    """It may run by now; the next look says so."""
    slurm = _Slurm()
    slurm.refuses = True
    jobs = _jobs(slurm)
    jobs.unbind_lost([BOUND], set())
    slurm.refuses = False
    jobs.unbind_lost([BOUND], set())
    assert slurm.asked[-1] == (7, PLAIN)


@pytest.mark.parametrize(
    ("state", "gives_back"),
    [
        ("COMPLETED", True),
        ("CANCELLED", True),
        ("FAILED", True),
        ("TIMEOUT", True),
        ("OUT_OF_MEMORY", True),
        ("DEADLINE", True),
        ("NODE_FAIL", False),  # Slurm may put it back into the queue
        ("PREEMPTED", False),
        ("RUNNING", False),
        ("PENDING", False),
        ("COMPLETING", False),
    ],
)
def test_a_job_that_is_over_gives_the_rest_back(state: str, gives_back: bool) -> None:
    """However it ended, once; not while another job of the reservation is open."""
    jobs = _jobs(_Slurm())
    ended = replace(BOUND, state=state)
    assert jobs.follow([ended], {"p": "ann"}, 110) == (["p"] if gives_back else [])
    assert jobs.follow([ended], {"p": "ann"}, 111) == []
    both = [ended, replace(BOUND, id=8, state="RUNNING")]
    assert _jobs(_Slurm()).follow(both, {"p": "ann"}, 110) == []
    own = replace(ended, comment="agenda reservation=p")  # submitted without `agenda sbatch`
    assert _jobs(_Slurm()).follow([own], {"p": "ann"}, 110) == []
