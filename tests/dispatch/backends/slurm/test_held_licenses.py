"""Units of pools that jobs and reservations of Slurm hold beyond the Plan are not free."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dispatch.backends.slurm.control.job_names import promise_comment
from dispatch.backends.slurm.control.records import SlurmJob, SlurmReservation, reservation_of
from dispatch.backends.slurm.reserved.held_nodes import HeldLicenses
from planner.cluster.cluster import Pool
from planner.plan.plan import Plan
from tests.builders import a_cluster, a_plan, a_request

CLUSTER = replace(
    a_cluster().machines("m", 2, cpu=4, memory="8 GiB").build(), pools=(Pool("matlab", 3),)
)


def a_job(id_: int, count: int, ends_s: int = 100, reservation: str = "-") -> SlurmJob:
    """Return a job that runs, and has licences."""
    comment = promise_comment(reservation, 0, 0)
    return SlurmJob(
        id_, "job", "ann", comment, "RUNNING", "", ("n1",), ends_s=ends_s,
        licenses=(("matlab", count), ("ansys", 1)),
    )  # fmt: skip


def a_plan_of(*texts: str) -> Plan:
    """Return a plan that holds r1, r2, ..."""
    requests = [a_request(f"r{i}", text).on(CLUSTER) for i, text in enumerate(texts, 1)]
    return a_plan(CLUSTER).holding(*requests).build()


def spans_of(
    held: HeldLicenses, plan: Plan, *jobs: SlurmJob, now_s: int = 10
) -> list[tuple[str, int, int]]:
    """Return the units that are away, from and to s; the origin is Unix time 0."""
    found = held.spans(plan, jobs, (), 1000 * now_s)
    return [(one.machine, one.start // 1000, one.end // 1000) for one in found]


@pytest.mark.parametrize(
    ("total", "count", "units"), [(3, 2, 2), (4, 2, 1), (4, 1, 0), (5, 2, 0), (3, 5, 3)]
)
def test_licences_that_the_pool_has_not_serve_jobs_of_no_promise_first(
    total: int, count: int, units: int
) -> None:
    """Of three in the pool."""
    spans = spans_of(HeldLicenses({"matlab": total}, 0), a_plan_of(), a_job(1, count))
    assert spans == [(f"matlab-{unit}", 10, 100) for unit in range(units)]


def test_units_stay_those_of_their_job() -> None:
    """When another ends that was there before; and a third takes what is free."""
    held, plan = HeldLicenses({"matlab": 3}, 0), a_plan_of()
    assert spans_of(held, plan, a_job(1, 1), a_job(2, 1, 200)) == [
        ("matlab-0", 10, 100), ("matlab-1", 10, 200),
    ]  # fmt: skip
    assert spans_of(held, plan, a_job(2, 1, 200), now_s=20) == [("matlab-1", 20, 200)]
    assert spans_of(held, plan, a_job(2, 1, 200), a_job(3, 2, 50), now_s=21) == [
        ("matlab-1", 21, 200), ("matlab-0", 21, 50), ("matlab-2", 21, 50),
    ]  # fmt: skip


def test_a_job_of_a_promise_holds_only_what_is_beyond_it() -> None:
    """Nothing in its time; all of it where the promise is not there any more."""
    plan = a_plan_of("window(atom(<4 cpu, 2 matlab>, 1, 1, 50, 50), 5, 55)")
    held = HeldLicenses({"matlab": 3}, 0)
    assert spans_of(held, plan, a_job(1, 2, 55, "r1")) == []
    assert spans_of(held, plan, a_job(1, 1, 80, "r1")) == [("matlab-0", 55, 80)]
    assert spans_of(held, plan, a_job(2, 1, 80, "gone")) == [("matlab-0", 10, 80)]


def test_a_job_that_slurm_ends_late_has_them_for_some_time_more() -> None:
    """In whole turns, so that not every look finds another end."""
    held, plan = HeldLicenses({"matlab": 3}, 0), a_plan_of()
    assert spans_of(held, plan, a_job(1, 1, 9)) == [("matlab-0", 10, 30)]
    assert spans_of(held, plan, a_job(1, 1, 9), now_s=12) == [("matlab-0", 12, 30)]


def test_what_others_have_reserved_is_away_while_they_have_it() -> None:
    """And two that are not at the same time share a unit."""
    line = (
        "ReservationName=course StartTime={} EndTime={} Nodes=(null) Licenses=matlab:2,ansys:1 "
        "Users=ann Flags={}"
    )
    first = reservation_of(line.format(20, 60, "ANY_NODES"))
    assert first.licenses == (("matlab", 2), ("ansys", 1))
    second = replace(first, name="next", start_s=60, end_s=90)
    over = replace(first, name="over", start_s=1, end_s=10)
    floating = replace(first, name="floats", flags=("TIME_FLOAT",))
    found = HeldLicenses({"matlab": 3}, 0).spans(
        a_plan_of(), (), (first, second, over, floating), 10_000
    )
    assert [(one.machine, one.start, one.end, one.reservation) for one in found] == [
        ("matlab-0", 20_000, 60_000, "course"), ("matlab-1", 20_000, 60_000, "course"),
        ("matlab-0", 60_000, 90_000, "next"), ("matlab-1", 60_000, 90_000, "next"),
    ]  # fmt: skip


def test_what_slurm_does_not_count_is_left_to_the_plan() -> None:
    """A pool that the settings do not name is none of Slurm's."""
    assert spans_of(HeldLicenses({}, 0), a_plan_of(), a_job(1, 1)) == []
    one = SlurmReservation("a", 1, 99, (), (), (), (("ansys", 1),))
    assert HeldLicenses({"matlab": 3}, 0).spans(a_plan_of(), (), (one,), 10_000) == []
