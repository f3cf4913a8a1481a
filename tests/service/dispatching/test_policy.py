"""The operator's dispatch policy behind the API: shown, changed at run time, and followed."""

from __future__ import annotations

from typing import Any

import pytest

from planner.cluster.dispatch_policy import DispatchPolicy
from planner.files import dispatch_to_json
from tests.service.applying import an_application, rows_of, shown_of, submit_one
from tests.service.conftest import Open, Service

_PATH = "/v1/dispatch/policy"


def _put(service: Service, words: dict[str, Any], tag: str | None = None) -> Any:
    headers = {} if tag is None else {"If-Match": tag}
    return service.client.put(_PATH, json=words, headers=headers)


def _running(service: Service) -> list[str]:
    return sorted({row["execution"] for row in rows_of(service)})


def _fill(service: Service) -> None:
    """Fill the cluster with work of one tenant; a third of it and one of another tenant wait."""
    for id_, tenant in (("a1", "a"), ("a2", "a"), ("a3", "a"), ("b1", "b")):
        assert submit_one(service, id_, an_application(5), tenant=tenant).status_code == 201
        service.clock.advance(1)
    service.runtime.dispatcher.tick()
    assert _running(service) == ["a1", "a2"]


def _end_one(service: Service) -> None:
    service.client.delete("/v1/applications/a1")
    service.runtime.dispatcher.tick()
    service.runtime.dispatcher.tick()


def test_the_policy_is_shown_and_replaced_by_its_tag(still: Service) -> None:
    """Every word, with the tag of the cluster's description; an older tag is refused."""
    answer = still.client.get(_PATH)
    assert answer.get_json() == dispatch_to_json(DispatchPolicy())
    tag = answer.headers["ETag"]
    assert still.client.get("/v1/cluster").headers["ETag"] == tag
    changed = _put(still, {"order": "hrrn-2d"}, tag)
    assert (changed.status_code, changed.get_json()["order"]) == (200, "hrrn-2d")
    assert changed.headers["ETag"] != tag
    assert still.client.get(_PATH).get_json() == changed.get_json()
    stale = _put(still, {"order": "fifo"}, tag)
    assert (stale.status_code, stale.get_json()["code"]) == (412, "stale_revision")
    assert stale.headers["ETag"] == changed.headers["ETag"]
    assert _put(still, {"order": "fifo"}).status_code == 200


def test_the_cluster_has_the_policy_and_takes_another(still: Service) -> None:
    """`GET /v1/cluster` shows what was put; without the table the defaults are back."""
    cluster = still.client.get("/v1/cluster").get_json()
    assert "dispatch" not in cluster
    put = still.client.put(
        "/v1/cluster", json={**cluster, "dispatch": {"order": "drf"}}, headers={"If-Match": "*"}
    )
    assert put.get_json()["dispatch"]["order"] == "drf"
    assert still.client.get(_PATH).get_json()["preempt"] is False
    assert (
        still.client.put("/v1/cluster", json=cluster, headers={"If-Match": "*"}).status_code == 200
    )
    assert still.client.get(_PATH).get_json()["order"] == "fifo"


@pytest.mark.parametrize(
    ("words", "pointer"),
    [
        ({"order": "fife"}, "/order"),
        ({"order": "drf", "preempt": True}, "/preempt"),
        ({"tables": "yes"}, "/tables"),
        ([], ""),
    ],
)
def test_a_policy_that_cannot_be_changes_nothing(still: Service, words: Any, pointer: str) -> None:
    """400 with the place and what would be right."""
    answer = _put(still, words)
    assert (answer.status_code, answer.get_json()["code"]) == (400, "malformed")
    assert answer.get_json()["errors"][0]["pointer"] == pointer
    assert still.client.get(_PATH).get_json() == dispatch_to_json(DispatchPolicy())


@pytest.mark.parametrize(("order", "next_one"), [("fifo", "a3"), ("drf", "b1")])
def test_another_order_counts_from_the_next_tick(still: Service, order: str, next_one: str) -> None:
    """Both wait already; what runs continues, and by shares the other tenant is next."""
    _fill(still)
    before = rows_of(still)
    assert _put(still, {"order": order}).status_code == 200
    still.runtime.dispatcher.tick()
    assert rows_of(still) == before
    _end_one(still)
    assert _running(still) == ["a2", next_one]


def test_assignments_say_by_which_policy_they_were_made(still: Service) -> None:
    """Nothing before the first tick, then the policy of the last."""
    assert still.client.get("/v1/assignments").get_json()["policy"] is None
    _fill(still)
    _put(still, {"placement": "spread", "tables": False})
    assert still.client.get("/v1/assignments").get_json()["policy"]["placement"] == "lotes"
    still.runtime.dispatcher.tick()
    shown = still.client.get("/v1/assignments").get_json()["policy"]
    assert (shown["placement"], shown["tables"]) == ("spread", False)


@pytest.mark.parametrize("preempt", [True, False])
def test_preemption_by_priority_is_switched_at_run_time(still: Service, preempt: bool) -> None:
    """Elastic components give way to a higher priority, or it waits and says so."""
    submit_one(still, "batch", an_application(2, elastic=8))
    still.runtime.dispatcher.tick()
    _put(still, {"preempt": preempt})
    submit_one(still, "urgent", an_application(4, priority=5))
    for _ in range(3):
        still.clock.advance(1)
        still.runtime.dispatcher.tick()
    assert _running(still) == (["batch", "urgent"] if preempt else ["batch"])
    if not preempt:
        assert shown_of(still, "urgent")["reason"] == "it waits in the line for capacity"


def test_without_tables_none_is_made(still: Service) -> None:
    """The assignment follows table 1 with them, and none without."""
    submit_one(still, "a", an_application(2))
    for _ in range(2):
        still.runtime.dispatcher.tick()
    assert still.client.get("/v1/assignments").get_json()["table_version"] == 1
    _put(still, {"tables": False})
    still.runtime.dispatcher.tick()
    assert still.client.get("/v1/assignments").get_json()["table_version"] == 0


def test_a_policy_is_followed_after_a_start_and_by_another_process(open_service: Open) -> None:
    """It is in the log: a second process on the database shows and follows it."""
    first = open_service(tick_s=0)
    _put(first, {"order": "drf"})
    second = open_service(tick_s=0)
    assert second.client.get(_PATH).get_json()["order"] == "drf"
    _fill(second)
    _end_one(second)
    assert _running(second) == ["a2", "b1"]


def test_the_thread_follows_a_change_by_itself(open_service: Open) -> None:
    """A quota of five keeps the second waiting; the thread lets it in once the quota is gone."""
    from tests.patience import eventually

    service = open_service(tick_s=0.02)
    cluster = service.client.get("/v1/cluster").get_json()
    quota = {"type": "applications", "name": "share", "tenant": "*", "limit": {"cpu": 5}}
    assert (
        service.client.put(
            "/v1/cluster", json={**cluster, "policies": [quota]}, headers={"If-Match": "*"}
        ).status_code
        == 200
    )
    for id_ in ("one", "two"):
        submit_one(service, id_, an_application(4))
    eventually(lambda: shown_of(service, "one")["state"], "running".__eq__)
    eventually(lambda: shown_of(service, "two")["reason"], lambda reason: "share" in reason)
    assert (
        service.client.put("/v1/cluster", json=cluster, headers={"If-Match": "*"}).status_code
        == 200
    )
    eventually(lambda: shown_of(service, "two")["state"], "running".__eq__)
