"""Requests that name one id and are carried out in one commit."""

from __future__ import annotations

from collections import Counter

from tests.service.conftest import Open, Service
from tests.service.together import in_one_commit

NARROW = "window(atom(<1 cpu>, 1, 1, 60, 60), +0, +1h)"
WIDE = "window(atom(<1 cpu>, 3, 3, 120, 360), +1h, +2h)"


class TestOneId:
    def test_is_taken_once_in_a_batch(self, service: Service) -> None:
        """Of two requests of one id in a batch the first is promised what it asked, one is 409."""
        batch = [{"id": "a", "rdl": NARROW}, {"id": "a", "rdl": WIDE}]

        answer = service.client.post("/v1/reservations:batch", json=batch)

        assert [one["status"] for one in answer.get_json()["results"]] == [201, 409]
        kept = service.client.get("/v1/reservations/a").get_json()
        assert kept["atoms"][0]["allocation"][0][2] == 1

    def test_spoils_a_batch_of_all_or_nothing(self, service: Service) -> None:
        """Two requests of one id: the batch is 409, and neither it nor its dry run keeps one."""
        batch = [{"id": id_, "rdl": NARROW} for id_ in ("a", "b", "a")]

        for query in ("?atomic=true&dry_run=true", "?atomic=true"):
            answer = service.client.post(f"/v1/reservations:batch{query}", json=batch)

            assert (answer.status_code, answer.get_json()["code"]) == (409, "duplicate_id")
            assert [one["pointer"] for one in answer.get_json()["errors"]] == ["/2/id"]
            assert service.client.get("/v1/reservations").get_json()["reservations"] == []

    def test_is_taken_once_by_clients(self, open_service: Open) -> None:
        """Of clients that ask for two things under one id one has its thing; who asked the same
        is notified, and the others are 409."""
        service = open_service()
        told: list[int] = []

        def ask(rdl: str) -> None:
            told.append(service.ask("a", rdl, agent="gree-l").status_code)

        in_one_commit(service, *(lambda rdl=rdl: ask(rdl) for rdl in (NARROW, WIDE) * 3))

        assert Counter(told) == {201: 1, 200: 2, 409: 3}

    def test_is_renegotiated_in_turn(self, open_service: Open) -> None:
        """Changes of one reservation to different things all succeed, one after the other."""
        service = open_service()
        service.reserve("a", NARROW)
        told: list[int] = []

        def change(rdl: str) -> None:
            client, body = service.app.test_client(), {"rdl": rdl, "agent": "gree-l"}
            answer = client.put("/v1/reservations/a", json=body, headers={"If-Match": "*"})
            told.append(answer.status_code)

        in_one_commit(service, *(lambda rdl=rdl: change(rdl) for rdl in (NARROW, WIDE) * 3))

        assert told == [200] * 6
