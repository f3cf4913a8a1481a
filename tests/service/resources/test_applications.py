"""Applications and assignments through the API, and the dispatcher behind it."""

from __future__ import annotations

from functools import partial
from typing import Any

from service.commits.commands import Key
from service.resources.applications import Submission, _submit
from tests.service.applying import an_application, rows_of, shown_of, submit_one
from tests.service.conftest import Open, Service


def test_an_application_is_taken_dispatched_shown_and_ended(still: Service) -> None:
    """201, then on machines at the next tick, then gone from them after DELETE and a tick."""
    answer = submit_one(still, "a", an_application(2, 3))
    assert (answer.status_code, answer.headers["Location"]) == (201, "/v1/applications/a")
    assert answer.get_json()["state"] == "queued"
    assert rows_of(still) == []
    still.runtime.dispatcher.tick()
    still.runtime.dispatcher.tick()
    shown = shown_of(still, "a")
    assert shown["state"] == "running"
    assert [part["running"] for part in shown["components"]] == [2, 3]
    rows = rows_of(still, "?execution=a")
    assert len(rows) == 5
    assert {row["machine"].partition("-")[0] for row in rows} == {"plain"}
    assert still.client.delete("/v1/applications/a").status_code == 202
    assert shown_of(still, "a")["state"] == "ending"
    still.runtime.dispatcher.tick()
    assert (shown_of(still, "a")["state"], rows_of(still)) == ("killed", [])


def test_a_reservation_covers_its_application_and_best_effort_gives_way(still: Service) -> None:
    """Ten machines: the guest has all; the reserved one comes and is covered within a tick."""
    submit_one(still, "guest", an_application(1, 9))
    still.runtime.dispatcher.tick()
    still.reserve("r", "window(atom(<1 cpu>, 4, 4, 1m, 4m), 0, 1m)")
    assert submit_one(still, "owner", an_application(4), reservation="r").status_code == 201
    still.runtime.dispatcher.tick()
    rows = rows_of(still)
    assert sum(row["execution"] == "owner" and row["covered"] for row in rows) == 4
    assert sum(row["execution"] == "guest" for row in rows) == 6
    still.clock.advance(61)
    still.runtime.dispatcher.tick()
    assert not any(row["covered"] for row in rows_of(still))


def test_a_batch_application_of_known_size_ends_by_itself(still: Service) -> None:
    """Size 30 s: completed at the first tick after that, with its times."""
    submit_one(still, "a", an_application(1, size="30s"))
    still.runtime.dispatcher.tick()
    still.clock.advance(29)
    still.runtime.dispatcher.tick()
    assert shown_of(still, "a")["state"] == "running"
    still.clock.advance(2)
    still.runtime.dispatcher.tick()
    still.runtime.dispatcher.tick()
    shown = shown_of(still, "a")
    assert (shown["state"], shown["ended"] - shown["started"]) == ("completed", 30)


def test_the_rest_of_a_reservation_is_released_with_its_only_execution(still: Service) -> None:
    """Two minutes are held, the work ends after one: with `close_on_end` the rest is free."""
    for name, close in (("kept", False), ("closed", True)):
        still.reserve(name, "window(atom(<1 cpu>, 2, 2, 4m, 8m), 0, 4m)")
        application = an_application(2, size="30s")
        submit_one(still, f"a-{name}", application, reservation=name, close_on_end=close)
    still.runtime.dispatcher.tick()
    still.clock.advance(65)
    still.runtime.dispatcher.tick()
    states = {
        name: still.client.get(f"/v1/reservations/{name}").get_json()["state"]
        for name in ("kept", "closed")
    }
    assert states == {"kept": "active", "closed": "completed"}


def test_what_cannot_be_is_refused_with_its_place(still: Service) -> None:
    """Unknown fields, a component too large, reservations that are not there or not theirs."""
    bad = submit_one(still, "a", {"name": "x", "components": [{"name": "m", "cuont": 2}]})
    assert bad.status_code == 400
    pointers = {error["pointer"] for error in bad.get_json()["errors"]}
    assert "/application/components/0/cuont" in pointers
    large = an_application()
    large["components"][0]["resources"] = {"cpu": 99}
    refused = submit_one(still, "a", large)
    assert refused.status_code == 422
    assert refused.get_json()["errors"][0]["pointer"] == "/application/components/0"
    assert submit_one(still, "a", an_application(), reservation="none").status_code == 404
    still.reserve("r")
    other = submit_one(still, "a", an_application(), reservation="r", tenant="other")
    assert other.status_code == 409
    atom = submit_one(still, "a", an_application(), reservation="r", atom="7")
    assert (atom.status_code, atom.get_json()["errors"][0]["pointer"]) == (404, "/atom")
    assert submit_one(still, "a", an_application()).status_code == 201
    assert submit_one(still, "a", an_application()).status_code == 409
    assert still.client.get("/v1/applications/nobody").status_code == 404
    assert still.client.delete("/v1/applications/nobody").status_code == 404


