"""The outcome of a reservation: renegotiated, closed, cancelled, moved on by the clock."""

from __future__ import annotations

from tests.patience import eventually
from tests.service.conftest import Open, Service

EARLY = "window(atom(<1 cpu>, 10, 10, 600, 6000), +0, +10m)"
LATE = "window(atom(<1 cpu>, 10, 10, 600, 6000), +1h, +70m)"


def if_match(revision: int) -> dict[str, str]:
    """Return the header for a revision."""
    return {"If-Match": f'"{revision}"'}


class TestRenegotiation:
    def test_swaps(self, service: Service) -> None:
        """PUT swaps the allocation, counts the revision up and notes it in the history."""
        service.reserve("r1", LATE)

        answer = service.client.put(
            "/v1/reservations/r1",
            json={"rdl": "window(atom(<1 cpu>, 10, 10, 600, 6000), +2h, +130m)", "weight": 5},
            headers=if_match(1),
        )

        assert answer.status_code == 200
        assert answer.headers["ETag"] == '"2"'
        kept = service.client.get("/v1/reservations/r1").get_json()
        assert kept["atoms"][0]["allocation"] == [[7200, 7800, 10]]
        assert kept["weight"] == 5.0
        assert [entry["what"] for entry in kept["history"]] == ["admitted", "renegotiated"]

    def test_may_use_its_own_capacity(self, service: Service) -> None:
        """A reservation that fills the cluster can be renegotiated to itself."""
        before = service.reserve("r1", LATE)

        answer = service.client.put("/v1/reservations/r1", json={"rdl": LATE}, headers=if_match(1))

        assert answer.status_code == 200
        assert answer.get_json()["atoms"] == before["atoms"]

    def test_swaps_or_leaves_all(self, service: Service) -> None:
        """What does not fit is 409 and the reservation is as it was."""
        service.reserve("r1", LATE)
        service.reserve("r2", EARLY)

        answer = service.client.put("/v1/reservations/r1", json={"rdl": EARLY}, headers=if_match(1))

        assert (answer.status_code, answer.get_json()["code"]) == (409, "capacity")
        kept = service.client.get("/v1/reservations/r1").get_json()
        assert (kept["revision"], kept["atoms"][0]["allocation"]) == (1, [[3600, 4200, 10]])

    def test_asks_for_the_revision(self, service: Service) -> None:
        """Without If-Match it is 428, with an old revision 412, with * it is done."""
        service.reserve("r1", LATE)
        put = "/v1/reservations/r1"

        missing = service.client.put(put, json={"rdl": LATE})
        stale = service.client.put(put, json={"rdl": LATE}, headers=if_match(7))
        strange = service.client.put(put, json={"rdl": LATE}, headers={"If-Match": '"x"'})
        anything = service.client.put(put, json={"rdl": LATE}, headers={"If-Match": "*"})

        codes = [one.get_json()["code"] for one in (missing, stale, strange)]
        assert codes == ["revision_required", "stale_revision", "stale_revision"]
        assert stale.headers["ETag"] == '"1"'
        assert anything.status_code == 200

    def test_needs_a_reservation(self, service: Service) -> None:
        """Nothing can be renegotiated that is not there, or given up."""
        service.reserve("r1", LATE)
        service.client.delete("/v1/reservations/r1")

        gone = service.client.put("/v1/reservations/r1", json={"rdl": LATE}, headers=if_match(2))
        none = service.client.put("/v1/reservations/r2", json={"rdl": LATE}, headers=if_match(1))

        assert (gone.status_code, gone.get_json()["code"]) == (409, "wrong_state")
        assert (none.status_code, none.get_json()["code"]) == (404, "not_found")

    def test_a_refused_one_is_reported_as_refused(self, service: Service) -> None:
        """An id that `GET` shows as refused is no missing one: nothing can be done to it."""
        service.reserve("r1", "window(atom(<1 cpu>, 10, 10, 3h, 30h), +0, +4h)")
        assert (
            service.ask("r2", "window(atom(<1 cpu>, 10, 10, 3h, 30h), +0, +4h)").status_code == 409
        )
        path = "/v1/reservations/r2"

        answers = [
            service.client.put(path, json={"rdl": LATE}, headers=if_match(1)),
            service.client.post(f"{path}/close"),
            service.client.delete(path),
        ]

        assert [one.get_json()["code"] for one in answers] == ["wrong_state"] * 3
        assert all("is refused and cannot be" in one.get_json()["detail"] for one in answers)

    def test_a_started_one_keeps_its_past(self, service: Service) -> None:
        """What has run stays and counts: more work is placed after it, past rows as they were."""
        service.reserve("r1", "window(atom(<1 cpu>, 10, 10, 600, 12000), +0, +20m)")
        service.clock.advance(900)
        longer = "window(atom(<1 cpu>, 10, 10, 600, 18000), +0, +2h)"

        answer = service.client.put(
            "/v1/reservations/r1", json={"rdl": longer}, headers=if_match(1)
        )

        body = answer.get_json()
        assert answer.status_code == 200, body
        rows = body["atoms"][0]["allocation"]
        assert rows[0][0] == 0
        assert sum((end - start) * bundles for start, end, bundles in rows) == 18_000
        assert body["state"] == "active"

    def test_a_started_one_cannot_undo_its_past(self, service: Service) -> None:
        """A request that what has run contradicts is 422 past_changed, and all stays."""
        service.reserve("r1", "window(atom(<1 cpu>, 10, 10, 600, 12000), +0, +20m)")
        service.clock.advance(900)
        other = "window(atom(<500m cpu>, 10, 10, 600, 12000), +0, +2h)"

        answer = service.client.put("/v1/reservations/r1", json={"rdl": other}, headers=if_match(1))

        assert (answer.status_code, answer.get_json()["code"]) == (422, "past_changed")
        kept = service.client.get("/v1/reservations/r1").get_json()
        assert kept["revision"] == 1

    def test_rejects_what_cannot_be_compiled(self, service: Service) -> None:
        """A renegotiation to something malformed points into its body."""
        service.reserve("r1", LATE)

        answer = service.client.put(
            "/v1/reservations/r1", json={"rdl": "atom(", "id": "x"}, headers=if_match(1)
        )

        assert answer.status_code == 400
        assert answer.get_json()["errors"][0]["pointer"] == "/id"


