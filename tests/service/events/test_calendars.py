"""Calendars of reservations: well formed, stable, and read by their secret alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from planner.plan.plan import Plan
from service.access.user import Role, User
from service.calls.events import calendar_feeds
from service.planning.archivist import Archivist
from service.problems import ApiProblemError
from tests.service.conftest import Open, Service


def feed_of(service: Service, tenant: str) -> dict[str, Any]:
    """Create a feed."""
    answer = service.client.post("/v1/calendar/feeds", json={"tenant": tenant})
    assert answer.status_code == 201
    body: dict[str, Any] = answer.get_json()
    return body


def read_calendar(service: Service, path: str) -> list[dict[str, str]]:
    """Return the events of a calendar, held against the form of RFC 5545."""
    answer = service.client.get(path)
    assert (answer.status_code, answer.mimetype) == (200, "text/calendar")
    raw = answer.get_data()
    assert raw.endswith(b"END:VCALENDAR\r\n")
    assert all(len(line) <= 75 for line in raw.split(b"\r\n"))
    assert b"\n" not in raw.replace(b"\r\n", b"")
    events: list[dict[str, str]] = []
    for line in raw.decode().replace("\r\n ", "").split("\r\n"):
        name, _, value = line.partition(":")
        if line == "BEGIN:VEVENT":
            events.append({})
        elif events and name not in ("END", ""):
            events[-1][name] = re.sub(
                r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], value
            )
    return events


def test_reservations_are_events(service: Service) -> None:
    """Times in UTC, a stable UID, the revision as SEQUENCE, and what is cancelled marked so."""
    rdl = "window(atom(<1 cpu>, 1, 1, 600, 600), +10m, +20m)"
    service.reserve("a", rdl, tenant="größe, und; mehr")
    service.reserve("other", tenant="ml")
    path = feed_of(service, "größe, und; mehr")["path"]
    (event,) = read_calendar(service, path)
    assert (event["UID"], event["STATUS"]) == ("a@agenda", "CONFIRMED")
    assert (event["DTSTART"], event["DTEND"]) == ("20260105T001000Z", "20260105T002000Z")
    assert "tenant größe, und; mehr," in event["DESCRIPTION"]
    before = int(event["SEQUENCE"])
    service.client.delete("/v1/reservations/a")
    (again,) = read_calendar(service, path)
    assert (again["UID"], again["STATUS"], again["DTSTART"]) == (
        "a@agenda",
        "CANCELLED",
        "20260105T001000Z",
    )
    assert int(again["SEQUENCE"]) == before + 1


def test_every_occurrence_is_an_event(service: Service) -> None:
    """A recurring reservation has one event each time, with a UID of its own."""
    service.reserve(
        "r",
        "every(1h, window(atom(<1 cpu>, 1, 1, 10m, 10m), 0, 10m), times=3)",
        tenant="ads",
    )
    events = read_calendar(service, feed_of(service, "ads")["path"])
    assert [one["UID"] for one in events] == ["r@agenda", "r.1@agenda", "r.2@agenda"]
    assert len({one["DTSTART"] for one in events}) == 3


def test_an_unchanged_calendar_is_not_sent_again(service: Service) -> None:
    """The tag stays while nothing changes, and 304 answers it."""
    service.reserve("a", tenant="ads")
    path = feed_of(service, "ads")["path"]
    tag = service.client.get(path).headers["ETag"]
    service.reserve("b", tenant="ml")
    assert service.client.get(path, headers={"If-None-Match": tag}).status_code == 304
    service.reserve("c", tenant="ads")
    assert service.client.get(path, headers={"If-None-Match": tag}).status_code == 200


def test_a_feed_is_read_by_its_token_until_it_is_deleted(service: Service) -> None:
    """The list tells no tokens; a wrong or deleted one reads nothing."""
    feed = feed_of(service, "ads")
    listed = service.client.get("/v1/calendar/feeds").get_json()["feeds"]
    assert [one["id"] for one in listed] == [feed["id"]]
    assert "token" not in listed[0]
    assert service.client.get("/v1/calendar.ics?token=nope").status_code == 404
    assert service.client.get("/v1/calendar.ics").status_code == 400
    assert service.client.delete(f"/v1/calendar/feeds/{feed['id']}").status_code == 204
    assert service.client.get(feed["path"]).status_code == 404
    assert service.client.delete(f"/v1/calendar/feeds/{feed['id']}").status_code == 404
    assert service.client.post("/v1/calendar/feeds", json={}).status_code == 400


def test_a_calendar_shows_its_tenant_alone_while_others_leave_the_plan(
    open_service: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reservations have other numbers once some have left: it is read on all the same."""
    service = open_service(tick_s=0, ended_days=3650)
    service.reserve("gone", "window(atom(<1 cpu>, 1, 1, 60, 60), +5m, +10m)", tenant="ads")
    service.reserve("mine", "window(atom(<1 cpu>, 1, 1, 60, 60), +3h, +4h)", tenant="ads")
    service.reserve("secret", "window(atom(<1 cpu>, 1, 1, 60, 60), +3h, +4h)", tenant="ml")
    service.clock.advance(7200)
    service.reserve("last", "window(atom(<1 cpu>, 1, 1, 60, 60), +1h, +2h)", tenant="ml")
    path, held = feed_of(service, "ads")["path"], service.runtime.reading
    reads = 0

    @contextmanager
    def reading() -> Iterator[Plan]:
        nonlocal reads
        reads += 1
        if reads == 2:  # between the look for what there is and the reading of it
            config = replace(service.runtime.config, ended_days=0.01)
            runtime = service.runtime
            assert Archivist(config, runtime._replica, service.clock).run() == 1
        with held() as plan:
            yield plan

    monkeypatch.setattr(service.runtime, "reading", reading)
    assert [one["UID"] for one in read_calendar(service, path)] == ["mine@agenda"]
    assert reads == 2


def test_a_user_makes_feeds_of_its_tenants_only(service: Service) -> None:
    """Another tenant's calendar is neither made nor listed nor deleted."""
    user = User("u", Role.USER, frozenset({"ads"}))
    feed = feed_of(service, "ml")
    with pytest.raises(ApiProblemError, match="tenant"):
        calendar_feeds.create(service.runtime, user, "ml")
    assert calendar_feeds.create(service.runtime, user, None)["tenant"] == "ads"
    assert [one["tenant"] for one in calendar_feeds.page(service.runtime, user)["feeds"]] == ["ads"]
    with pytest.raises(ApiProblemError, match="no calendar feed"):
        calendar_feeds.delete(service.runtime, user, feed["id"])