def test_a_stage_is_called_by_its_name_or_its_path(still: Service) -> None:
    """The name that answers use is as good as the path, also of one run of a recurrence."""
    stages = "order(extract: atom(<1 cpu>, 1, 2, 60, 120), train: atom(<1 cpu>, 1, 2, 60, 120))"
    still.reserve("r", stages)
    still.reserve("e", f"every(10m, {stages}, times=2)")
    for id_, name, atom, path in (
        *(("a", "r", "train", "1"), ("b", "r", "1", "1")),
        *(("c", "e", "extract", "0.0"), ("d", "e", "train@1", "0@1.1")),
    ):
        answer = submit_one(still, id_, an_application(), reservation=name, atom=atom)
        assert answer.status_code == 201, answer.get_json()
        kept = still.client.get(f"/v1/applications/{id_}").get_json()
        assert kept["application"]["atom"] == path
    wrong = submit_one(still, "x", an_application(), reservation="r", atom="trian")
    assert "train" in wrong.get_json()["errors"][0]["fix"]


def test_components_name_the_members_of_a_together(still: Service) -> None:
    """By name or path, each within what its application names; each needs slots of its own."""
    both = (
        "order(train: together(driver: atom(<1 cpu, 2 GiB memory>, 1, 1, 60, 60), "
        "workers: atom(<1 cpu>, 2, 2, 60, 120)), publish: atom(<1 cpu>, 1, 1, 60, 60))"
    )
    still.reserve("r", both)

    def parts(driver: str, workers: str = "workers") -> dict[str, Any]:
        return an_application() | {
            "components": [
                {"name": "d", "core": True, "resources": {"cpu": 1}, "atom": driver},
                {"name": "w", "count": 2, "core": True, "resources": {"cpu": 1}, "atom": workers},
            ]
        }

    answer = submit_one(still, "a", parts("driver"), reservation="r", atom="train")
    assert answer.status_code == 201, answer.get_json()
    kept = still.client.get("/v1/applications/a").get_json()["application"]
    assert kept["atom"] == "0"
    assert [one["atom"] for one in kept["components"]] == ["0.0", "0.1"]
    assert submit_one(still, "b", parts("0.0", "0.1"), reservation="r").status_code == 201
    for driver, pointer in (("chauffeur", "/0/atom"), ("publish", "/0/atom"), ("workers", "")):
        answer = submit_one(still, "c", parts(driver), reservation="r", atom="train")
        assert answer.status_code in (404, 409, 422)
        assert answer.get_json()["errors"][0]["pointer"] == f"/application/components{pointer}"
    without = an_application() | {"components": parts("driver")["components"]}
    answer = submit_one(still, "d", without)
    assert answer.get_json()["errors"][0]["pointer"] == "/application/components/0/atom"


def test_what_could_never_have_an_effect_is_refused_with_its_place(still: Service) -> None:
    """An occurrence, a group or an option that holds nothing, and closing no reservation."""
    atom = "atom(<1 cpu>, 1, 2, 60, 120)"
    still.reserve("r", f"any({atom}, order({atom}, {atom}))")
    for path in ("0@5", "1", "1.0"):
        answer = submit_one(still, "a", an_application(), reservation="r", atom=path)
        (error,) = answer.get_json()["errors"]
        assert (answer.status_code, error["pointer"]) == (404, "/atom")
        assert error["message"] == f"'r' has no allocation at '{path}'"
        assert "0" in error["fix"]
    inside = submit_one(still, "a", an_application(reservation="r", atom="7"))
    assert inside.get_json()["errors"][0]["pointer"] == "/application/atom"
    closing = submit_one(still, "a", an_application(), close_on_end=True)
    assert (closing.status_code, closing.get_json()["errors"][0]["pointer"]) == (
        400,
        "/close_on_end",
    )
    whole = submit_one(still, "a", 3)  # type: ignore[arg-type]
    assert whole.get_json()["errors"][0]["pointer"] == "/application"
    assert submit_one(still, "a", an_application(), reservation="r", atom="0").status_code == 201


