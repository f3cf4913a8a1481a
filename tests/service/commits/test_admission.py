"""Asking for reservations over HTTP."""

from __future__ import annotations

from tests.service.conftest import Open, Service

WHOLE_CLUSTER = "window(atom(<1 cpu>, 10, 10, 3600, 36000), +0, +1h)"


class TestAdmission:
    def test_promises_what_fits(self, service: Service) -> None:
        """201 carries the reservation as the Plan keeps it, its revision and where it is."""
        answer = service.ask("r1", WHOLE_CLUSTER, tenant="ads", weight=2, priority=3)

        body = answer.get_json()
        assert answer.status_code == 201
        assert answer.headers["ETag"] == '"1"'
        assert answer.headers["Location"] == "/v1/reservations/r1"
        (atom,) = body["atoms"]
        slots = atom["slots"]
        assert atom == {
            "path": "0",
            "bundle": {"cpu": 1, "memory": "4 GiB"},
            "handover": False,
            "allocation": [[0, 3600, 10]],
            "allocation_at": [["2026-01-05T00:00:00Z", "2026-01-05T01:00:00Z"]],
            "slots": slots,
        }
        assert slots == [[0, 3600, 1, f"plain-{machine}"] for machine in range(10)]
        assert body["promise"] == "placed"
        asked = {key: body[key] for key in ("tenant", "queue", "weight", "priority", "state")}
        assert asked == {
            "tenant": "ads",
            "queue": "default",
            "weight": 2.0,
            "priority": 3,
            "state": "accepted",
        }
        assert service.client.get("/v1/reservations/r1").get_json()["atoms"] == body["atoms"]

    def test_makes_an_id(self, service: Service) -> None:
        """Without an id the server makes one, another each time."""
        answers = [
            service.client.post("/v1/reservations", json={"rdl": "atom(<1 cpu>,1,1,60,60)"})
            for _ in range(2)
        ]

        ids = {answer.get_json()["id"] for answer in answers}
        assert len(ids) == 2
        assert all(service.client.get(f"/v1/reservations/{one}").status_code == 200 for one in ids)

    def test_refuses_with_the_limit_that_was_binding(self, service: Service) -> None:
        """A refusal is a problem with the binding, and the Plan keeps it."""
        service.reserve("first", WHOLE_CLUSTER)

        answer = service.ask("second", WHOLE_CLUSTER)

        body = answer.get_json()
        assert answer.status_code == 409
        assert body["code"] == "capacity"
        assert body["refusal"]["id"] == "second"
        assert body["refusal"]["binding"]["resource"] == "cpu"
        kept = service.client.get("/v1/reservations/second").get_json()
        assert (kept["state"], kept["code"]) == ("refused", "capacity")

    def test_takes_json_rdl(self, service: Service) -> None:
        """RDL may come as JSON, and faults in it point into the body."""
        atom = {"bundle": {"cpu": 1}, "min": 1, "max": 2, "lease": "1m", "work": 120}
        assert service.ask("r1", {"atom": atom}).status_code == 201

        answer = service.ask("r2", {"atom": {**atom, "lease": "soon"}})

        assert answer.status_code == 400
        assert answer.get_json()["errors"][0]["pointer"] == "/rdl/atom/lease"

    def test_says_where_text_is_wrong(self, service: Service) -> None:
        """Faults in RDL text carry the span of what is wrong, all at once."""
        answer = service.ask("r1", "all(atom(<1 cpuu>,1,1,60,60), atom(<1 cpu>,2,1,60,60))")

        spans = [error["span"] for error in answer.get_json()["errors"]]
        assert answer.status_code in (400, 422)
        assert len(spans) >= 1
        assert all(span is not None for span in spans)

    def test_refuses_what_no_plan_can_hold(self, service: Service) -> None:
        """A window too short for the work is 422 unsatisfiable, with its span."""
        answer = service.ask("r1", "window(atom(<1 cpu>, 1, 1, 600, 600), +0, +5m)")

        assert (answer.status_code, answer.get_json()["code"]) == (422, "unsatisfiable")

    def test_refuses_what_lies_beyond_the_horizon(self, service: Service) -> None:
        """A window wholly past the horizon is 422 beyond_horizon."""
        answer = service.ask("r1", "window(atom(<1 cpu>, 1, 1, 60, 60), +5h, +6h)")

        assert (answer.status_code, answer.get_json()["code"]) == (422, "beyond_horizon")

    def test_takes_an_id_once(self, service: Service) -> None:
        """A second request of an id is 409 duplicate_id and changes nothing."""
        first = service.reserve("r1")

        answer = service.ask("r1", "atom(<1 cpu>,1,1,60,60)")

        assert (answer.status_code, answer.get_json()["code"]) == (409, "duplicate_id")
        assert answer.get_json()["errors"][0]["pointer"] == "/id"
        kept = service.client.get("/v1/reservations/r1").get_json()
        assert kept["expression"] == first["expression"]

    def test_uses_the_agent_asked_for(self, service: Service) -> None:
        """The named agent places; one that does not exist is named with the nearest."""
        assert service.reserve("r1", agent="gree-l")["agent"] == "gree-l"

        error = service.ask("r2", agent="greel").get_json()["errors"][0]

        assert error["pointer"] == "/agent"
        assert "gree-l" in error["fix"]

    def test_refuses_an_unknown_queue(self, service: Service) -> None:
        """A queue that the cluster lacks is malformed."""
        answer = service.ask("r1", queue="nowhere")

        assert (answer.status_code, answer.get_json()["code"]) == (400, "malformed")
        assert answer.get_json()["errors"][0]["pointer"] == "/queue"

    def test_names_the_nearest_field(self, service: Service) -> None:
        """Every unknown field is an error that names the nearest known one."""
        answer = service.ask("r1", tennant="ads", wieght=2)

        errors = {error["pointer"]: error["fix"] for error in answer.get_json()["errors"]}
        assert errors == {"/tennant": "did you mean 'tenant'?", "/wieght": "did you mean 'weight'?"}

    def test_submits_now(self, service: Service) -> None:
        """A request is submitted when the server's clock says, and nothing lies before that."""
        service.clock.advance(90)

        body = service.reserve("r1", "window(atom(<1 cpu>,10,10,600,6000), +0, +11m)")

        assert body["submitted"] == 90
        assert body["atoms"][0]["allocation"][0][0] >= 120


