"""Changes and all-or-nothing batches displace others over HTTP; holds displace no one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import TestResponse

from planner.agent import Limits
from planner.agents import agent_named
from planner.displacement import Displacement, DisplacementAsk, displace
from planner.plan.plan import Plan
from planner.plan.records.changes import Cancel, Change, Update
from planner.renegotiation import renegotiation_of
from planner.replanning.commitment import commitment_of
from planner.validation.validate import validate
from tests.service.conftest import CLUSTER, Open, Service

POLICY = """
[[policies]]
type = "displacement"
"""


def _gang(height: int, end: str = "+1h30m") -> str:
    """Return a gang of cores for half an hour from the second hour on."""
    return f"window(atom(<1 cpu>, {height}, {height}, 30m, {height * 30}m), +1h, {end})"


@pytest.fixture
def displacing(open_service: Open, cluster_file: Path) -> Service:
    """Return a service whose cluster lets every request displace."""
    cluster_file.write_text(CLUSTER + POLICY)
    return open_service(agent="earliest", tick_s=0)


def _state(service: Service, id_: str) -> Any:
    return service.client.get(f"/v1/reservations/{id_}").get_json()


def _change(
    service: Service, id_: str, rdl: str, tag: str = "*", query: str = "", **more: Any
) -> TestResponse:
    headers = {"If-Match": tag}
    body = {"rdl": rdl, **more}
    return service.client.put(f"/v1/reservations/{id_}{query}", json=body, headers=headers)


def _batch(service: Service, *asked: tuple[str, str, int], **more: Any) -> TestResponse:
    body = [{"id": id_, "rdl": rdl, "priority": priority} for id_, rdl, priority in asked]
    path = "/v1/reservations:batch?atomic=true"
    return service.client.post(path + more.pop("query", ""), json=body, **more)


@pytest.mark.usefixtures("unasked")
def test_a_change_moves_others_away_and_both_are_reported(displacing: Service) -> None:
    """One record holds the change and the move; answer, histories, audit and validator agree."""
    displacing.reserve("mine", _gang(4), priority=5)
    displacing.reserve("low", _gang(6, "+3h"))
    dry = _change(displacing, "mine", _gang(10), query="?dry_run=true").get_json()
    assert [(one["id"], one["fate"]) for one in dry["displaced"]] == [("low", "moved")]
    assert _state(displacing, "low")["revision"] == 1
    made = _change(displacing, "mine", _gang(10)).get_json()
    assert [(one["id"], one["fate"]) for one in made["displaced"]] == [("low", "moved")]
    mine, low = _state(displacing, "mine"), _state(displacing, "low")
    assert mine["version"] == low["version"] == made["version"]
    assert (mine["priority"], mine["revision"]) == (5, 2)
    assert mine["history"][-1]["what"] == "renegotiated"
    assert mine["history"][-1]["detail"] == "displaced 1 reservation"
    assert low["history"][-1]["detail"] == "displaced by mine, of higher priority"
    del mine["history"], made["displaced"]
    assert made == mine
    assert validate(displacing.client.get("/v1/plan/export").get_json()) == []
    audited = displacing.client.get("/v1/audit").get_json()["changes"]
    rows = [(one["kind"], one["about"]) for one in audited if one["version"] == made["version"]]
    assert sorted(rows) == [("update", "low"), ("update", "mine")]


def test_a_refused_change_leaves_all_as_it_was(displacing: Service) -> None:
    """Where others of the same priority stand in the way the answer is as before."""
    displacing.reserve("mine", _gang(4), priority=5)
    displacing.reserve("equal", _gang(3), priority=5)
    displacing.reserve("low", _gang(3))
    answer = _change(displacing, "mine", _gang(10))
    assert (answer.status_code, answer.get_json()["code"]) == (409, "capacity")
    assert [_state(displacing, id_)["revision"] for id_ in ("mine", "equal", "low")] == [1, 1, 1]


@pytest.mark.usefixtures("unasked")
def test_a_batch_displaces_for_all_of_its_requests_or_for_none(displacing: Service) -> None:
    """The first result names who gave way; a batch with one weak request is refused whole."""
    displacing.reserve("low", _gang(10), priority=1)
    weak = _batch(displacing, ("one", _gang(5), 5), ("two", _gang(5), 1))
    assert weak.status_code == 409
    assert _state(displacing, "low")["state"] == "accepted"
    asked = (("one", _gang(5), 5), ("two", _gang(5), 2))
    dry = _batch(displacing, *asked, query="&dry_run=true").get_json()["results"]
    assert [[gone["id"] for gone in one["body"].get("displaced", ())] for one in dry] == [
        ["low"],
        [],
    ]
    key = {"Idempotency-Key": "once"}
    made, again = (_batch(displacing, *asked, headers=key) for _ in range(2))
    assert (made.status_code, made.get_json()) == (201, again.get_json())
    results = made.get_json()["results"]
    assert [[gone["id"] for gone in one["body"].get("displaced", ())] for one in results] == [
        ["low"],
        [],
    ]
    assert _state(displacing, "low")["state"] == "degraded"
    assert len({one["body"]["version"] for one in results}) == 1
    assert validate(displacing.client.get("/v1/plan/export").get_json()) == []


def test_a_batch_that_lacks_more_than_capacity_displaces_no_one(displacing: Service) -> None:
    """One request that is too large for the machines spoils it, and no one gives way."""
    displacing.reserve("low", _gang(10))
    answer = _batch(displacing, ("one", _gang(5), 5), ("two", _gang(11), 5))
    assert answer.status_code == 409
    assert _state(displacing, "low")["state"] == "accepted"


def test_a_batch_of_which_a_part_was_granted_before_displaces_no_one(displacing: Service) -> None:
    """Else what stands of it might give way to the rest."""
    displacing.reserve("one", _gang(5), priority=5)
    displacing.reserve("low", _gang(5), priority=1)
    answer = _batch(displacing, ("one", _gang(5), 5), ("two", _gang(5), 9))
    assert answer.status_code == 409
    assert [_state(displacing, id_)["state"] for id_ in ("one", "low")] == ["accepted"] * 2


def test_a_hold_displaces_no_one_and_says_what_would(displacing: Service) -> None:
    """It is refused for capacity, with the way round it; without anybody below it says no more."""
    displacing.reserve("low", _gang(10), priority=1)
    words = "a hold displaces no reservations, but a reservation of this priority may"
    for priority, told in ((5, True), (1, False)):
        answer = displacing.client.post(
            "/v1/holds", json={"rdl": _gang(4), "priority": priority, "time": 20}
        )
        assert answer.status_code == 409
        assert (words in answer.get_json()["detail"]) is told
    assert _state(displacing, "low")["state"] == "accepted"


def _disturbed(
    monkeypatch: pytest.MonkeyPatch, service: Service, made: Callable[[Plan], Change]
) -> list[int]:
    """Let another server commit a change between the first search and its commit."""
    searches: list[int] = []

    def search(
        twin: Plan, asks: Sequence[DisplacementAsk], stop: Callable[[], bool]
    ) -> Displacement | None:
        found = displace(twin, asks, stop)
        if not searches:
            replica = service.runtime._replica
            with replica.newest() as plan:
                prepared = plan.prepare([made(plan)], plan.version)
            assert prepared.record is not None
            assert replica.commit(prepared.record, service.clock.now_ms())
        searches.append(len(asks))
        return found

    monkeypatch.setattr("service.commits.displacement.displace", search)
    return searches


def _same_again(plan: Plan, id_: str) -> Update:
    """Return a change of a reservation to what it holds already."""
    number = plan.table.number_of(id_)
    assert number is not None
    request = commitment_of(plan, number).request
    assert request is not None
    result = renegotiation_of(plan, request.id, request).place(agent_named("gree"), Limits())
    return Update(request.id, 1, request, result, "gree")


def test_a_change_is_searched_again_where_the_plan_moved_on(
    displacing: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another server cancels between search and commit need not give way."""
    displacing.reserve("mine", _gang(4), priority=5)
    displacing.reserve("low", _gang(6))
    searches = _disturbed(monkeypatch, displacing, lambda _: Cancel("low"))
    made = _change(displacing, "mine", _gang(10)).get_json()
    assert searches == [1, 1]
    assert "displaced" not in made
    assert _state(displacing, "low")["state"] == "cancelled"
    assert _state(displacing, "mine")["revision"] == 2


