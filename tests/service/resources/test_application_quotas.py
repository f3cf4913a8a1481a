"""Quotas on applications behind the API: what is refused, what waits, and what is stopped."""

from __future__ import annotations

from typing import Any

import pytest

from tests.service.applying import an_application, rows_of, shown_of, submit_one
from tests.service.conftest import Open, Service


def _limit(service: Service, **quota: Any) -> None:
    """Give the cluster one quota on applications, of each tenant where none is named."""
    cluster = service.client.get("/v1/cluster").get_json()
    policy = {"type": "applications", "name": "share", "tenant": "*", **quota}
    answer = service.client.put(
        "/v1/cluster", json={**cluster, "policies": [policy]}, headers={"If-Match": "*"}
    )
    assert answer.status_code == 200, answer.get_data(as_text=True)


def _held(service: Service, id_: str) -> int:
    return len([row for row in rows_of(service) if row["execution"] == id_])


def test_one_too_many_is_refused_until_another_is_over(still: Service) -> None:
    """Two of a tenant may wait or run; a third is notified; other tenants are not bounded by it."""
    _limit(still, max_count=2)
    for id_ in ("a", "b"):
        assert submit_one(still, id_, an_application(6), tenant="ads").status_code == 201
    still.runtime.dispatcher.tick()
    refused = submit_one(still, "c", an_application(), tenant="ads")
    assert (refused.status_code, refused.get_json()["code"]) == (409, "count_limit")
    assert refused.get_json()["detail"] == (
        "policy 'share' lets tenant 'ads' have 2 applications without a reservation at a time, "
        "and 2 wait or run"
    )
    assert refused.get_json()["errors"][0]["pointer"] == "/application"
    assert still.client.get("/v1/applications/c").status_code == 404
    assert submit_one(still, "d", an_application(), tenant="web").status_code == 201
    still.client.delete("/v1/applications/a")
    still.runtime.dispatcher.tick()
    assert submit_one(still, "c", an_application(), tenant="ads").status_code == 201


def _use(service: Service) -> list[tuple[Any, ...]]:
    """What the policy shows of itself: whose, what is counted, used, limit, unit."""
    shown = service.client.get("/v1/policies/share").get_json()["use"]
    return [
        (one["tenant"], one["resource"], one["measure"], one["used"], one["limit"], one["unit"])
        for one in shown
    ]


def test_a_policy_shows_its_use_against_its_limits(still: Service) -> None:
    """Both applications count, also the one that waits; of cores only what is let in."""
    _limit(still, max_count=4, limit={"cpu": 8, "memory": "1TiB"})
    assert _use(still) == []
    for id_, cores in (("a", 6), ("b", 3)):
        assert submit_one(still, id_, an_application(cores), tenant="ads").status_code == 201
    assert submit_one(still, "c", an_application(1), tenant="web").status_code == 201
    still.runtime.dispatcher.tick()
    assert _use(still) == [
        ("ads", "cpu", "instant", 6, 8, "cores"),
        ("ads", None, "applications", 2, 4, "applications"),
        ("web", None, "applications", 1, 4, "applications"),
        ("web", "cpu", "instant", 1, 8, "cores"),
        ("ads", "memory", "instant", 0, 1024 * 1024, "MiB"),
        ("web", "memory", "instant", 0, 1024 * 1024, "MiB"),
    ]
    still.client.delete("/v1/applications/a")
    still.runtime.dispatcher.tick()
    assert ("ads", "cpu", "instant", 3, 8, "cores") in _use(still)
    for id_ in "bc":
        still.client.delete(f"/v1/applications/{id_}")
    still.runtime.dispatcher.tick()
    assert _use(still) == []


def test_a_named_account_is_shown_though_it_uses_nothing(still: Service) -> None:
    _limit(still, tenant="ads", max_count=4, limit={"cpu": 8})
    assert _use(still) == [
        ("ads", "cpu", "instant", 0, 8, "cores"),
        ("ads", None, "applications", 0, 4, "applications"),
    ]


def test_processes_count_together(open_service: Open) -> None:
    """What one process took counts in another."""
    first, second = open_service(tick_s=0), open_service(tick_s=0)
    _limit(first, max_count=1)
    assert submit_one(first, "a", an_application()).status_code == 201
    assert submit_one(second, "b", an_application()).status_code == 409


