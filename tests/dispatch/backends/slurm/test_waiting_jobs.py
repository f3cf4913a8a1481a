"""Which reservations' jobs wait in Slurm, and that one who is late is judged before it is bound."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dispatch.backends.slurm.control.job_names import promise_comment
from dispatch.backends.slurm.control.records import SlurmJob, SlurmReservation
from dispatch.backends.slurm.control.settings import SlurmSettings
from dispatch.backends.slurm.reserved.user_jobs import UserJobs, WaitingJobs

HELD = SlurmJob(
    7, "job", "ann", promise_comment("p", 99, 9), "PENDING", "JobHeldUser", (), submitted_s=100
)
RELEASED = replace(HELD, reason="BeginTime")


def _jobs(start_s: int) -> tuple[UserJobs, list[int]]:
    """Return user jobs of a Slurm in which a reservation stands, and those that were released."""
    released: list[int] = []
    slurm = SimpleNamespace(update_job=lambda _id, **_changes: None, release=released.append)
    one = SlurmReservation("a_p_1", start_s, start_s + 60, ("n0",), ("ann",), ())
    keeper = SimpleNamespace(of=lambda _id: [one], admit=lambda _one, _user: None)
    settings = SlurmSettings({"m-0": "n0"}, promised="agenda", best_effort="scavenge")
    return UserJobs(settings, cast("Any", slurm), cast("Any", keeper)), released


def test_a_job_is_bound_as_soon_as_its_reservation_stands() -> None:
    """Before it begins, or just after: then it waits as one that may run."""
    jobs, released = _jobs(start_s=98)
    jobs.follow([HELD], {"p": "ann"}, 101)
    assert released == [7]
    assert jobs.waits == {"p": WaitingJobs(100, may_run=True)}


def test_a_job_that_finds_its_slot_begun_is_judged_before_it_is_bound() -> None:
    """It waits for one call as one that may not run."""
    jobs, released = _jobs(start_s=100)
    jobs.follow([HELD], {"p": "ann"}, 110)
    assert released == []
    assert jobs.waits == {"p": WaitingJobs(100, may_run=False)}
    jobs.follow([HELD], {"p": "ann"}, 111)
    assert released == [7]


@pytest.mark.parametrize(
    ("seen_s", "reservation", "times"),
    [(101, (), 1), (102, (), 2), (102, ("a_p_1",), 1)],
)
def test_a_job_whose_binding_slurmctld_has_lost_is_bound_anew(
    seen_s: int, reservation: tuple[str, ...], times: int
) -> None:
    """It was killed before it wrote that down; nothing follows from a look before it was bound.

    One that its user holds keeps its reservation, and waits.
    """
    jobs, released = _jobs(start_s=200)
    jobs.follow([HELD], {"p": "ann"}, 101, seen_s=100)
    jobs.follow([replace(HELD, reservations=reservation)], {"p": "ann"}, 103, seen_s=seen_s)
    assert released == [7] * times


@pytest.mark.parametrize(
    ("states", "waits"),
    [
        (["PENDING"], True),
        (["PENDING", "PENDING"], True),
        (["PENDING", "RUNNING"], False),
        (["PENDING", "COMPLETED"], False),
        (["CANCELLED"], False),
    ],
)
def test_a_reservation_waits_while_all_its_jobs_do(states: list[str], waits: bool) -> None:
    """One that has begun or ended had something of it."""
    jobs, _ = _jobs(start_s=500)
    some = [replace(RELEASED, id=number, state=state) for number, state in enumerate(states)]
    jobs.follow(some, {"p": "ann"}, 101)
    assert set(jobs.waits) == ({"p"} if waits else set())


def test_jobs_of_who_is_not_its_tenant_do_not_count() -> None:
    """They are not bound either."""
    jobs, _ = _jobs(start_s=100)
    jobs.follow([HELD], {"p": "bob"}, 101)
    assert jobs.waits == {}


@pytest.mark.parametrize(
    ("last", "waits"),
    [
        (replace(RELEASED, state="RUNNING", nodes=("n0",)), False),
        (replace(RELEASED, state="COMPLETED", nodes=("n0",)), False),
        (replace(RELEASED, state="CANCELLED", nodes=("n0",)), False),
        (RELEASED, False),
        (replace(RELEASED, state="CANCELLED"), True),
    ],
)
def test_a_job_that_slurm_forgot_may_have_used_its_slot(last: SlurmJob, waits: bool) -> None:
    """The next in line waits, and what the first may have had is not owed to it.

    One that was cancelled while it waited has used nothing.
    """
    jobs, _ = _jobs(start_s=500)
    other = replace(RELEASED, id=8)
    jobs.follow([RELEASED, other], {"p": "ann"}, 101)
    assert set(jobs.waits) == {"p"}
    jobs.follow([last, other], {"p": "ann"}, 600)
    jobs.follow([other], {"p": "ann"}, 1_000)
    assert set(jobs.waits) == ({"p"} if waits else set())


def test_a_job_that_was_put_back_into_the_queue_waits_as_before() -> None:
    """It begins again, so it needs all again."""
    jobs, _ = _jobs(start_s=500)
    jobs.follow([replace(RELEASED, state="RUNNING", nodes=("n0",))], {"p": "ann"}, 510)
    assert jobs.waits == {}
    jobs.follow([RELEASED], {"p": "ann"}, 520)
    assert set(jobs.waits) == {"p"}


def test_jobs_are_remembered_as_long_as_the_plan_has_their_reservation() -> None:
    """Though no job names it for a while."""
    jobs, _ = _jobs(start_s=500)
    jobs.follow([replace(RELEASED, state="RUNNING", nodes=("n0",))], {"p": "ann"}, 510)
    assert jobs.named([]) == {"p"}
    jobs.follow([], {"p": "ann"}, 900)
    jobs.follow([replace(RELEASED, id=8)], {"p": "ann"}, 901)
    assert jobs.waits == {}
    jobs.follow([], {}, 902)
    assert jobs.named([]) == set()


def test_a_job_that_an_administrator_holds_is_not_released() -> None:
    """It waits, and what it misses is planned again while its window has capacity."""
    jobs, released = _jobs(start_s=200)
    jobs.follow([HELD], {"p": "ann"}, 101)
    assert released == [7]
    held = replace(HELD, reason="JobHeldAdmin")
    other, released = _jobs(start_s=200)
    other.follow([held], {"p": "ann"}, 101)
    assert released == []
    assert other.waits == {"p": WaitingJobs(100, may_run=False)}


@pytest.mark.parametrize(
    ("array", "nodes"),
    [(0, {"reqnodelist": "n0"}), (7, {"excnodelist": "n1,n2"})],
)
def test_a_job_has_all_nodes_of_its_reservation_and_a_task_some(
    array: int, nodes: dict[str, str]
) -> None:
    """A task may name a reservation and run outside of it: the other nodes are closed to it."""
    changes: list[dict[str, str]] = []
    slurm = SimpleNamespace(
        update_job=lambda _id, **change: changes.append(change), release=lambda _id: None
    )
    one = SlurmReservation("a_p_1", 98, 158, ("n0",), ("ann",), ())
    keeper = SimpleNamespace(of=lambda _id: [one], admit=lambda _one, _user: None)
    machines = {f"m-{number}": f"n{number}" for number in range(3)}
    settings = SlurmSettings(machines, promised="agenda", best_effort="scavenge")
    jobs = UserJobs(settings, cast("Any", slurm), cast("Any", keeper))
    jobs.follow([replace(HELD, array=array)], {"p": "ann"}, 101)
    (change,) = changes
    assert {key: change[key] for key in change if key.endswith("nodelist")} == nodes


def test_what_waits_for_a_promise_that_failed_is_cancelled() -> None:
    """Not what runs, nor what another user submitted for it."""
    cancelled: list[int] = []
    slurm = SimpleNamespace(cancel=lambda ids, *, waiting: cancelled.extend(ids * waiting))
    settings = SlurmSettings({"m-0": "n0"}, promised="agenda", best_effort="scavenge")
    jobs = UserJobs(settings, cast("Any", slurm), cast("Any", None))
    others = [
        replace(HELD, id=8, state="RUNNING", nodes=("n0",)),
        replace(HELD, id=9, user="bob"),
        replace(HELD, id=10, comment=promise_comment("q", 99, 9)),
    ]
    jobs.cancel_failed([HELD, *others], {"p": "ann", "q": "ann"}, {"p"})
    assert cancelled == [7]


def test_why_a_job_waited_is_known_when_its_time_is_over() -> None:
    """Slurm says then that its reservation is gone; it is forgotten with the job."""
    jobs, _ = _jobs(start_s=98)
    waits = replace(RELEASED, reason="Resources", reservations=("a_p_1",))
    jobs.follow([waits], {"p": "ann"}, 101)
    stranded = replace(waits, state="RESV_DEL_HOLD", reason="ReservationDeleted")
    for job in (waits, replace(waits, reason="BeginTime"), stranded):
        jobs.follow([job], {"p": "ann"}, 102)
        assert jobs.waits["p"].reason == "job 7 waits in Slurm: Resources"
    jobs.follow([], {"p": "ann"}, 103)
    jobs.follow([HELD], {"p": "ann"}, 104)
    assert jobs.waits["p"].reason == ""


PARTS = [replace(HELD, id=7 + one, leader=7, offset=one, limit_min=2) for one in range(2)]
NODES = ("n0", "n1", "n2")
MEMBERS = {"p": {0: {"n2"}, 1: {"n0", "n1"}}}


def _components(nodes: tuple[str, ...]) -> tuple[UserJobs, list[tuple[Any, ...]]]:
    """Return user jobs of a Slurm with a reservation of nodes, and what was asked of it."""
    asked: list[tuple[Any, ...]] = []
    slurm = SimpleNamespace(
        update_job=lambda id_, **changes: asked.append(
            (id_, changes["excnodelist"], changes["partition"], changes.get("timelimit"))
        ),
        release=lambda id_: asked.append((id_, "release")),
        hold=lambda id_: asked.append((id_, "hold")),
        cancel=lambda ids, waiting: asked.append((ids, waiting)),
    )
    one = SlurmReservation("a_p_1", 200, 320, nodes, ("ann",), ())
    keeper = SimpleNamespace(of=lambda _id: [one], admit=lambda _one, _user: None)
    machines = {f"m-{number}": node for number, node in enumerate(NODES)}
    settings = SlurmSettings(machines, promised="agenda", best_effort="scavenge")
    return UserJobs(settings, cast("Any", slurm), cast("Any", keeper)), asked


def test_components_are_bound_to_the_nodes_of_their_members_and_released_as_one() -> None:
    """The first before the others, for its change is one of all; again when nodes change."""
    jobs, asked = _components(NODES)
    jobs.follow(PARTS[::-1], {"p": "ann"}, 101, by_atom=MEMBERS)
    assert asked == [(7, "n0,n1", "agenda", "2"), (8, "n2", "agenda", "2"), (7, "release")]
    asked.clear()
    may_run = [replace(job, reason="BeginTime") for job in PARTS]
    jobs.follow(may_run, {"p": "ann"}, 102, by_atom=MEMBERS)
    assert asked == []
    assert jobs.waits == {"p": WaitingJobs(100, may_run=True)}
    jobs.follow(may_run, {"p": "ann"}, 103, by_atom={"p": {0: {"n1"}, 1: {"n0", "n2"}}})
    assert asked == [(7, "n0,n2", "agenda", None), (8, "n1", "agenda", None)]


@pytest.mark.parametrize(("start_s", "again"), [(320, True), (204, False)])
def test_components_that_slurm_put_off_are_bound_again(start_s: int, again: bool) -> None:
    """One of them had started while jobs were preempted for another: with the begin of its slot.

    They keep their time limits, though a part of the slot is over.
    """
    jobs, asked = _components(NODES)
    jobs.follow(PARTS, {"p": "ann"}, 101, by_atom=MEMBERS)
    asked.clear()
    waiting = [replace(job, reason="BeginTime", started_s=start_s) for job in PARTS]
    jobs.follow(waiting, {"p": "ann"}, 210, seen_s=210, by_atom=MEMBERS)
    assert asked == [(7, "n0,n1", "agenda", None), (8, "n2", "agenda", None)] * again


@pytest.mark.parametrize(
    ("parts", "members", "nodes", "said"),
    [
        ([PARTS[0], replace(PARTS[1], state="RUNNING")], MEMBERS, NODES, 0),
        ([PARTS[0], replace(PARTS[1], reason="JobHeldAdmin")], MEMBERS, NODES, 1),  # of that
        (PARTS, {"p": {0: {"n0"}}}, NODES, 1),  # a reservation of one atom
        (PARTS, {}, NODES, 0),
        (PARTS, MEMBERS, NODES[:2], 0),  # Slurm's reservation is behind the Plan
    ],
)
def test_components_wait_for_nodes_of_all_their_members(
    parts: list[SlurmJob],
    members: dict[str, dict[int, set[str]]],
    nodes: tuple[str, ...],
    said: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """None of them is released alone; a warning says what does not pass by itself."""
    jobs, asked = _components(nodes)
    jobs.follow(parts, {"p": "ann"}, 101, by_atom=members)
    assert asked == []
    assert len(caplog.records) == said


def test_components_are_cancelled_and_held_as_one() -> None:
    """By the first of them."""
    jobs, asked = _components(NODES)
    jobs.cancel_failed(PARTS, {"p": "ann"}, {"p"})
    assert asked == [([7], True)]
    asked.clear()
    jobs.unbind_lost([replace(job, partition="agenda", reason="") for job in PARTS], set())
    assert asked == [(7, "hold"), (7, "", "scavenge", None)]


def test_components_that_are_held_again_are_all_bound_by_the_next_slot() -> None:
    """With their time limits, also if that is the slot that they had."""
    jobs, asked = _components(NODES)
    jobs.follow(PARTS, {"p": "ann"}, 101, by_atom=MEMBERS)
    bound = list(asked)
    jobs.unbind_lost([replace(job, partition="agenda", reason="") for job in PARTS], set())
    asked.clear()
    jobs.follow(PARTS, {"p": "ann"}, 102, by_atom=MEMBERS)
    assert asked == bound
