"""A lane of their own for searches of whom to displace: no one waits for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from planner.displacement import Displacement, DisplacementAsk, displace
from planner.plan.plan import Plan
from tests.patience import eventually
from tests.service.conftest import CLUSTER, Open, Service

POLICY = """
[[policies]]
type = "displacement"
"""
WHOLE = "window(atom(<1 cpu>, 10, 10, 30m, 5h), +1h, +1h30m)"
ONE = "window(atom(<1 cpu>, 1, 1, 60, 60), +0, +1h)"


@pytest.fixture
def brief(open_service: Open, cluster_file: Path) -> Service:
    """Return a service with two threads that gives up a change after some seconds."""
    cluster_file.write_text(CLUSTER + POLICY)
    return open_service(agent="earliest", threads=2, plan_timeout_s=8.0, tick_s=0)


def _search(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], None]) -> None:
    """Let a search do something else first."""

    def search(
        twin: Plan, asks: Sequence[DisplacementAsk], stop: Callable[[], bool]
    ) -> Displacement | None:
        monkeypatch.setattr("service.commits.displacement.displace", displace)
        meanwhile()
        return displace(twin, asks, stop)

    monkeypatch.setattr("service.commits.displacement.displace", search)


def test_others_are_answered_while_a_search_continues(
    brief: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search that ends only after all kinds of quick changes were answered, ends."""
    other = brief.app.test_client()
    statuses: list[int] = []

    def quick_changes() -> None:
        answers = [
            other.post("/v1/reservations", json={"id": "q", "rdl": ONE}),
            other.post("/v1/reservations", json={"rdl": WHOLE}),
            other.put("/v1/reservations/q", json={"rdl": ONE}, headers={"If-Match": "*"}),
            other.delete("/v1/reservations/q"),
            other.get("/v1/plan"),
        ]
        statuses.extend(answer.status_code for answer in answers)

    brief.reserve("low", WHOLE)
    _search(monkeypatch, quick_changes)
    made = brief.reserve("urgent", WHOLE, priority=1)

    assert statuses == [201, 409, 200, 200, 200]
    assert [one["id"] for one in made["displaced"]] == ["low"]


def test_a_search_is_refused_where_as_many_wait_as_may(
    brief: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the threads may wait: one more that might displace is told to come again."""
    other = brief.app.test_client()
    refused: list[tuple[int, str]] = []

    def ask_more() -> None:
        for query in ("", "?dry_run=true"):
            body = {"rdl": WHOLE, "priority": 1}
            answer = other.post(f"/v1/reservations{query}", json=body)
            refused.append((answer.status_code, answer.headers["Retry-After"]))

    brief.reserve("low", WHOLE)
    _search(monkeypatch, ask_more)
    brief.reserve("urgent", WHOLE, priority=1)

    assert refused == [(429, "5")] * 2
    # The place is free a moment after the answer.
    eventually(lambda: brief.ask("next", WHOLE, priority=2).status_code == 201)


def test_a_fault_in_a_search_is_no_other_change_s(
    brief: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asked is reported that the server failed; the lane and the places continue."""

    def fail() -> None:
        raise RuntimeError("a fault")

    brief.reserve("low", WHOLE)
    for _ in range(2):
        _search(monkeypatch, fail)
        assert brief.ask("urgent", WHOLE, priority=1).status_code == 500
    assert brief.reserve("urgent", WHOLE, priority=1)["displaced"]


def test_what_waits_for_a_search_is_refused_when_the_server_stops(
    brief: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search at work is carried out; who comes then is told to come again."""
    other = brief.app.test_client()
    late: list[int] = []
    closing = threading.Thread(target=brief.runtime.planner.displacements.close)

    def stop() -> None:
        closing.start()
        while not brief.runtime.planner.displacements.is_stopping:
            threading.Event().wait(0.001)
        late.append(other.post("/v1/reservations", json={"rdl": WHOLE, "priority": 2}).status_code)

    brief.reserve("low", WHOLE)
    _search(monkeypatch, stop)
    made = brief.reserve("urgent", WHOLE, priority=1)
    closing.join()

    assert made["displaced"]
    assert late == [503]


def test_no_search_begins_after_its_time(brief: Service) -> None:
    """What comes too late stays refused for capacity, and nothing gives way."""
    brief.reserve("low", WHOLE)
    brief.runtime.planner._displacer.displacer._longest_s = -1.0

    late = brief.ask("urgent", WHOLE, priority=1)

    assert (late.status_code, late.get_json()["code"]) == (409, "capacity")
    assert brief.client.get("/v1/reservations/low").get_json()["state"] == "accepted"
