"""What is asked again: the same request, an offer for a refused one, a change like a POST."""

from __future__ import annotations

from typing import Any

import pytest

from tests.service.conftest import Open, Service

_HOUR = "window(atom(<1 cpu>, 10, 10, 3600, 36000), +0, +1h)"
_SMALL = "window(atom(<1 cpu>, 1, 2, 10m, 20m), +0, +2h)"


def _refused(service: Service) -> dict[str, Any]:
    """Refuse the request `b` for lack of free capacity; return the refusal."""
    service.reserve("a", _HOUR)
    answer = service.ask("b", _HOUR, tenant="ads", weight=2.5)
    assert answer.status_code == 409
    refusal: dict[str, Any] = answer.get_json()["refusal"]
    return refusal


class TestTheSameRequest:
    def test_is_answered_with_what_it_has(self, service: Service) -> None:
        """Again under its id it is 200 with the same reservation, and nothing is changed."""
        first = service.reserve("a", _SMALL, tenant="ads")

        again = service.ask("a", _SMALL, tenant="ads")

        assert again.status_code == 200
        assert again.get_json() == first
        assert again.headers["ETag"] == '"1"'

    def test_written_otherwise_is_the_same(self, service: Service) -> None:
        """Comments and names do not count: the canonical text does."""
        service.reserve("a", _SMALL)
        other = "# nightly\nwindow( atom(<1 cpu>, min=1, max=2, lease=600, work=1200), +0, +120m )"
        assert service.ask("a", other).status_code == 200

    def test_by_another_is_another(self, service: Service) -> None:
        """Another tenant, weight or expression under that id stays 409."""
        service.reserve("a", _SMALL, tenant="ads")
        others = [
            service.ask("a", _SMALL, tenant="ml"),
            service.ask("a", _SMALL, tenant="ads", weight=2),
            service.ask("a", _HOUR, tenant="ads"),
        ]
        assert [one.get_json()["code"] for one in others] == ["duplicate_id"] * 3

    def test_is_known_in_a_batch(self, service: Service) -> None:
        """Each on its own it is 200 alongside the new ones; all or nothing it spoils nothing."""
        service.reserve("a", _SMALL)
        batch = [{"id": id_, "rdl": _SMALL} for id_ in ("a", "b")]
        alone = service.client.post("/v1/reservations:batch", json=batch).get_json()
        assert [one["status"] for one in alone["results"]] == [200, 201]
        batch.append({"id": "c", "rdl": _SMALL})
        whole = service.client.post("/v1/reservations:batch?atomic=true", json=batch)
        assert whole.status_code == 201
        assert [one["status"] for one in whole.get_json()["results"]] == [200, 200, 201]

    def test_that_was_refused_is_judged_again(self, service: Service) -> None:
        """With capacity meanwhile it is accepted; without, the newer refusal is kept alone."""
        _refused(service)
        assert service.ask("b", _HOUR, tenant="ads", weight=2.5).status_code == 409
        listed = service.client.get("/v1/reservations?state=refused").get_json()["reservations"]
        assert [one["id"] for one in listed] == ["b"]
        service.client.delete("/v1/reservations/a")

        assert service.ask("b", _HOUR, tenant="ads", weight=2.5).status_code == 201


class TestAnOffer:
    def test_takes_the_place_of_its_refusal(self, open_service: Open) -> None:
        """Its request is accepted as it is under the refused id; the history says so."""
        service = open_service()
        offer = _refused(service)["offers"][0]
        request = offer["request"]
        assert (request["id"], request["tenant"], request["weight"]) == ("b", "ads", 2.5)

        answer = service.client.post("/v1/reservations", json=request)

        assert answer.status_code == 201, answer.get_data(as_text=True)
        service.runtime.close()
        service = open_service()
        found = service.client.get("/v1/reservations/b").get_json()
        assert found["state"] != "refused"
        told = [entry for entry in found["history"] if entry["what"] == "accepted"]
        assert "an offer" in told[0]["detail"]
        listed = service.client.get("/v1/reservations").get_json()["reservations"]
        assert [one["id"] for one in listed] == ["a", "b"]

    def test_may_be_looked_for_again_later(self, service: Service) -> None:
        """A deadline that is offered later is another instant, and takes its refusal's place."""
        refusal = _refused(service)
        service.clock.advance(600)
        service.reserve("c", "window(atom(<1 cpu>, 10, 10, 3600, 36000), 1h, 2h)")
        asked = {"rdl": refusal["expression"], "tenant": "ads", "weight": 2.5}
        offers = service.client.post("/v1/offers", json=asked).get_json()["offers"]
        assert offers[0]["change"]["kind"] == "deadline"
        assert offers[0]["expression"] != refusal["offers"][0]["expression"]
        taken = service.client.post("/v1/reservations", json={**offers[0]["request"], "id": "b"})
        assert (taken.status_code, taken.get_json()["id"]) == (201, "b")

    def test_is_for_the_tenant_that_was_refused(self, service: Service) -> None:
        """For others the id stays taken, as for an expression that was not offered."""
        request = _refused(service)["offers"][0]["request"]
        other = service.client.post("/v1/reservations", json={**request, "tenant": "ml"})
        assert (other.status_code, other.get_json()["code"]) == (409, "duplicate_id")
        assert service.ask("b", _SMALL, tenant="ads").status_code == 409

    def test_stands_with_its_request_wherever_it_is_shown(self, service: Service) -> None:
        """In the refusal that is kept, and in the answer of the call for offers."""
        _refused(service)
        kept = service.client.get("/v1/reservations/b").get_json()["offers"]
        body = {"rdl": _HOUR, "tenant": "ads"}
        sought = service.client.post("/v1/offers", json=body).get_json()["offers"]
        for offer in (*kept, *sought):
            assert offer["request"]["rdl"] == offer["expression"]
            assert offer["request"]["tenant"] == "ads"


