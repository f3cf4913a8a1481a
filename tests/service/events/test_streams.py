"""Streams of events: what is told to whom, where one continues, and when one ends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from service.access.user import LOCAL_USER, Role, User
from service.events import KINDS, WHOLE, EventPosition
from service.resources.events import listen
from service.store import OptimizationRow
from service.streaming.plan_stream import EventFilter
from tests.service.conftest import Open, Service
from tests.service.event_stream import heard, read_events


def of_kinds(found: list[Any], *kinds: str) -> list[tuple[str, str]]:
    """Return kind and reservation of the events of some kinds."""
    return [(kind, data["reservation"]) for _, kind, data in found if kind in kinds]


def test_a_stream_continues_behind_the_event_it_is_reported(service: Service) -> None:
    """From each id on exactly what came after it is reported, with the same ids."""
    for number in range(3):
        service.reserve(f"r{number}")
    whole = heard(service, "&after=0&kinds=commit,accepted")
    assert whole[0][1] == "start"
    told = whole[1:]
    assert of_kinds(told, "accepted") == [("accepted", f"r{n}") for n in range(3)]
    for at, (id_, _, _) in enumerate(told):
        again = heard(service, "&kinds=commit,accepted", **{"Last-Event-ID": id_})
        assert again[1:] == told[at + 1 :]


@pytest.mark.parametrize(
    ("narrowed", "ids"),
    [("tenant=ml", ["b", "d"]), ("reservation=d", ["d"]), ("", ["a", "b", "d"])],
)
def test_a_narrowed_stream_continues_narrowed(
    service: Service, narrowed: str, ids: list[str]
) -> None:
    """By tenant or reservation: behind each id exactly what is left of its own comes."""
    for id_, tenant in (("a", "ads"), ("b", "ml"), ("d", "ml")):
        service.reserve(id_, tenant=tenant)
        service.client.delete(f"/v1/reservations/{id_}")
    query = f"&kinds=accepted,cancelled&{narrowed}"
    told = heard(service, f"&after=0{query}")[1:]
    assert [(kind, data["reservation"]) for _, kind, data in told] == [
        (kind, id_) for id_ in ids for kind in ("accepted", "cancelled")
    ]
    for at, (id_, _, _) in enumerate(told):
        assert heard(service, query, **{"Last-Event-ID": id_})[1:] == told[at + 1 :]


def test_what_is_forgotten_is_a_reset(service: Service) -> None:
    """Where the client's last event is of another log, it is told to read again, and continues."""
    service.reserve("a")
    found = heard(service, **{"Last-Event-ID": "900000.1"})
    assert [kind for _, kind, _ in found[:2]] == ["start", "reset"]
    version = service.client.get("/v1/plan").get_json()["version"]
    assert found[1][0] == str(found[1][2]["version"]) == str(version)


@pytest.mark.parametrize("header", ["x", "1.", "-1", "1.2.3", "9" * 20])
def test_a_strange_id_is_refused(service: Service, header: str) -> None:
    """What is no id is 400, and says what would be one."""
    answer = service.client.get("/v1/events?wait=1", headers={"Last-Event-ID": header})
    assert (answer.status_code, answer.get_json()["code"]) == (400, "malformed")
    assert answer.get_json()["errors"][0]["pointer"] == "Last-Event-ID"
    assert service.client.get(f"/v1/events?wait=1&after={header}").status_code == 400


def test_filters_narrow_what_is_reported(service: Service) -> None:
    """By tenant, by reservation and by kind; commits are no one's."""
    service.reserve("a", tenant="ads")
    service.reserve("b", tenant="ml")
    service.reserve("c", tenant="ml")
    assert of_kinds(heard(service, "&after=0&tenant=ml"), "accepted") == [
        ("accepted", "b"),
        ("accepted", "c"),
    ]
    assert of_kinds(heard(service, "&after=0&reservation=c"), "accepted") == [("accepted", "c")]
    assert {kind for _, kind, _ in heard(service, "&after=0&kinds=refused")} == {"start"}
    assert service.client.get("/v1/events?kinds=accepted,nope").status_code == 400


def test_a_user_hears_only_of_its_tenants(service: Service) -> None:
    """Of others' reservations nothing but the totals of commits is told, and of jobs nothing."""
    service.reserve("a", tenant="ads")
    service.reserve("b", tenant="ml")
    now_ms = service.runtime.optimizations.now_ms()
    row = OptimizationRow("p-1", now_ms, b"{}", now_ms)
    service.runtime.optimizations.rows.add(row, most=9)
    everything = EventPosition(0, WHOLE)

    def told_to(user: User) -> list[Any]:
        wanted = EventFilter(user, frozenset(KINDS), None, None)
        stream = listen(service.runtime, wanted, everything, 1.0)
        return read_events(b"".join(stream).decode())

    seen = told_to(User("u", Role.USER, frozenset({"ml"})))
    assert of_kinds(seen, "accepted") == [("accepted", "b")]
    assert "ads" not in json.dumps(seen)
    assert "job" not in {kind for _, kind, _ in seen}
    assert sum(kind == "commit" for _, kind, _ in seen) >= 2
    every = told_to(LOCAL_USER)
    assert of_kinds(every, "accepted") == [("accepted", "a"), ("accepted", "b")]
    assert [data["job"] for id_, kind, data in every if kind == "job" and id_ is None] == ["p-1"]


def test_a_stream_hears_of_the_other_process(open_service: Open) -> None:
    """What another process commits while someone listens is reported here."""
    first, second = open_service(), open_service()
    stream = listen(
        first.runtime,
        EventFilter(LOCAL_USER, frozenset({"accepted"}), None, None),
        None,
        60.0,
    )
    assert b"event: start" in next(stream)
    second.reserve("a")
    assert b'"reservation":"a"' in next(stream)
    stream.close()


def test_streams_end_with_the_server(open_service: Open) -> None:
    """Who listens when a server stops is let go at once."""
    service = open_service()
    stream = listen(service.runtime, EventFilter(LOCAL_USER, frozenset(), None, None), None, 3600.0)
    next(stream)
    service.runtime.close()
    assert list(stream) == []
    again = service.client.get("/v1/events?wait=1")
    assert again.status_code == 503


def test_silence_is_broken_with_how_far_all_is_reported(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A heartbeat is a comment, with the id up to which nothing is missing, told or not."""
    monkeypatch.setattr("service.streaming.live_stream.HEARTBEAT_S", 0.1)
    wanted = EventFilter(LOCAL_USER, frozenset({"refused"}), None, None)
    stream = listen(service.runtime, wanted, None, 60.0)
    next(stream)
    version = service.reserve("a")["version"]
    pieces = (next(stream) for _ in range(1000))
    beat = next(one for one in pieces if f"id: {version}".encode() in one)
    assert beat.startswith(b":\nid: ")
    stream.close()


def test_streams_outlive_a_look_at_the_plan_that_fails(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever it raises, the thread that feeds them continues."""
    looks: list[int] = []

    def look() -> None:
        looks.append(len(looks))
        raise ZeroDivisionError

    monkeypatch.setattr(service.runtime.streams, "_look", look)
    service.runtime.streams._feed_all()
    assert looks == [0]
