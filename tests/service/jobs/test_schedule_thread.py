"""Scheduled optimisations: begun once when they are due, applied where they move little."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from service.jobs.schedule_thread import moved_part
from tests.patience import eventually
from tests.service.better_plan import found, two_in_the_way
from tests.service.conftest import CLUSTER, Open, Service

#: Two hours after the service begins, whose clock is at midnight.
DUE = "p-nightly-20260105T0200Z"
TWO_HOURS_S = 7_200.0

#: At that midnight itself.
AT_START = "p-nightly-20260105T0000Z"


def _schedule(at: str, **words: str) -> str:
    words = {"name": '"nightly"', "at": f'"{at}"', "time_limit": "1", "solver": '"none"'} | words
    lines = [f"{key} = {value}" for key, value in words.items()]
    return "\n".join([CLUSTER, "[[optimizations]]", *lines])


@pytest.fixture
def scheduled(open_service: Open, cluster_file: Path) -> Service:
    """Return a service whose cluster asks for an optimisation that moves nothing by itself."""
    cluster_file.write_text(_schedule("02:00"))
    return open_service()


def _row(service: Service, id_: str = DUE) -> dict[str, Any] | None:
    answer = service.client.get(f"/v1/optimizations/{id_}")
    return answer.get_json() if answer.status_code == 200 else None


def test_it_begins_when_it_is_due_and_once(scheduled: Service, open_service: Open) -> None:
    """Not before; then under an id of its own; another process does not begin it again."""
    scheduled.runtime.schedule.look()
    assert scheduled.client.get("/v1/optimizations").get_json()["optimizations"] == []
    scheduled.clock.advance(TWO_HOURS_S)
    scheduled.runtime.schedule.look()
    open_service().runtime.schedule.look()
    listed = scheduled.client.get("/v1/optimizations").get_json()["optimizations"]
    assert [one["id"] for one in listed] == [DUE]
    over = eventually(lambda: _row(scheduled), lambda row: row and row["state"] == "finished")
    assert over is not None
    assert over["asked"]["time_s"] == 1
    assert over["asked"]["admit_refused"]
    changes = scheduled.client.get("/v1/audit").get_json()["changes"]
    assert [one["user"] for one in changes if one["kind"] == "start_optimization"] == ["server"]


def test_one_that_a_person_deletes_is_not_begun_again(scheduled: Service) -> None:
    """It comes back when it is due the next time."""
    scheduled.clock.advance(TWO_HOURS_S)
    scheduled.runtime.schedule.look()
    assert scheduled.client.delete(f"/v1/optimizations/{DUE}").status_code == 204
    scheduled.runtime.schedule.look()
    assert _row(scheduled) is None


def test_one_that_was_missed_by_an_hour_is_left_out(scheduled: Service) -> None:
    """A server that starts at noon does not begin what was due in the night."""
    scheduled.clock.advance(TWO_HOURS_S + 3_601)
    scheduled.runtime.schedule.look()
    assert _row(scheduled) is None


@pytest.mark.parametrize(("most", "state"), [("1.0", "applied"), ("0.01", "finished")])
def test_it_is_applied_where_it_moves_little_enough(
    open_service: Open, cluster_file: Path, most: str, state: str
) -> None:
    """Above the part of the work that may move it says so and is left to a person."""
    cluster_file.write_text(_schedule("00:00", apply_below=most))
    service = open_service()
    two_in_the_way(service)
    found(service, AT_START)
    for _ in range(2):
        service.runtime.schedule.look()
    row = _row(service, AT_START)
    assert row is not None
    assert row["state"] == state
    held = service.client.get("/v1/reservations/b").get_json()["state"] == "accepted"
    assert held == (state == "applied")
    if state == "finished":
        assert row["reason"].startswith("not applied: it moves 100.0% of the allocated work")
        assert row["reason"].endswith("and a scheduled one may move 1.0%")


def test_without_a_part_that_may_move_nothing_is_applied(
    open_service: Open, cluster_file: Path
) -> None:
    """It is left to a person, and nothing is said against it."""
    cluster_file.write_text(_schedule("00:00"))
    service = open_service()
    two_in_the_way(service)
    found(service, AT_START)
    service.runtime.schedule.look()
    row = _row(service, AT_START)
    assert row is not None
    assert (row["state"], row["reason"]) == ("finished", "")


def test_a_plan_that_holds_nothing_moves_nothing() -> None:
    """No work at the start is no part."""
    assert moved_part({"after": {"churn": 0.0}, "held_work": 0.0}) == 0.0
    assert moved_part({"after": {"churn": 2.0}, "held_work": 8.0}) == 0.25