class TestAChange:
    def test_takes_what_a_post_takes(self, service: Service) -> None:
        """The body of the POST is taken as it is, with another expression or weight."""
        body = {"id": "a", "tenant": "ads", "queue": "default", "weight": 2, "priority": 1}
        body |= {"rdl": _SMALL, "agent": "gree"}
        assert service.client.post("/v1/reservations", json=body).status_code == 201
        changed = {**body, "weight": 3, "rdl": _SMALL.replace("20m", "40m")}
        answer = service.client.put("/v1/reservations/a", json=changed, headers={"If-Match": '"1"'})
        assert answer.status_code == 200, answer.get_data(as_text=True)
        assert answer.get_json()["weight"] == 3

    def test_keeps_whose_it_is(self, service: Service) -> None:
        """Another id, tenant or queue is an error at its place."""
        service.reserve("a", _SMALL)
        body = {"id": "b", "tenant": "ads", "queue": "other", "rdl": _SMALL}
        answer = service.client.put("/v1/reservations/a", json=body, headers={"If-Match": "*"})
        assert answer.status_code == 400
        pointers = [error["pointer"] for error in answer.get_json()["errors"]]
        assert pointers == ["/id", "/tenant", "/queue"]

    def test_can_be_tried(self, service: Service) -> None:
        """A dry run answers as the change would, revision included, and changes nothing."""
        service.reserve("a", _SMALL)
        body, meant = {"rdl": _SMALL.replace("20m", "40m")}, {"If-Match": '"1"'}
        path = "/v1/reservations/a"
        tried = service.client.put(f"{path}?dry_run=true", json=body, headers=meant)
        stale = service.client.put(f"{path}?dry_run=true", json=body, headers={"If-Match": '"7"'})
        before = service.client.get(path)
        made = service.client.put(path, json=body, headers=meant)
        assert (tried.status_code, stale.status_code, made.status_code) == (200, 412, 200)
        assert before.headers["ETag"] == '"1"'
        assert tried.headers["ETag"] == made.headers["ETag"] == '"2"'
        assert tried.get_json()["atoms"] == made.get_json()["atoms"]

    def test_that_has_no_free_capacity_is_reported_by_a_dry_run(self, service: Service) -> None:
        """What a change would be refused for, its dry run says."""
        service.reserve("a", _SMALL)
        service.reserve("b", "window(atom(<1 cpu>, 8, 8, 3600, 28800), +0, +1h)")
        body, meant = {"rdl": _HOUR}, {"If-Match": "*"}
        tried = service.client.put("/v1/reservations/a?dry_run=true", json=body, headers=meant)
        assert (tried.status_code, tried.get_json()["code"]) == (409, "capacity")


def test_a_reservation_tells_its_times(service: Service) -> None:
    """Begin, finish and window stand in its document and in the list, and dates in its history."""
    service.reserve("a", "window(atom(<1 cpu>, 1, 1, 10m, 10m), 30m, 90m)")
    one = service.client.get("/v1/reservations/a").get_json()
    listed = service.client.get("/v1/reservations").get_json()["reservations"][0]
    rows = one["atoms"][0]["allocation"]
    assert (one["begin"], one["finish"]) == (rows[0][0], rows[-1][1])
    assert one["window"] == listed["window"] == [1800, 5400]
    assert one["history"][0]["at_at"] == "2026-01-05T00:00:00Z"


TIMES = ("begin", "begin_at", "finish", "finish_at", "window")


@pytest.mark.parametrize(
    "rdl",
    [
        "window(atom(<1 cpu>, 1, 1, 10m, 10m), 30m, 90m)",
        "atom(<1 cpu>, 1, 1, 10m, 10m)",
        "every(1h, window(atom(<1 cpu>, 1, 1, 10m, 10m), 0, 20m))",
        "window(any(atom(<9 cpu>, 1, 9, 10m, 90m), atom(<1 cpu>, 1, 1, 10m, 10m)), +10m, +3h)",
    ],
)
def test_every_answer_tells_the_times(service: Service, rdl: str) -> None:
    """Of POST, a batch, PUT, the same again, dry runs and a change of state: as they are read."""
    client = service.client

    def read(id_: str) -> dict[str, Any]:
        body = client.get(f"/v1/reservations/{id_}").get_json()
        return {name: body[name] for name in TIMES}

    def told(answer: Any) -> dict[str, Any]:
        assert answer.status_code < 300, answer.get_data(as_text=True)
        return {name: answer.get_json()[name] for name in TIMES}

    tried = client.post("/v1/reservations?dry_run=true", json={"id": "a", "rdl": rdl})
    made = client.post("/v1/reservations", json={"id": "a", "rdl": rdl})
    again = client.post("/v1/reservations", json={"id": "a", "rdl": rdl})
    assert told(tried) == told(made) == told(again) == read("a")
    (one,) = client.post("/v1/reservations:batch", json=[{"id": "b", "rdl": rdl}]).get_json()[
        "results"
    ]
    assert {name: one["body"][name] for name in TIMES} == read("b")
    anything = {"If-Match": "*"}
    changed = client.put("/v1/reservations/a", json={"rdl": _SMALL}, headers=anything)
    assert told(changed) == read("a")
    assert told(client.delete("/v1/reservations/a")) == read("a")
