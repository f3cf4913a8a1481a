"""Holds: capacity that is kept for a short while, by whom, how long, and what ends it."""

from __future__ import annotations

from typing import Any

import pytest

from service.access.user import Role, User
from service.problems import ApiProblemError
from service.resources import holds
from tests.patience import eventually
from tests.service.conftest import Open, Service
from tests.service.together import in_one_commit

_ALL = "window(atom(<1 cpu>, 10, 10, 3600, 36000), +0, +1h)"
_SMALL = "window(atom(<1 cpu>, 1, 1, 10m, 10m), +1h, +2h)"


def _hold(service: Service, rdl: str = _ALL, **more: Any) -> Any:
    return service.client.post("/v1/holds", json={"rdl": rdl, **more})


def _state(service: Service, id_: str) -> str:
    state: str = service.client.get(f"/v1/reservations/{id_}").get_json()["state"]
    return state


def test_a_hold_keeps_the_capacity(service: Service) -> None:
    """What is held others cannot have; its document says for how long."""
    answer = _hold(service, id="h", time=30)
    assert answer.status_code == 201
    body = answer.get_json()
    assert answer.headers["Location"] == "/v1/holds/h"
    assert body["until"] == 30
    assert service.ask("b", _ALL).status_code == 409
    assert service.client.get("/v1/holds/h").get_json()["reservation"]["id"] == "h"
    assert service.client.get("/v1/reservations/h").get_json()["held_until"] == 30


def test_accepted_it_is_a_reservation_like_others(open_service: Open) -> None:
    """It does not end with its time any more, also after a restart, and its history says it."""
    service = open_service()
    _hold(service, id="h", time=30)
    assert service.client.post("/v1/holds/h/accept").status_code == 200
    service.runtime.close()
    service = open_service()
    service.clock.advance(120)
    service.reserve("later", _SMALL)
    one = service.client.get("/v1/reservations/h").get_json()
    assert one["state"] in ("accepted", "active")
    assert "held_until" not in one
    assert [entry["what"] for entry in one["history"]] == ["admitted", "accepted"]
    assert service.client.post("/v1/holds/h/accept").get_json()["code"] == "wrong_state"


def test_asked_for_as_a_reservation_it_is_none_yet(service: Service) -> None:
    """The same request under its id is 409, not 200: what is held would end by itself."""
    _hold(service, _SMALL, id="h")
    assert service.ask("h", _SMALL).get_json()["code"] == "duplicate_id"
    service.client.post("/v1/holds/h/accept")
    assert service.ask("h", _SMALL).status_code == 200


def test_released_its_capacity_is_free(service: Service) -> None:
    """After DELETE another user can have it."""
    _hold(service, id="h")
    assert service.client.delete("/v1/holds/h").get_json()["state"] == "cancelled"
    assert service.ask("b", _ALL).status_code == 201
    assert service.client.get("/v1/holds/h").status_code == 404


def test_it_ends_by_itself(service: Service) -> None:
    """When its time is over it is cancelled without anybody asking, and cannot be accepted."""
    _hold(service, _SMALL, id="h", time=20)
    service.clock.advance(20)
    assert service.client.post("/v1/holds/h/accept").status_code == 409
    eventually(lambda: _state(service, "h"), lambda state: state == "cancelled")
    told = service.client.get("/v1/reservations/h").get_json()["history"][-1]
    assert "before it was accepted" in told["detail"]


@pytest.mark.parametrize("snapshot", [True, False])
def test_it_ends_by_itself_after_a_restart(open_service: Open, snapshot: bool) -> None:
    """A server that starts after its time releases it, from a snapshot or from the log."""
    service = open_service()
    _hold(service, _SMALL, id="h", time=20)
    if snapshot:
        service.runtime.close()
    service.clock.advance(60)
    other = open_service()
    eventually(lambda: _state(other, "h"), lambda state: state == "cancelled")


def test_another_process_releases_it(open_service: Open) -> None:
    """All processes of a database see holds, and one that did not make it accepts it too."""
    first, second = open_service(), open_service()
    _hold(first, _SMALL, id="h", time=30)
    assert [one["id"] for one in second.client.get("/v1/holds").get_json()["holds"]] == ["h"]
    assert second.client.post("/v1/holds/h/accept").status_code == 200
    assert first.client.get("/v1/holds").get_json()["holds"] == []


def test_it_counts_in_quotas(service: Service, open_service: Open, cluster_file: Any) -> None:
    """What a policy allows of reservations is used by what is held."""
    cluster = service.client.get("/v1/cluster").get_json()
    cluster["policies"] = [{"type": "limits", "name": "one", "tenant": "*", "max_count": 1}]
    assert (
        service.client.put("/v1/cluster", json=cluster, headers={"If-Match": "*"}).status_code
        == 200
    )
    assert _hold(service, _SMALL).status_code == 201
    assert service.ask("b", _SMALL).get_json()["code"] == "count_limit"


def test_a_user_holds_no_more_than_ten(service: Service) -> None:
    """The eleventh is 429; one that is accepted is no hold any more."""
    for number in range(holds.MOST_HOLDS):
        assert _hold(service, _SMALL, id=f"h{number}").status_code == 201
    assert _hold(service, _SMALL).status_code == 429
    service.client.post("/v1/holds/h0/accept")
    assert _hold(service, _SMALL).status_code == 201


def test_many_holds_at_once_are_counted_together(service: Service) -> None:
    """Of calls that one commit takes, no more than may be are granted."""
    told: list[int] = []

    def ask() -> None:
        client = service.app.test_client()
        told.append(client.post("/v1/holds", json={"rdl": _SMALL}).status_code)

    in_one_commit(service, *([ask] * (holds.MOST_HOLDS + 3)))
    assert sorted(told) == [201] * holds.MOST_HOLDS + [429] * 3


@pytest.mark.parametrize("time", [0, 61, "2m", "soon", True])
def test_a_time_out_of_bounds_is_an_error(service: Service, time: object) -> None:
    """Up to 60 seconds, and not nothing."""
    answer = _hold(service, time=time)
    assert (answer.status_code, answer.get_json()["errors"][0]["pointer"]) == (400, "/time")


def test_a_refused_hold_is_not_kept(service: Service) -> None:
    """It says why there is no free capacity; its id is free."""
    service.reserve("a", _ALL)
    assert _hold(service, id="h").get_json()["code"] == "capacity"
    assert service.client.get("/v1/reservations/h").status_code == 404


def test_an_offer_is_held_instead_of_its_refusal(service: Service) -> None:
    """The request of an offer can be held, and accepted then."""
    service.reserve("a", _ALL)
    offer = service.ask("b", _ALL).get_json()["refusal"]["offers"][0]
    held = service.client.post("/v1/holds", json=offer["request"])
    assert held.status_code == 201, held.get_data(as_text=True)
    assert service.client.post("/v1/holds/b/accept").status_code == 200


def test_a_user_sees_and_keeps_its_own(service: Service) -> None:
    """What is held for tenants that a user does not act for is not there for it."""
    _hold(service, _SMALL, id="h", tenant="ads")
    ann = User("ann", Role.USER, frozenset({"ml"}))
    assert holds.list_holds(service.runtime, ann).holds == []
    for call in (holds.get_hold, holds.accept_hold, holds.release_hold):
        with pytest.raises(ApiProblemError, match="not_found"):
            call(service.runtime, "h", ann)
    with pytest.raises(ApiProblemError, match="forbidden"):
        holds.create_hold(service.runtime, ann, holds.HoldRequest(rdl=_SMALL, tenant="ads"))