class TestDryRun:
    def test_answers_and_keeps_nothing(self, service: Service) -> None:
        """A dry run answers 200 as admission would, and the Plan stays at its version."""
        before = service.client.get("/v1/plan").headers["ETag"]

        answer = service.ask("r1", WHOLE_CLUSTER, query="?dry_run=true")

        assert answer.status_code == 200
        assert answer.get_json()["atoms"][0]["allocation"] == [[0, 3600, 10]]
        assert service.client.get("/v1/plan").headers["ETag"] == before
        assert service.client.get("/v1/reservations/r1").status_code == 404

    def test_refuses_as_admission_would(self, service: Service) -> None:
        """A dry run of what does not fit is the same problem, and is not kept."""
        service.reserve("first", WHOLE_CLUSTER)

        answer = service.ask("second", WHOLE_CLUSTER, query="?dry_run=true")

        assert (answer.status_code, answer.get_json()["code"]) == (409, "capacity")
        assert service.client.get("/v1/reservations/second").status_code == 404


class TestIdempotency:
    def test_replays_the_answer(self, service: Service) -> None:
        """The same key and body get the first answer again, and nothing happens twice."""
        key = {"Idempotency-Key": "k1"}
        body = {"rdl": "atom(<1 cpu>,1,1,60,60)"}
        first = service.client.post("/v1/reservations", json=body, headers=key)
        version = service.client.get("/v1/plan").headers["ETag"]

        again = service.client.post("/v1/reservations", json=body, headers=key)

        assert again.status_code == first.status_code == 201
        assert again.get_data() == first.get_data()
        assert again.headers["Location"] == first.headers["Location"]
        assert service.client.get("/v1/plan").headers["ETag"] == version

    def test_replays_a_refusal(self, service: Service) -> None:
        """A refusal is remembered too, with its content type."""
        service.reserve("first", WHOLE_CLUSTER)
        key = {"Idempotency-Key": "k1"}

        answers = [service.ask("second", WHOLE_CLUSTER, headers=key) for _ in range(2)]

        assert [answer.status_code for answer in answers] == [409, 409]
        assert answers[0].get_data() == answers[1].get_data()
        assert answers[1].content_type == "application/problem+json"

    def test_refuses_another_body(self, service: Service) -> None:
        """The same key with another body is 422."""
        key = {"Idempotency-Key": "k1"}
        service.ask("r1", headers=key)

        answer = service.ask("r2", headers=key)

        assert (answer.status_code, answer.get_json()["code"]) == (422, "idempotency_mismatch")

    def test_survives_a_restart(self, open_service: Open) -> None:
        """An answer is remembered by the database, not by the process."""
        key = {"Idempotency-Key": "k1"}
        one = open_service()
        first = one.ask("r1", headers=key)
        one.runtime.close()

        again = open_service().ask("r1", headers=key)

        assert again.get_data() == first.get_data()

    def test_remembers_a_batch(self, service: Service) -> None:
        """A batch under a key is replayed whole, its faults too."""
        key = {"Idempotency-Key": "k1"}
        batch = [{"id": "a", "rdl": "atom(<1 cpu>,1,1,60,60)"}, {"id": "b", "rdl": "nonsense("}]

        answers = [
            service.client.post("/v1/reservations:batch", json=batch, headers=key) for _ in range(2)
        ]

        assert answers[0].get_data() == answers[1].get_data()
        results = answers[0].get_json()["results"]
        assert [one["status"] for one in results] == [201, 400]


