"""Applications and assignments through the API, and the dispatcher behind it."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import pytest

from service.applications import submit
from service.commands import Key
from service.problems import ApiProblemError
from tests.patience import eventually
from tests.service.conftest import Open, Service


@pytest.fixture
def still(open_service: Open) -> Service:
    """Return a service that ticks only when told to."""
    return open_service(tick_s=0)


def _application(core: int = 1, elastic: int = 0, **more: Any) -> dict[str, Any]:
    components = [{"name": "m", "count": core, "resources": {"cpu": 1}}]
    if elastic:
        worker = {"name": "w", "count": elastic, "core": False, "resources": {"cpu": 1}}
        components.append(worker)
    components[0]["core"] = True
    return {"name": "app", "components": components, **more}


def _submit(service: Service, id_: str, application: dict[str, Any], **more: Any) -> Any:
    body = {"id": id_, "application": application, **more}
    return service.client.post("/v1/applications", json=body)


def _shown(service: Service, id_: str) -> dict[str, Any]:
    found: dict[str, Any] = service.client.get(f"/v1/applications/{id_}").get_json()
    return found


def _rows(service: Service, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = service.client.get(f"/v1/assignments{query}").get_json()["rows"]
    return found


def test_an_application_is_taken_dispatched_shown_and_ended(still: Service) -> None:
    """201, then on machines at the next tick, then gone from them after DELETE and a tick."""
    answer = _submit(still, "a", _application(2, 3))
    assert (answer.status_code, answer.headers["Location"]) == (201, "/v1/applications/a")
    assert answer.get_json()["state"] == "queued"
    assert _rows(still) == []
    still.runtime.dispatching.tick()
    still.runtime.dispatching.tick()
    shown = _shown(still, "a")
    assert shown["state"] == "running"
    assert [part["running"] for part in shown["components"]] == [2, 3]
    rows = _rows(still, "?execution=a")
    assert len(rows) == 5
    assert {row["machine"].partition("-")[0] for row in rows} == {"plain"}
    assert still.client.delete("/v1/applications/a").status_code == 202
    assert _shown(still, "a")["state"] == "ending"
    still.runtime.dispatching.tick()
    assert (_shown(still, "a")["state"], _rows(still)) == ("killed", [])


def test_a_reservation_covers_its_application_and_best_effort_makes_way(still: Service) -> None:
    """Ten machines: the guest has all; the reserved one comes and is covered within a tick."""
    _submit(still, "guest", _application(1, 9))
    still.runtime.dispatching.tick()
    still.reserve("r", "window(atom(<1 cpu>, 4, 4, 1m, 4m), 0, 1m)")
    assert _submit(still, "owner", _application(4), reservation="r").status_code == 201
    still.runtime.dispatching.tick()
    rows = _rows(still)
    assert sum(row["execution"] == "owner" and row["covered"] for row in rows) == 4
    assert sum(row["execution"] == "guest" for row in rows) == 6
    still.clock.advance(61)
    still.runtime.dispatching.tick()
    assert not any(row["covered"] for row in _rows(still))


def test_a_batch_application_of_known_size_ends_by_itself(still: Service) -> None:
    """Size 30 s: completed at the first tick after that, with its times."""
    _submit(still, "a", _application(1, size="30s"))
    still.runtime.dispatching.tick()
    still.clock.advance(29)
    still.runtime.dispatching.tick()
    assert _shown(still, "a")["state"] == "running"
    still.clock.advance(2)
    still.runtime.dispatching.tick()
    still.runtime.dispatching.tick()
    shown = _shown(still, "a")
    assert (shown["state"], shown["ended"] - shown["started"]) == ("completed", 30)


def test_the_rest_of_a_reservation_is_given_back_with_its_only_execution(still: Service) -> None:
    """Two minutes are held, the work ends after one: with `close_on_end` the rest is free."""
    for name, close in (("kept", False), ("closed", True)):
        still.reserve(name, "window(atom(<1 cpu>, 2, 2, 4m, 8m), 0, 4m)")
        application = _application(2, size="30s")
        _submit(still, f"a-{name}", application, reservation=name, close_on_end=close)
    still.runtime.dispatching.tick()
    still.clock.advance(65)
    still.runtime.dispatching.tick()
    states = {
        name: still.client.get(f"/v1/reservations/{name}").get_json()["state"]
        for name in ("kept", "closed")
    }
    assert states == {"kept": "active", "closed": "completed"}


def test_what_cannot_be_is_refused_with_its_place(still: Service) -> None:
    """Unknown fields, a component too large, reservations that are not there or not theirs."""
    bad = _submit(still, "a", {"name": "x", "components": [{"name": "m", "cuont": 2}]})
    assert bad.status_code == 400
    pointers = {error["pointer"] for error in bad.get_json()["errors"]}
    assert "/application/components/0/cuont" in pointers
    large = _application()
    large["components"][0]["resources"] = {"cpu": 99}
    refused = _submit(still, "a", large)
    assert refused.status_code == 422
    assert refused.get_json()["errors"][0]["pointer"] == "/application/components/0"
    assert _submit(still, "a", _application(), reservation="none").status_code == 404
    still.reserve("r")
    other = _submit(still, "a", _application(), reservation="r", tenant="other")
    assert other.status_code == 409
    atom = _submit(still, "a", _application(), reservation="r", atom="7")
    assert (atom.status_code, atom.get_json()["errors"][0]["pointer"]) == (404, "/atom")
    assert _submit(still, "a", _application()).status_code == 201
    assert _submit(still, "a", _application()).status_code == 409
    assert still.client.get("/v1/applications/nobody").status_code == 404
    assert still.client.delete("/v1/applications/nobody").status_code == 404


def test_what_could_never_have_an_effect_is_refused_with_its_place(still: Service) -> None:
    """An occurrence, a group or an option that holds nothing, and closing no reservation."""
    atom = "atom(<1 cpu>, 1, 2, 60, 120)"
    still.reserve("r", f"any({atom}, order({atom}, {atom}))")
    for path in ("0@5", "1", "1.0"):
        answer = _submit(still, "a", _application(), reservation="r", atom=path)
        (error,) = answer.get_json()["errors"]
        assert (answer.status_code, error["pointer"]) == (404, "/atom")
        assert error["message"] == f"'r' holds nothing at '{path}'"
        assert "0" in error["fix"]
    inside = _submit(still, "a", _application(reservation="r", atom="7"))
    assert inside.get_json()["errors"][0]["pointer"] == "/application/atom"
    closing = _submit(still, "a", _application(), close_on_end=True)
    assert (closing.status_code, closing.get_json()["errors"][0]["pointer"]) == (
        400,
        "/close_on_end",
    )
    whole = _submit(still, "a", 3)  # type: ignore[arg-type]
    assert whole.get_json()["errors"][0]["pointer"] == "/application"
    assert _submit(still, "a", _application(), reservation="r", atom="0").status_code == 201


def test_a_zapp_is_taken_as_it_is(still: Service) -> None:
    """Format 3, with a core and an elastic part of one service."""
    service = {
        "name": "notebook", "image": "jupyter:1", "monitor": True, "total_count": 3,
        "essential_count": 1, "startup_order": 0, "environment": [], "volumes": [], "ports": [],
        "command": None,
        "resources": {"memory": {"min": 1 << 30, "max": 1 << 30}, "cores": {"min": 1, "max": 1}},
    }  # fmt: skip
    zapp = {"name": "my-notebook", "version": 3, "will_end": False, "size": 5}
    answer = _submit(still, "z", {**zapp, "services": [service]})
    assert answer.status_code == 201, answer.get_json()
    still.runtime.dispatching.tick()
    assert [part["assigned"] for part in _shown(still, "z")["components"]] == [1, 2]


def test_pages_follow_one_another(still: Service) -> None:
    """Five applications in pages of two, filtered by state."""
    for number in range(5):
        _submit(still, f"a{number}", _application())
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
        _submit(first, f"a{number}", _application(2, 1))
    first.runtime.dispatching.tick()
    first.runtime.close()
    second = open_service(tick_s=0)
    assert second.client.delete("/v1/applications/a1").status_code == 202
    second.clock.advance(20)
    second.runtime.dispatching.tick()
    assert {row["execution"] for row in _rows(second)} == {"a0", "a2"}
    assert _shown(second, "a1")["state"] == "killed"
    assert _shown(second, "a0")["submitted"] == 0


def test_one_of_two_processes_dispatches_and_the_other_takes_over(open_service: Open) -> None:
    """Submitted to the second, dispatched by the first; once that is silent, by the second."""
    first, second = open_service(tick_s=0), open_service(tick_s=0)
    _submit(second, "a", _application())
    assert first.runtime.dispatching.tick() is not None
    assert second.runtime.dispatching.tick() is None
    assert len(_rows(second)) == 1
    first.clock.advance(11)
    assert second.runtime.dispatching.tick() is not None
    assert first.runtime.dispatching.tick() is None
    assert _shown(first, "a")["state"] in ("starting", "running")


def test_how_long_a_silent_process_is_waited_for_is_a_setting(open_service: Open) -> None:
    """With a takeover of five seconds the other goes on after six, and not after four."""
    first, second = (open_service(tick_s=0, takeover_s=5.0) for _ in range(2))
    _submit(second, "a", _application())
    assert first.runtime.dispatching.tick() is not None
    first.clock.advance(4)
    assert second.runtime.dispatching.tick() is None
    first.clock.advance(2)
    assert second.runtime.dispatching.tick() is not None


def test_how_long_a_promise_was_not_kept_is_told_when_it_ends(still: Service) -> None:
    """A reservation whose work runs from its first instant on was below for no time."""
    still.reserve("r1", "window(atom(<1 cpu>, 2, 2, 60, 120), +0, +1m)")
    _submit(still, "a", _application(2, reservation="r1"))

    def ended() -> dict[str, float]:
        text = still.client.get("/metrics").get_data(as_text=True)
        lines = [line.split() for line in text.splitlines()]
        name = "agenda_reservation_below_seconds_"
        return {
            one[0].removeprefix(name): float(one[1]) for one in lines if one[0].startswith(name)
        }

    still.runtime.dispatching.tick()
    assert (len(_rows(still)), ended()["count"]) == (2, 0)
    still.clock.advance(121)
    still.runtime.dispatching.tick()
    assert (ended()["count"], ended()["sum"]) == (1, 0)


def test_who_still_loads_its_loops_keeps_nobody_from_dispatching(
    open_service: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease is asked for after the compiled loops are there, or could not be loaded."""
    loading, may_end = threading.Event(), threading.Event()

    def load() -> None:
        loading.set()
        assert may_end.wait(300)
        raise RuntimeError("the cache cannot be written")

    monkeypatch.setattr("service.dispatching.load_kernels", load)
    slow, other = open_service(tick_s=0.05), open_service(tick_s=0)
    try:
        assert loading.wait(300)
        _submit(other, "a", _application())
        assert other.runtime.dispatching.tick() is not None
    finally:
        may_end.set()
    other.runtime.dispatching.close()
    _submit(other, "b", _application())
    eventually(lambda: _shown(slow, "b")["state"], lambda state: state != "queued")