def test_applications_of_reservations_are_not_counted(still: Service) -> None:
    """They run under what was promised; best effort has the whole count."""
    _limit(still, max_count=1, limit={"cpu": 1})
    still.reserve("r1", "window(atom(<1 cpu>, 4, 4, 60, 240), +0, +1m)")
    for id_ in ("a", "b"):
        assert submit_one(still, id_, an_application(2), reservation="r1").status_code == 201
    assert submit_one(still, "c", an_application(1)).status_code == 201
    still.runtime.dispatcher.tick()
    assert [_held(still, id_) for id_ in "abc"] == [2, 2, 1]


@pytest.mark.parametrize(
    ("quota", "application", "pointer", "told"),
    [
        (
            {"limit": {"cpu": 4}},
            an_application(5),
            "/application/components",
            "its core components request 5 cpu; policy 'share' allows 4 cpu",
        ),
        (
            {"max_run": "1h"},
            an_application(1, size="2h"),
            "/application/size",
            "it runs for 2h; policy 'share' allows 1h",
        ),
    ],
)
def test_one_that_exceeds_a_quota_alone_is_refused(
    still: Service, quota: dict[str, Any], application: dict[str, Any], pointer: str, told: str
) -> None:
    """No tick could ever let it run to its end; under a reservation it is taken."""
    _limit(still, **quota)
    refused = submit_one(still, "a", application)
    assert (refused.status_code, refused.get_json()["code"]) == (409, "quota")
    (error,) = refused.get_json()["errors"]
    assert (error["pointer"], error["message"]) == (pointer, told)
    still.reserve("r1", "window(atom(<1 cpu>, 5, 5, 60, 300), +0, +1m)")
    assert submit_one(still, "a", application, reservation="r1").status_code == 201


def test_use_above_a_quota_waits_and_the_listing_says_why(still: Service) -> None:
    """Elastic components stop at the quota; a second application waits for the first."""
    _limit(still, limit={"cpu": 4})
    submit_one(still, "a", an_application(3, elastic=4))
    submit_one(still, "b", an_application(2))
    for _ in range(2):
        still.runtime.dispatcher.tick()
    assert (_held(still, "a"), _held(still, "b")) == (4, 0)
    listed = still.client.get("/v1/applications").get_json()["applications"]
    reasons = {one["id"]: one["reason"] for one in listed}
    assert reasons["b"] == ("policy 'share' leaves tenant 'default' 1 cpu; its cores ask for 2 cpu")
    worker = shown_of(still, "a")["components"][1]
    assert worker["reason"] == "policy 'share' lets no more of it run without a reservation"


def test_what_runs_too_long_is_stopped_with_the_reason(still: Service) -> None:
    """A minute is allowed: told then, stopped five seconds later."""
    _limit(still, max_run="1m")
    submit_one(still, "a", an_application(2))
    for _ in range(2):
        still.runtime.dispatcher.tick()
    still.clock.advance(60)
    still.runtime.dispatcher.tick()
    shown = shown_of(still, "a")
    assert shown["state"] == "running"
    assert shown["reason"].startswith("it is stopped in a moment: it has run for the 1m")
    still.clock.advance(5)
    still.runtime.dispatcher.tick()
    shown = shown_of(still, "a")
    assert (shown["state"], _held(still, "a")) == ("killed", 0)
    assert shown["reason"] == "it has run for the 1m that policy 'share' allows"


def test_a_queue_is_requested_or_that_of_the_reservation(still: Service) -> None:
    """Policies of a queue count what was submitted to it; an unknown one is an error."""
    cluster = still.client.get("/v1/cluster").get_json()
    cluster["queues"] = [{"name": "default"}, {"name": "night", "reservable": False}]
    cluster["policies"] = [{"type": "applications", "queue": "night", "max_count": 1}]
    assert (
        still.client.put("/v1/cluster", json=cluster, headers={"If-Match": "*"}).status_code == 200
    )
    taken = submit_one(still, "a", an_application(), queue="night")
    assert (taken.status_code, taken.get_json()["queue"]) == (201, "night")
    assert submit_one(still, "b", an_application(), queue="night").status_code == 409
    assert submit_one(still, "b", an_application()).get_json()["queue"] == "default"
    unknown = submit_one(still, "c", an_application(), queue="nigth")
    (error,) = unknown.get_json()["errors"]
    assert (unknown.status_code, error["pointer"]) == (400, "/queue")
    assert "'night'" in error["fix"]
    still.reserve("r1", "window(atom(<1 cpu>, 1, 1, 60, 60), +0, +1m)")
    other = submit_one(still, "d", an_application(), reservation="r1", queue="night")
    assert (other.status_code, other.get_json()["code"]) == (409, "wrong_state")