class TestBatch:
    def test_answers_each_on_its_own(self, service: Service) -> None:
        """Good, refused and malformed requests get their own status, in order."""
        batch = [
            {"id": "a", "rdl": WHOLE_CLUSTER, "priority": 1},
            {"id": "b", "rdl": WHOLE_CLUSTER},
            {"id": "c", "rdl": "atom("},
            {"id": "d", "rdl": "window(atom(<1 cpu>,1,1,60,60), +1h, +2h)"},
        ]

        answer = service.client.post("/v1/reservations:batch", json=batch)

        results = answer.get_json()["results"]
        assert answer.status_code == 200
        assert [one["status"] for one in results] == [201, 409, 400, 201]
        assert results[2]["body"]["errors"][0]["pointer"] == "/2/rdl"

    def test_reads_ndjson_and_objects(self, service: Service) -> None:
        """NDJSON lines and an object of requests are batches as well."""
        lines = b'{"id":"a","rdl":"atom(<1 cpu>,1,1,60,60)"}\n\n{"id":"b"\n'
        ndjson = service.client.post(
            "/v1/reservations:batch", data=lines, content_type="application/x-ndjson"
        )
        one = {"reservations": [{"id": "c", "rdl": "atom(<1 cpu>,1,1,60,60)"}]}
        wrapped = service.client.post("/v1/reservations:batch", json=one)

        assert [r["status"] for r in ndjson.get_json()["results"]] == [201, 400]
        assert [r["status"] for r in wrapped.get_json()["results"]] == [201]

    def test_admits_all(self, service: Service) -> None:
        """All or nothing: all fit, and the whole batch is one version."""
        half = "window(atom(<1 cpu>, 5, 5, 3600, 18000), +0, +1h)"
        batch = [{"id": "a", "rdl": half}, {"id": "b", "rdl": half}]

        answer = service.client.post("/v1/reservations:batch?atomic=true", json=batch)

        assert answer.status_code == 201
        assert {one["body"]["version"] for one in answer.get_json()["results"]} == {1}

    def test_admits_nothing(self, service: Service) -> None:
        """All or nothing: one that does not fit, and the Plan stays as it was."""
        batch = [{"id": f"r{i}", "rdl": WHOLE_CLUSTER} for i in range(2)]
        before = service.client.get("/v1/plan").headers["ETag"]

        answer = service.client.post("/v1/reservations:batch?atomic=true", json=batch)

        assert (answer.status_code, answer.get_json()["code"]) == (409, "capacity")
        assert service.client.get("/v1/plan").headers["ETag"] == before
        assert service.client.get("/v1/reservations").get_json()["reservations"] == []

    def test_is_bounded(self, open_service: Open) -> None:
        """A batch above the limit is 413, and nothing of it is done."""
        service = open_service(max_batch=2)
        batch = [{"rdl": "atom(<1 cpu>,1,1,60,60)"}] * 3

        answer = service.client.post("/v1/reservations:batch", json=batch)

        assert (answer.status_code, answer.get_json()["code"]) == (413, "too_large")

    def test_rehearses(self, service: Service) -> None:
        """A dry run of a batch changes nothing and answers as the batch would."""
        batch = [{"id": f"r{i}", "rdl": WHOLE_CLUSTER} for i in range(2)]

        answer = service.client.post("/v1/reservations:batch?dry_run=true", json=batch)

        assert sorted(one["status"] for one in answer.get_json()["results"]) == [201, 409]
        assert service.client.get("/v1/reservations").get_json()["reservations"] == []


class TestOffers:
    def test_an_offer_is_accepted(self, service: Service) -> None:
        """What is offered for a refused request is granted when it is sent back."""
        service.reserve("first", WHOLE_CLUSTER)
        asked = {"rdl": WHOLE_CLUSTER, "most": 2}

        body = service.client.post("/v1/offers", json=asked).get_json()

        assert not body["accepted"]
        assert 1 <= len(body["offers"]) <= 2
        assert body["offers"][0]["at_version"] == body["version"] == 1
        service.reserve("second", body["offers"][0]["expression"])

    def test_what_fits_needs_none(self, service: Service) -> None:
        """A request that fits is said to, and nothing is kept of the question."""
        body = service.client.post("/v1/offers", json={"rdl": WHOLE_CLUSTER}).get_json()

        assert (body["accepted"], body["offers"]) == (True, [])
        assert service.client.get("/v1/reservations").get_json()["reservations"] == []