class TestEnding:
    def test_cancelling_releases_the_future(self, service: Service) -> None:
        """DELETE keeps what has run, releases the rest, and another can have it."""
        service.reserve("r1", "window(atom(<1 cpu>, 10, 10, 1200, 12000), +0, +20m)")
        service.clock.advance(600)

        answer = service.client.delete("/v1/reservations/r1", headers=if_match(1))

        body = answer.get_json()
        assert (answer.status_code, body["state"], body["revision"]) == (200, "cancelled", 2)
        assert body["atoms"][0]["allocation"] == [[0, 600, 10]]
        assert body["atoms"][0]["released"] == [[600, 1200, 10]]
        service.reserve("r2", "window(atom(<1 cpu>, 10, 10, 600, 6000), +0, +10m)")

    def test_closing_completes(self, service: Service) -> None:
        """POST close ends a running reservation as completed."""
        service.reserve("r1", "window(atom(<1 cpu>, 10, 10, 1200, 12000), +0, +20m)")
        service.clock.advance(600)

        answer = service.client.post("/v1/reservations/r1/close")

        assert (answer.status_code, answer.get_json()["state"]) == (200, "completed")

    def test_ends_once(self, service: Service) -> None:
        """What is cancelled cannot be cancelled or closed; a stale revision is 412."""
        service.reserve("r1")
        path = "/v1/reservations/r1"
        stale = service.client.delete(path, headers=if_match(3))
        service.client.delete(path)

        twice = service.client.delete(path)
        closed = service.client.post(f"{path}/close")

        assert stale.get_json()["code"] == "stale_revision"
        assert [one.get_json()["code"] for one in (twice, closed)] == ["wrong_state"] * 2
        assert service.client.delete("/v1/reservations/r9").get_json()["code"] == "not_found"


class TestClock:
    def test_moves_states(self, service: Service) -> None:
        """A reservation is accepted, then active, then completed, as the clock continues."""
        service.reserve("r1", LATE)
        states = []
        for minutes in (0, 61, 10):
            service.clock.advance(60 * minutes)
            # Any change lets the Plan's time move on; an idle server does so by itself.
            service.ask(f"tick-{minutes}", "atom(<1 cpu>,1,1,60,60)")
            states.append(service.client.get("/v1/reservations/r1").get_json()["state"])

        assert states == ["accepted", "active", "completed"]

    def test_rolls_the_horizon(self, service: Service) -> None:
        """What lay beyond the horizon can be requested later."""
        far = "window(atom(<1 cpu>, 1, 1, 60, 60), 18000, 19000)"
        assert service.ask("r1", far).get_json()["code"] == "beyond_horizon"

        service.clock.advance(2 * 3600)

        service.reserve("tick", "atom(<1 cpu>,1,1,60,60)")
        service.reserve("r2", far)

    def test_an_idle_server_moves_on(self, service: Service) -> None:
        """States follow the clock although no one asks for anything."""
        service.reserve("r1", LATE)
        service.clock.advance(61 * 60)

        def state() -> str:
            return str(service.client.get("/v1/reservations/r1").get_json()["state"])

        assert eventually(state, "active".__eq__)


class TestRestart:
    def test_keeps_everything(self, open_service: Open) -> None:
        """After a stop and a start every reservation, refusal and version is as it was."""
        one = open_service()
        one.reserve("r1", LATE)
        one.reserve("r2", EARLY)
        one.ask("r3", EARLY)
        one.client.delete("/v1/reservations/r1")
        before = one.client.get("/v1/reservations").get_json()
        plan = one.client.get("/v1/plan").get_json()
        one.runtime.close()

        two = open_service()

        assert two.client.get("/v1/reservations").get_json() == before
        assert two.client.get("/v1/plan").get_json() == plan

    def test_keeps_the_origin(self, open_service: Open) -> None:
        """The origin is the first start, rounded down to a step, for ever; no file is needed."""
        one = open_service()
        origin = one.client.get("/v1/cluster").get_json()["origin"]
        one.runtime.close()
        one.clock.advance(12_345)

        two = open_service(cluster=None)

        assert origin == "2026-01-05T00:00:00Z"
        assert two.client.get("/v1/cluster").get_json()["origin"] == origin