def test_a_change_meant_for_an_older_revision_is_notified(
    displacing: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where another server changes the reservation meanwhile no one gives way, and it is 412."""
    displacing.reserve("mine", _gang(4), priority=5)
    displacing.reserve("low", _gang(6))

    _disturbed(monkeypatch, displacing, lambda plan: _same_again(plan, "mine"))
    answer = _change(displacing, "mine", _gang(10), tag='"1"')
    assert (answer.status_code, answer.get_json()["code"]) == (412, "stale_revision")
    assert _state(displacing, "low")["state"] == "accepted"


def test_a_batch_is_searched_again_where_the_plan_moved_on(
    displacing: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the capacity that came free, all of it or nothing."""
    displacing.reserve("low", _gang(5))
    displacing.reserve("other", _gang(5), weight=9)
    searches = _disturbed(monkeypatch, displacing, lambda _: Cancel("low"))
    made = _batch(displacing, ("one", _gang(2), 5), ("two", _gang(2), 5))
    assert made.status_code == 201
    assert searches == [2, 2]
    assert [_state(displacing, id_)["state"] for id_ in ("low", "other")] == [
        "cancelled", "accepted",
    ]  # fmt: skip


@pytest.mark.usefixtures("unasked")
def test_the_log_is_replayed_to_the_same_plan(displacing: Service, open_service: Open) -> None:
    """A server that starts on the log of a change and a batch has the same reservations."""
    displacing.reserve("mine", _gang(4), priority=5)
    displacing.reserve("low", _gang(6, "+3h"))
    _change(displacing, "mine", _gang(10))
    _batch(displacing, ("one", _gang(5), 7), ("two", _gang(5), 7))
    ids = ("mine", "low", "one", "two")
    before = [_state(displacing, id_) for id_ in ids]
    again = open_service(agent="earliest", tick_s=0)
    assert [_state(again, id_) for id_ in ids] == before