def test_a_machine_taken_by_an_outage_is_left_and_its_work_begins_again(still: Service) -> None:
    """Outages of the Plan are the truth: nothing stays on a machine that is away."""
    _submit(still, "a", _application(10))
    still.runtime.dispatching.tick()
    assert len(_rows(still)) == 10
    cluster = still.client.get("/v1/cluster").get_json()
    cluster["outages"] = [{"machines": "plain", "count": 1, "start": 0, "end": 600}]
    assert still.client.put("/v1/cluster", json=cluster).status_code == 200
    still.runtime.dispatching.tick()
    assert _rows(still) == []
    assert _shown(still, "a")["state"] == "queued"
    still.clock.advance(601)
    still.runtime.dispatching.tick()
    assert len(_rows(still)) == 10


def test_elastic_components_that_no_machine_holds_say_so(still: Service) -> None:
    """They are not wanted, with the reason beside them, and who comes next is not kept waiting."""
    application = _application(1, 50)
    application["components"][1]["labels"] = ["gpu"]
    _submit(still, "a", application)
    _submit(still, "b", _application(1))
    still.runtime.dispatching.tick()
    still.runtime.dispatching.tick()
    worker = _shown(still, "a")["components"][1]
    assert (worker["wanted"], worker["assigned"]) == (0, 0)
    assert worker["reason"] == "'w' is for machines labelled gpu, and there are none"
    assert _shown(still, "b")["state"] == "running"


