"""YARN's calls of several processes at once: one of them is first."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.service.conftest import Open, Service
from tests.service.yarn.facts import ID, call, ids, listed, stage, submission


def test_of_two_definitions_under_one_id_one_is_taken(yarn: Service, open_service: Open) -> None:
    """The other is reported that the id is taken, and the list shows the one that was accepted."""
    services = [yarn, open_service(tick_s=0)]

    def send(number: int) -> int:
        body = submission(stages=[stage(10 + number, 1)])
        client = services[number % 2].app.test_client()
        answer = client.post("/ws/v1/cluster/reservation/submit?user.name=alice", json=body)
        return answer.status_code

    with ThreadPoolExecutor(6) as pool:
        statuses = list(pool.map(send, range(6)))

    assert sorted(statuses) == [202, 400, 400, 400, 400, 400]
    (entry,) = listed(yarn)
    asked = entry["reservation-definition"]["reservation-requests"]["reservation-request"]
    assert asked["num-containers"] == str(10 + statuses.index(202))
    held = yarn.client.get(f"/v1/reservations/{ID}").get_json()
    assert f", {10 + statuses.index(202)}, " in held["expression"]


def test_one_definition_sent_by_all_is_one_reservation(yarn: Service, open_service: Open) -> None:
    """All are reported that it stands."""
    services = [yarn, open_service(tick_s=0)]

    def send(number: int) -> int:
        client = services[number % 2].app.test_client()
        return client.post(
            "/ws/v1/cluster/reservation/submit?user.name=alice", json=submission()
        ).status_code

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(send, range(6))) == {202}

    assert ids(yarn) == [ID]
    call(yarn, "delete", {"reservation-id": ID})
    assert ids(yarn) == []