def test_a_zapp_is_taken_as_it_is(still: Service) -> None:
    """Format 3, with a core and an elastic part of one service."""
    service = {
        "name": "notebook", "image": "jupyter:1", "monitor": True, "total_count": 3,
        "essential_count": 1, "startup_order": 0, "environment": [], "volumes": [], "ports": [],
        "command": None,
        "resources": {"memory": {"min": 1 << 30, "max": 1 << 30}, "cores": {"min": 1, "max": 1}},
    }  # fmt: skip
    zapp = {"name": "my-notebook", "version": 3, "will_end": False, "size": 5}
    answer = submit_one(still, "z", {**zapp, "services": [service]})
    assert answer.status_code == 201, answer.get_json()
    still.runtime.dispatcher.tick()
    assert [part["assigned"] for part in shown_of(still, "z")["components"]] == [1, 2]


def test_pages_follow_one_another(still: Service) -> None:
    """Five applications in pages of two, filtered by state."""
    for number in range(5):
        submit_one(still, f"a{number}", an_application())
        still.clock.advance(1)
    seen, cursor = [], ""
    while True:
        answer = still.client.get(f"/v1/applications?limit=2{cursor}").get_json()
        seen += [one["id"] for one in answer["applications"]]
        if answer["next"] is None:
            break
        cursor = f"&cursor={answer['next']}"
    assert seen == [f"a{number}" for number in range(5)]
    answer = still.client.get("/v1/applications?state=running").get_json()
    assert answer["applications"] == []


def test_applications_survive_a_restart_and_are_dispatched_again(open_service: Open) -> None:
    """What ran is on machines again, what was ended meanwhile is not; order and times stay."""
    first = open_service(tick_s=0)
    for number in range(3):
        submit_one(first, f"a{number}", an_application(2, 1))
    first.runtime.dispatcher.tick()
    first.runtime.close()
    second = open_service(tick_s=0)
    assert second.client.delete("/v1/applications/a1").status_code == 202
    second.clock.advance(20)
    second.runtime.dispatcher.tick()
    assert {row["execution"] for row in rows_of(second)} == {"a0", "a2"}
    assert shown_of(second, "a1")["state"] == "killed"
    assert shown_of(second, "a0")["submitted"] == 0


def test_times_come_with_the_calendar(still: Service) -> None:
    """Seconds from an origin that only the server knows say nothing to people."""
    still.clock.advance(90)
    submit_one(still, "a", an_application())
    shown = shown_of(still, "a")
    assert (shown["submitted"], shown["submitted_at"]) == (90.0, "2026-01-05T00:01:30Z")
    empty = still.client.get("/v1/assignments").get_json()
    assert (empty["at"], empty["at_calendar"]) == (None, None)
    still.runtime.dispatcher.tick()
    found = still.client.get("/v1/assignments").get_json()
    assert (found["at"], found["at_calendar"]) == (90.0, "2026-01-05T00:01:30Z")


def test_a_key_submits_an_application_once(still: Service) -> None:
    """Same key and body: the first answer again; another body is 422, and nothing is added."""
    body = {"application": an_application(1)}
    headers = {"Idempotency-Key": "k"}
    post = partial(still.client.post, "/v1/applications", headers=headers)
    first, again, other = post(json=body), post(json=body), post(json={**body, "tenant": "b"})

    assert (first.status_code, again.status_code) == (201, 201)
    assert first.get_data() == again.get_data()
    assert first.headers["Location"] == again.headers["Location"]
    assert (other.status_code, other.get_json()["code"]) == (422, "idempotency_mismatch")
    assert len(still.client.get("/v1/applications").get_json()["applications"]) == 1


def test_of_two_submissions_under_a_key_the_later_is_reported_the_earlier(still: Service) -> None:
    """A key that another call has stored meanwhile decides, whatever ids the server made."""
    asked = Submission(tenant="default", application=an_application(1))
    key = Key("k", b"same")
    first = _submit(still.runtime, asked, key)

    assert _submit(still.runtime, asked, key) == first
    other = _submit(still.runtime, asked, Key("k", b"other"))
    assert (other.status, b"another request" in other.payload()) == (422, True)
    assert len(still.client.get("/v1/applications").get_json()["applications"]) == 1