def test_machines_that_become_smaller_are_left(still: Service) -> None:
    """A machine of ten cores becomes one of four: six components go, the core one stays."""
    cluster = still.client.get("/v1/cluster").get_json()
    for cores, expected in ((10, 10), (4, 4)):
        cluster["machines"][0] |= {"count": 1, "resources": {"cpu": cores}}
        assert still.client.put("/v1/cluster", json=cluster).status_code == 200
        _submit(still, "a", _application(1, 9))
        still.runtime.dispatching.tick()
        still.runtime.dispatching.tick()
        assert (len(_rows(still)), _shown(still, "a")["state"]) == (expected, "running")


def test_times_come_with_the_calendar(still: Service) -> None:
    """Seconds from an origin that only the server knows say nothing to people."""
    still.clock.advance(90)
    _submit(still, "a", _application())
    shown = _shown(still, "a")
    assert (shown["submitted"], shown["submitted_at"]) == (90.0, "2026-01-05T00:01:30Z")
    empty = still.client.get("/v1/assignments").get_json()
    assert (empty["at"], empty["at_calendar"]) == (None, None)
    still.runtime.dispatching.tick()
    found = still.client.get("/v1/assignments").get_json()
    assert (found["at"], found["at_calendar"]) == (90.0, "2026-01-05T00:01:30Z")


