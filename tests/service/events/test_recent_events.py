"""Events of records: what they tell, what is remembered, and what a restart keeps of it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from service.access.user import Role, User
from service.events import (
    WHOLE,
    EventPosition,
    PlanEvent,
    RecentEvents,
    decode_events,
    read_position,
)
from service.resources.plan_changes import ChangeFilter, changes_since
from tests.patience import eventually
from tests.service.conftest import Open, Service


def after(recent: RecentEvents, version: int, index: int = WHOLE) -> list[PlanEvent]:
    """Return what came after a position, which is reached."""
    found = recent.read(EventPosition(version, index), 10_000)
    assert found is not None
    return found


def kinds_of(service: Service, id_: str) -> list[str]:
    """Return what has happened to a reservation, oldest first."""
    service.client.get("/v1/plan")
    events = after(service.runtime.recent, 0)
    return [one.kind for one in events if one.reservation == id_]


def advance(service: Service, seconds: float) -> None:
    """Let time pass, and the Plan follow."""
    service.clock.advance(seconds)
    service.runtime.planner.bring_up_to_date()


def test_the_life_of_a_reservation_is_reported(service: Service) -> None:
    """Accepted, changed, begun and ended, each once and in this order."""
    service.reserve("a", "window(atom(<1 cpu>, 1, 2, 60, 120), +5m, +10m)")
    headers = {"If-Match": '"1"'}
    changed = {"rdl": "window(atom(<1 cpu>, 1, 2, 60, 120), +6m, +12m)"}
    assert (
        service.client.put("/v1/reservations/a", json=changed, headers=headers).status_code == 200
    )
    advance(service, 400)
    advance(service, 900)
    assert kinds_of(service, "a") == ["accepted", "renegotiated", "begun", "ended"]


def test_what_ends_before_anybody_looks_has_begun_too(service: Service) -> None:
    """Where the present jumps over a whole reservation, both its beginning and end are reported."""
    service.reserve("a", "window(atom(<1 cpu>, 1, 1, 60, 60), +5m, +10m)")
    advance(service, 3600)
    assert kinds_of(service, "a") == ["accepted", "begun", "ended"]


def test_refusals_ends_and_outages_are_reported(service: Service) -> None:
    """Refused, cancelled, closed and degraded are events of their reservation."""
    assert service.ask("no", "window(atom(<1 cpu>, 11, 11, 60, 660), +0, +1h)").status_code >= 409
    service.ask("full", "window(atom(<1 cpu>, 10, 10, 3600, 36000), +0, +1h)")
    assert service.ask("late", "window(atom(<1 cpu>, 1, 1, 60, 60), +0, +30m)").status_code == 409
    outage = {"machines": "plain", "count": 9, "end": "+2h"}
    assert service.client.post("/v1/cluster/outages", json=outage).status_code == 201
    service.client.delete("/v1/reservations/full")
    assert kinds_of(service, "late") == ["refused"]
    assert kinds_of(service, "full")[0] == "accepted"
    assert kinds_of(service, "full")[-2:] == ["degraded", "cancelled"]


def test_every_process_and_every_start_tells_the_same(open_service: Open) -> None:
    """Another process, and one started from the snapshot of an orderly end, know equal events."""
    first, second = open_service(), open_service()
    for number in range(4):
        first.reserve(f"r{number}")
    advance(first, 120)
    known = after(first.runtime.recent, 0)
    second.client.get("/v1/plan")
    assert after(second.runtime.recent, 0) == known
    first.runtime.close()
    third = open_service()
    assert after(third.runtime.recent, 0)[: len(known)] == known


def test_ids_are_unique_and_in_order(service: Service) -> None:
    """Versions rise by one, numbers count the events of each from 0."""
    for number in range(3):
        service.reserve(f"r{number}")
    events = after(service.runtime.recent, 0)
    for one, other in pairwise(event.position for event in events):
        assert other in ((one.version, one.number + 1), (one.version + 1, 0))


def made(version: int, count: int) -> tuple[PlanEvent, ...]:
    """Return the events of a version."""
    return tuple(PlanEvent(EventPosition(version, i), "commit", 0) for i in range(count))


def test_old_versions_are_forgotten_whole() -> None:
    """Never more than an eighth above the most, and who stands before the first is notified."""
    recent = RecentEvents(most=16)
    recent.begin(7)
    for version in range(8, 40):
        recent.add(version, made(version, 3))
        assert len(after(recent, version, 0)) == 2
    assert not recent.reaches(EventPosition(7, WHOLE))
    assert not recent.reaches(EventPosition(40, 0))
    assert recent.reaches(EventPosition(39, WHOLE))
    first = next(v for v in range(40) if recent.reaches(EventPosition(v, WHOLE)))
    assert not recent.reaches(EventPosition(first, 2))
    left = after(recent, first)
    assert (left[0].position, left[-1].position) == ((first + 1, 0), (39, 2))
    assert len(left) <= 18


def test_what_is_kept_is_read_back() -> None:
    """Events survive their written form, and a memory begun with them continues behind them."""
    recent = RecentEvents()
    for version in range(1, 4):
        recent.add(version, made(version, 2))
    again = RecentEvents()
    again.begin(3, decode_events(recent.encode()))
    assert after(again, 0) == after(recent, 0)
    again.add(4, made(4, 1))
    assert again.newest == (4, WHOLE)


@pytest.mark.parametrize(
    ("text", "position"),
    [("7", (7, WHOLE)), ("7.0", (7, 0)), ("7.", None), ("-1", None), ("", None), ("٣", None)],
)
def test_positions_are_read(text: str, position: tuple[int, int] | None) -> None:
    """A version alone means all of it; what is no id is none."""
    assert read_position(text) == position


def test_changes_since_a_version_are_reported(service: Service) -> None:
    """Each reservation changed since then once, as it is now; nothing if nothing changed."""
    version = service.reserve("a", tenant="ads")["version"]
    service.reserve("b", tenant="ml")
    service.client.delete("/v1/reservations/a")

    def changes(query: str) -> dict[str, object]:
        answer = service.client.get(f"/v1/plan/changes?{query}")
        assert answer.status_code == 200
        body: dict[str, object] = answer.get_json()
        return body

    body = changes(f"since={version}")
    states = {one["id"]: one["state"] for one in body["reservations"]}  # type: ignore[attr-defined]
    assert (body["reset"], states) == (False, {"a": "cancelled", "b": "accepted"})
    only = changes(f"since={version}&tenant=ml")["reservations"]
    assert [one["id"] for one in only] == ["b"]  # type: ignore[attr-defined]
    assert changes(f"since={body['version']}")["reservations"] == []
    assert changes("since=999999")["reset"] is True
    assert service.client.get("/v1/plan/changes").status_code == 400
    assert service.client.get("/v1/plan/changes?since=x").status_code == 400


def test_a_hold_that_is_kept_and_what_leaves_the_plan_are_reported(open_service: Open) -> None:
    """A page that follows events learns of both; what has left is of the tenant it was."""
    service = open_service(tick_s=0, ended_days=0.05)
    held = {"id": "h", "rdl": "window(atom(<1 cpu>, 1, 1, 60, 60), +5m, +10m)"}
    assert service.client.post("/v1/holds", json=held).status_code == 201
    assert service.client.post("/v1/holds/h/accept").status_code == 200
    advance(service, 3600)
    advance(service, 2 * 3600)

    def has_left() -> bool:
        advance(service, 61)  # the archive is looked after once a minute
        return kinds_of(service, "h")[-1] == "archived"

    eventually(has_left)
    assert kinds_of(service, "h") == ["accepted", "hold_accepted", "begun", "ended", "archived"]
    events = after(service.runtime.recent, 0)
    assert [one.tenant for one in events if one.kind == "archived"] == ["default"]


def test_an_id_that_is_anothers_by_now_is_not_shown(open_service: Open) -> None:
    """What left the Plan is `removed` for who had it, anyone who reserved under its id since."""
    service = open_service(tick_s=0, ended_days=0.05)
    soon = "window(atom(<1 cpu>, 1, 1, 60, 60), +5m, +10m)"
    version = service.reserve("a", soon, tenant="ads")["version"]
    advance(service, 3600)
    advance(service, 2 * 3600)
    eventually(lambda: kinds_of(service, "a")[-1] == "archived")
    service.reserve("a", tenant="ml")

    user = User("ann", Role.USER, frozenset({"ads"}))
    told = changes_since(service.runtime, version, ChangeFilter(user))
    assert (told.reservations, told.removed) == ([], ["a"])