def test_the_thread_ticks_by_itself(open_service: Open) -> None:
    """With a tick of 20 ms an application is running without anybody calling."""
    service = open_service(tick_s=0.02)
    _submit(service, "a", _application())
    assert eventually(lambda: _shown(service, "a")["state"], "running".__eq__)


def test_work_above_a_creditable_reservation_gives_the_latest_leases_back(still: Service) -> None:
    """Eight components on an entitlement of four: what they are ahead by is released and free."""
    text = "window(atom(<1 cpu>, 1, 4, 1m, 40m), 0, 10m)"
    for name, creditable in (("kept", False), ("r", True)):
        body = {"id": name, "rdl": text, "creditable": creditable, "agent": "earliest"}
        assert still.client.post("/v1/reservations", json=body).status_code == 201
        if name == "kept":
            still.client.delete("/v1/reservations/kept")
    shown = still.client.get("/v1/reservations/r").get_json()
    assert shown["creditable"] is True
    assert "creditable" not in still.client.get("/v1/reservations/kept").get_json()
    _submit(still, "a", _application(2, 6), reservation="r")
    for _ in range(24):
        still.runtime.dispatching.tick()
        still.clock.advance(10)
    shown = still.client.get("/v1/reservations/r").get_json()
    (atom,) = shown["atoms"]
    work = sum((end - start) * count for start, end, count in atom["released"])
    held = sum((end - start) * count for start, end, count in atom["allocation"])
    assert work + held == 40 * 60
    assert 60 * 8 <= work <= 60 * 16
    assert max(end for _, end, _ in atom["released"]) > max(e for _, e, _ in atom["allocation"])


def test_a_key_submits_an_application_once(still: Service) -> None:
    """Same key and body: the first answer again; another body is 422, and nothing is added."""
    body = {"application": _application(1)}
    headers = {"Idempotency-Key": "k"}
    post = partial(still.client.post, "/v1/applications", headers=headers)
    first, again, other = post(json=body), post(json=body), post(json={**body, "tenant": "b"})

    assert (first.status_code, again.status_code) == (201, 201)
    assert first.get_data() == again.get_data()
    assert first.headers["Location"] == again.headers["Location"]
    assert (other.status_code, other.get_json()["code"]) == (422, "idempotency_mismatch")
    assert len(still.client.get("/v1/applications").get_json()["applications"]) == 1


def test_of_two_submissions_under_a_key_the_later_is_told_the_earlier(still: Service) -> None:
    """A key that another call has stored meanwhile decides, whatever ids the server made."""
    values = {
        "id": None,
        "tenant": "default",
        "reservation": None,
        "atom": None,
        "close_on_end": False,
        "application": _application(1),
    }
    key = Key("k", b"same")
    first = submit(still.runtime, values, key)

    assert submit(still.runtime, values, key) == first
    with pytest.raises(ApiProblemError, match="another request"):
        submit(still.runtime, values, Key("k", b"other"))
    assert len(still.client.get("/v1/applications").get_json()["applications"]) == 1
