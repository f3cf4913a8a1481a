"""Offline optimisation through the API: asked for, watched, applied once, refused with reasons."""

from __future__ import annotations

import contextlib
import signal
from typing import Any

import msgspec
import pytest

from service.jobs.job import OptimizationJob
from service.jobs.runner import Runner
from service.problems import CODES
from service.resources.optimizations import watch_optimization
from service.store import OptimizationRow
from service.store.optimizations import LOST_MS, SILENCE_MS
from service.streaming.live_stream import LiveStream
from tests.patience import eventually
from tests.service.better_plan import found as _found
from tests.service.better_plan import two_in_the_way as _two_in_the_way
from tests.service.conftest import Open, Service

_PATH = "/v1/optimizations"


def _shown(service: Service, id_: str) -> dict[str, Any]:
    body: dict[str, Any] = service.client.get(f"{_PATH}/{id_}").get_json()
    return body


def _wait(service: Service, id_: str, **limit: float) -> dict[str, Any]:
    def over(body: dict[str, Any]) -> bool:
        return body["state"] not in ("running", "stopping")

    return eventually(lambda: _shown(service, id_), over, **limit)


def _wait_for_work(service: Service, id_: str) -> None:
    eventually(lambda: _shown(service, id_), lambda body: "value" in body["progress"])


def test_a_better_plan_is_sought_shown_and_applied(service: Service) -> None:
    """A process of its own finds the plan that holds both; applied, the Plan holds both."""
    _two_in_the_way(service)
    asked = {"time_limit": 20, "work": 60, "admit_refused": True, "frozen_until": "+0"}
    answer = service.client.post(_PATH, json={**asked, "solver": "none"})
    assert answer.status_code == 202
    started = answer.get_json()
    assert answer.headers["Location"] == f"{_PATH}/{started['id']}"
    assert started["state"] == "running"
    assert started["created_at"] == "2026-01-05T00:00:00Z"  # by the Plan's clock, as all is (D12)
    busy = service.client.post(_PATH, json={})
    assert (busy.status_code, busy.get_json()["code"]) == (429, "too_many")
    done = _wait(service, started["id"])
    assert done["state"] == "finished", done
    result, progress = done["result"], done["progress"]
    assert result["admitted"] == result["moved"] == 1
    assert {one["id"]: one["fate"] for one in result["diff"]["requests"]} == {
        "a": "moved", "b": "gained",
    }  # fmt: skip
    assert result["diff"]["counts"]["moved"] == 1
    assert result["diff"]["origin"] == service.runtime.calendar(0)
    for one in result["diff"]["requests"]:
        assert one["tenant"], "the page colours it by tenant"
        after = one["rows"][1]
        assert (after[0][0], after[-1][1]) == (one["start"][1], one["end"][1])
    assert progress["value"] == pytest.approx(result["value"])
    assert [point[1] for point in progress["trace"]] == sorted(p[1] for p in progress["trace"])
    with service.runtime.reading() as plan:
        assert plan.refusal("b") is not None, "nothing changes before it is applied"
    applied = service.client.post(f"{_PATH}/{started['id']}/apply")
    assert applied.status_code == 200, applied.get_data(as_text=True)
    body = applied.get_json()
    assert (body["merged"], body["changed"]) == (False, 2)
    assert service.client.get("/v1/reservations/b").get_json()["state"] == "accepted"
    assert service.client.get(f"{_PATH}/{started['id']}").get_json()["state"] == "applied"
    again = service.client.post(f"{_PATH}/{started['id']}/apply")
    assert again.get_data() == applied.get_data(), "applied once, anyone who asks how often"


def _held(service: Service, *ids: str) -> list[dict[str, Any]]:
    """Return where reservations stand: state and rows."""
    shown = [service.client.get(f"/v1/reservations/{id_}").get_json() for id_ in ids]
    return [{name: one[name] for name in ("state", "agent", "atoms")} for one in shown]


def _undone(service: Service, id_: str) -> tuple[int, dict[str, Any]]:
    answer = service.client.post(f"{_PATH}/{id_}/undo")
    return answer.status_code, answer.get_json()


def test_what_was_applied_is_undone_once(open_service: Open, service: Service) -> None:
    """Back to the rows and machines of before; asked again, here or elsewhere, the same answer."""
    _two_in_the_way(service)
    _a_second_pair(service)
    before = _held(service, "a", "c")
    id_ = _found(service)
    early = _undone(service, id_)
    assert (early[0], early[1]["code"]) == (409, "wrong_state")
    assert service.client.post(f"{_PATH}/{id_}/apply").status_code == 200
    assert _held(service, "a", "c") != before
    status, body = _undone(service, id_)
    assert (status, body["changed"], body["left"]) == (200, 4, [])
    assert _held(service, "a", "c") == before
    states = [service.client.get(f"/v1/reservations/{one}").get_json()["state"] for one in "bd"]
    assert states == ["cancelled", "cancelled"]
    history = service.client.get("/v1/reservations/a").get_json()["history"]
    assert [one["what"] for one in history][-2:] == ["optimized", "moved"]
    shown = _shown(service, id_)
    assert (shown["state"], shown["reason"]) == (
        "undone", f"it was undone in version {body['version']}",
    )  # fmt: skip
    service.reserve("later")
    assert _undone(service, id_) == (status, body)
    assert _undone(open_service(), id_) == (status, body)
    again = service.client.post(f"{_PATH}/{id_}/apply")
    assert (again.status_code, again.get_json()["code"]) == (409, "wrong_state")


def test_an_undo_is_remembered_no_longer_than_other_answers(service: Service) -> None:
    """After that it says that it was undone already."""
    _two_in_the_way(service)
    id_ = _found(service)
    service.client.post(f"{_PATH}/{id_}/apply")
    service.runtime.optimizations.rows.note_outcome(id_, "undone", "long ago")
    status, body = _undone(service, id_)
    assert (status, body["code"]) == (409, "wrong_state")


def test_an_undo_leaves_what_was_changed_or_is_gone(service: Service) -> None:
    """A reservation that was cancelled or renegotiated since stays, and is named with a code."""
    _two_in_the_way(service)
    _a_second_pair(service)
    before = _held(service, "c")
    id_ = _found(service)
    service.client.post(f"{_PATH}/{id_}/apply")
    service.client.delete("/v1/reservations/a")
    smaller = {"rdl": "window(atom(<1 cpu>, 2, 2, 1800, 3600), 40m, 80m)"}
    revision = {"If-Match": '"1"'}
    changed = service.client.put("/v1/reservations/b", json=smaller, headers=revision)
    assert changed.status_code == 200, changed.get_data(as_text=True)
    kept = _held(service, "b")
    status, body = _undone(service, id_)
    assert (status, body["changed"]) == (200, 2)
    assert {one["id"]: one["code"] for one in body["left"]} == {"a": "gone", "b": "changed"}
    assert _held(service, "b", "c") == [*kept, *before]
    assert "2 of 4 changes" in _shown(service, id_)["reason"]


def test_an_undo_leaves_what_has_begun(service: Service) -> None:
    """The first pair has begun, the second has not and goes back."""
    _two_in_the_way(service)
    _a_second_pair(service)
    before = _held(service, "c")
    id_ = _found(service)
    service.client.post(f"{_PATH}/{id_}/apply")
    service.clock.advance(55 * 60)
    status, body = _undone(service, id_)
    assert (status, body["changed"]) == (200, 2)
    assert {one["id"]: one["code"] for one in body["left"]} == {"a": "begun", "b": "begun"}
    assert _held(service, "c") == before


def test_nothing_left_to_undo_is_a_conflict(service: Service) -> None:
    """Where each reservation has begun or is gone: 409, and the optimisation stays applied."""
    _two_in_the_way(service)
    id_ = _found(service)
    service.client.post(f"{_PATH}/{id_}/apply")
    for one in "ab":
        service.client.delete(f"/v1/reservations/{one}")
    status, body = _undone(service, id_)
    assert (status, body["code"]) == (409, "conflict")
    assert [one["pointer"][-1] for one in sorted(body["errors"], key=str)] == ["a", "b"]
    assert _shown(service, id_)["state"] == "applied"


def test_what_is_in_the_way_of_an_undo_is_named(service: Service) -> None:
    """Somebody has the place of before: all stays as it is, and 409 says who and where."""
    _two_in_the_way(service)
    id_ = _found(service)
    service.client.post(f"{_PATH}/{id_}/apply")
    service.reserve("late", "window(atom(<1 cpu>, 3, 3, 600, 1800), 30m, 40m)")
    held = _held(service, "a", "b")
    status, body = _undone(service, id_)
    assert (status, body["code"]) == (409, "conflict")
    assert [(one["pointer"], one["code"]) for one in body["errors"]] == [
        ("/result/diff/requests/a", "capacity")
    ]
    assert "admitted there meanwhile: late" in body["detail"]
    assert _held(service, "a", "b") == held
    assert _shown(service, id_)["state"] == "applied"
    service.client.delete("/v1/reservations/late")
    assert _undone(service, id_)[0] == 200


def test_what_happened_meanwhile_elsewhere_is_merged(service: Service) -> None:
    """A reservation made after it began, somewhere else, does not keep it out."""
    _two_in_the_way(service)
    id_ = _found(service)
    service.reserve("c", "window(atom(<1 cpu>, 1, 1, 60, 60), 3h, 4h)")
    applied = service.client.post(f"{_PATH}/{id_}/apply").get_json()
    assert applied["merged"]
    assert service.client.get("/v1/reservations/b").get_json()["state"] == "accepted"


def test_what_moved_meanwhile_is_reported_and_nothing_is_changed(service: Service) -> None:
    """Where the Plan does not take it any more: 409, who stands in the way, no change at all."""
    _two_in_the_way(service)
    id_ = _found(service)
    service.client.delete("/v1/reservations/a")
    with service.runtime.reading() as plan:
        version = plan.version
    refused = service.client.post(f"{_PATH}/{id_}/apply")
    assert (refused.status_code, refused.get_json()["code"]) == (409, "conflict")
    errors = refused.get_json()["errors"]
    assert [one["pointer"] for one in errors] == ["/result/diff/requests/a"]
    assert errors[0]["message"]
    with service.runtime.reading() as plan:
        assert (plan.version, plan.refusal("b") is not None) == (version, True)
    assert service.client.get(f"{_PATH}/{id_}").get_json()["state"] == "finished"


def _a_second_pair(service: Service) -> None:
    """Two more as in `_two_in_the_way`, two hours later."""
    service.reserve("c", "window(atom(<1 cpu>, 8, 8, 1800, 14400), 150m, 220m)", agent="earliest")
    late = "window(atom(<1 cpu>, 8, 8, 1800, 14400), 160m, 200m)"
    assert service.ask("d", late).status_code == 409


def test_what_still_fits_is_taken_where_that_is_requested(service: Service) -> None:
    """One pair was disturbed by a real post: the other is made, the answer shows who is not."""
    _two_in_the_way(service)
    _a_second_pair(service)
    id_ = _found(service)
    with service.runtime.reading() as plan:
        held = plan.table.holding(0).atoms[0].rows[0].tolist()
    free = 80 if held[1] <= 80 else 30  # `a` is to move where it is not yet
    service.reserve("late", f"window(atom(<1 cpu>, 3, 3, 600, 1800), {free}m, {free + 10}m)")
    whole = service.client.post(f"{_PATH}/{id_}/apply")
    assert (whole.status_code, whole.get_json()["code"]) == (409, "conflict")
    assert "partial=true" in whole.get_json()["detail"]
    answer = service.client.post(f"{_PATH}/{id_}/apply?partial=true")
    assert answer.status_code == 200, answer.get_data(as_text=True)
    body = answer.get_json()
    assert (body["merged"], body["changed"]) == (True, 2)
    assert sorted(one["id"] for one in body["left_out"]) == ["a", "b"]
    assert all(one["code"] and one["detail"] for one in body["left_out"])
    states = [service.client.get(f"/v1/reservations/{one}").get_json()["state"] for one in "abcd"]
    assert states == ["accepted", "refused", "accepted", "accepted"]
    shown = service.client.get(f"{_PATH}/{id_}").get_json()
    assert shown["state"] == "applied"
    assert "2 of 4 changes" in shown["reason"]
    again = service.client.post(f"{_PATH}/{id_}/apply?partial=true")
    assert again.get_data() == answer.get_data(), "applied once, anyone who asks how often"


def test_a_part_of_nothing_is_a_conflict(service: Service) -> None:
    """Where no change fits any more, a partial apply says why and changes nothing."""
    _two_in_the_way(service)
    id_ = _found(service)
    with service.runtime.reading() as plan:
        held = plan.table.holding(0).atoms[0].rows[0].tolist()
    free = 80 if held[1] <= 80 else 30
    service.reserve("late", f"window(atom(<1 cpu>, 3, 3, 600, 1800), {free}m, {free + 10}m)")
    refused = service.client.post(f"{_PATH}/{id_}/apply?partial=true")
    assert (refused.status_code, refused.get_json()["code"]) == (409, "conflict")
    assert len(refused.get_json()["errors"]) == 2
    assert service.client.get(f"{_PATH}/{id_}").get_json()["state"] == "finished"


def test_one_that_runs_is_applied_with_its_best_so_far(service: Service) -> None:
    """Applied in the middle: it stops, and the Plan holds what it had found by then."""
    _two_in_the_way(service)
    asked = {"time_limit": 600, "admit_refused": True, "frozen_until": "+0", "solver": "none"}
    id_ = service.client.post(_PATH, json=asked).get_json()["id"]

    def gained() -> float:
        done = _shown(service, id_)["progress"]
        return float(done["value"] - done["trace"][0][1]) if "value" in done else 0.0

    eventually(gained, lambda more: more > 0.0)
    applied = service.client.post(f"{_PATH}/{id_}/apply")
    assert applied.status_code == 200, applied.get_data(as_text=True)
    assert applied.get_json()["left_out"] == []
    assert service.client.get("/v1/reservations/b").get_json()["state"] == "accepted"


def test_who_came_in_meanwhile_is_named(service: Service) -> None:
    """If another user has the place by now, 409 says who, where and what is short."""
    _two_in_the_way(service)
    id_ = _found(service)
    service.reserve("early", "window(atom(<1 cpu>, 1, 1, 60, 60), 0, 10m)")
    with service.runtime.reading() as plan:
        held = plan.table.holding(0).atoms[0].rows[0].tolist()
    free = 80 if held[1] <= 80 else 30  # `a` is to move where it is not yet
    late = f"window(atom(<1 cpu>, 3, 3, 600, 1800), {free}m, {free + 10}m)"
    service.reserve("late", late)
    refused = service.client.post(f"{_PATH}/{id_}/apply")
    assert refused.status_code == 409
    assert refused.content_type == "application/problem+json"
    detail = refused.get_json()["detail"]
    assert "admitted there meanwhile: late" in detail
    assert "early" not in detail


def test_nothing_that_was_found_is_applied_with_one_answer(service: Service) -> None:
    """Asked again after other changes it is the same answer, version included."""
    service.reserve("a")
    id_ = _found(service)
    first = service.client.post(f"{_PATH}/{id_}/apply").get_json()
    assert first["changed"] == 0
    service.reserve("b")
    assert service.client.post(f"{_PATH}/{id_}/apply").get_json() == first
    status, body = _undone(service, id_)
    assert (status, body["changed"], body["left"]) == (200, 0, [])


def test_another_process_knows_of_it_and_applies_it_once(
    open_service: Open, service: Service
) -> None:
    """What one server process found another shows and applies; the first then repeats it."""
    _two_in_the_way(service)
    id_ = _found(service)
    other = open_service()
    assert other.client.get(f"{_PATH}/{id_}").get_json()["state"] == "finished"
    first = other.client.post(f"{_PATH}/{id_}/apply")
    assert first.status_code == 200
    assert service.client.post(f"{_PATH}/{id_}/apply").get_data() == first.get_data()
    with service.runtime.reading() as plan:
        assert plan.reservation("b") is not None


def test_a_process_that_fell_silent_is_lost_and_says_so(service: Service) -> None:
    """Where no server continues with it, as another one runs; there is nothing to apply."""
    rows, now_ms = service.runtime.optimizations.rows, service.runtime.optimizations.now_ms()
    silent_ms = now_ms - LOST_MS
    rows.add(OptimizationRow("p-other", now_ms, b"{}", now_ms + 600_000), most=9)
    rows.add(OptimizationRow("p-1", silent_ms, b"{}", silent_ms), most=9)
    body = eventually(lambda: _shown(service, "p-1"), lambda body: body["state"] != "running")
    assert (body["state"], body["result"]) == ("lost", None)
    assert "start it again" in body["reason"]
    refused = service.client.post(f"{_PATH}/p-1/apply")
    assert refused.get_json()["code"] == "wrong_state"
    gone = service.client.delete(f"{_PATH}/p-1")
    assert (gone.status_code, gone.get_data()) == (204, b"")
    assert service.client.get(f"{_PATH}/p-1").status_code == 404
    shown = service.client.get(_PATH).get_json()["optimizations"]
    assert [one["id"] for one in shown] == ["p-other"]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"pins": ["zz"]}, "/pins/0"),
        ({"time_limit": "2h"}, "/time_limit"),
        ({"weights": {"churn": -1}}, "/weights"),
        ({"weights": {"chrun": 1}}, "/weights"),
        ({"weights": {"churn": 1}, "lexicographic": True}, "/weights"),
        ({"frozen_until": "+9h"}, "/frozen_until"),
        ({"solver": "gree"}, "/solver"),
        ({"limit": 3}, "/limit"),
    ],
)
def test_what_cannot_be_asked_is_refused_where_it_stands(
    service: Service, body: dict[str, Any], pointer: str
) -> None:
    """One problem, at its place, and nothing is started."""
    answer = service.client.post(_PATH, json=body)
    assert answer.status_code == CODES["malformed"][0]
    assert [one["pointer"] for one in answer.get_json()["errors"]] == [pointer]
    assert service.client.get(_PATH).get_json() == {"optimizations": []}


def _gained(service: Service, id_: str) -> float:
    done = _shown(service, id_)["progress"]
    return float(done["value"] - done["trace"][0][1]) if "value" in done else 0.0


def test_the_next_server_continues_from_the_best_so_far(
    open_service: Open, service: Service
) -> None:
    """Closed in the middle: what was found is kept, and the next start begins with it."""
    _two_in_the_way(service)
    asked = {"time_limit": 600, "admit_refused": True, "frozen_until": "+0", "solver": "none"}
    id_ = service.client.post(_PATH, json=asked).get_json()["id"]
    eventually(lambda: _gained(service, id_), lambda more: more > 0.0)
    service.runtime.close()
    row = service.runtime.optimizations.rows.get(id_)
    assert row is not None
    assert (row.state, row.reason) == ("interrupted", "the server ended: the best so far")
    other = open_service()
    eventually(lambda: _shown(other, id_)["state"], lambda state: state == "running")
    other.client.post(f"{_PATH}/{id_}/stop")
    done = _wait(other, id_)
    assert (done["state"], done["result"]["admitted"]) == ("stopped", 1)
    times = [point[0] for point in done["progress"]["trace"]]
    assert times == sorted(times), "time continues where it stopped"


def test_one_that_was_interrupted_can_be_applied_or_stopped(service: Service) -> None:
    """While no server continues with it: its result counts; stopped, no one continues with it."""
    _two_in_the_way(service)
    id_ = _found(service, state="interrupted", unwanted=True)
    assert _shown(service, id_)["state"] == "interrupted"
    service.client.post(f"{_PATH}/{id_}/stop")
    assert _shown(service, id_)["state"] == "stopped"
    assert service.client.post(f"{_PATH}/{id_}/apply").status_code == 200


def test_a_process_that_dies_is_followed_by_another_not_for_ever(service: Service) -> None:
    """Killed by the system twice, it continues; a third time it is lost, and says why."""
    runner = service.runtime.optimizations
    assert isinstance(runner, Runner)
    asked = {"time_limit": 600, "solver": "none"}
    id_ = service.client.post(_PATH, json=asked).get_json()["id"]
    for deaths in range(3):
        eventually(
            lambda deaths=deaths: _shown(service, id_)["progress"].get("deaths", 0),
            lambda known, deaths=deaths: known == deaths,
        )
        _wait_for_process(service, id_)
        runner.process(id_).kill()
    body = _wait(service, id_, limit_s=SILENCE_MS / 2000)
    assert body["state"] == "lost"
    assert "signal 9, as 2 times before" in body["reason"]


def test_one_whose_process_and_server_were_killed_at_once_continues(service: Service) -> None:
    """As with a container: the server is back before the silence is noticed, and continues then."""
    rows, now_ms = service.runtime.optimizations.rows, service.runtime.optimizations.now_ms()
    document = msgspec.json.encode(OptimizationJob(0, time_s=600.0, solver=""))
    rows.add(OptimizationRow("p-1", now_ms, document, now_ms - SILENCE_MS + 1_000), most=9)
    _wait_for_process(service, "p-1")
    assert _shown(service, "p-1")["progress"]["deaths"] == 1
    service.client.delete(f"{_PATH}/p-1")


def test_one_that_is_killed_when_it_was_to_stop_ends_with_the_best_so_far(service: Service) -> None:
    """What it had kept is its result, as it is of one that stops in peace."""
    _two_in_the_way(service)
    asked = {"time_limit": 600, "admit_refused": True, "frozen_until": "+0", "solver": "none"}
    id_ = service.client.post(_PATH, json=asked).get_json()["id"]
    rows = service.runtime.optimizations.rows

    def kept() -> bytes:
        row = rows.get(id_)
        return b"" if row is None else row.result

    eventually(kept, lambda state: b'"id"' in state)
    process = service.runtime.optimizations.process(id_)
    process.send_signal(signal.SIGSTOP)  # it does not hear of the stop
    service.client.post(f"{_PATH}/{id_}/stop")
    process.kill()
    done = _wait(service, id_)
    assert (done["state"], done["result"]["admitted"]) == ("stopped", 1)


def _wait_for_process(service: Service, id_: str) -> None:
    def known() -> bool:
        with contextlib.suppress(KeyError):
            return service.runtime.optimizations.process(id_).poll() is None
        return False

    eventually(known, bool)


def test_one_that_is_forgotten_while_it_runs_ends(service: Service) -> None:
    """Its process notices and keeps nothing."""
    runner = service.runtime.optimizations
    id_ = service.client.post(_PATH, json={"time_limit": 600, "solver": "none"}).get_json()["id"]
    process = runner.process(id_)
    _wait_for_work(service, id_)
    assert service.client.delete(f"{_PATH}/{id_}").status_code == 204
    assert process.wait(300) == 0
    assert service.client.get(f"{_PATH}/{id_}").status_code == 404


def test_the_end_is_streamed_and_seats_are_released(service: Service) -> None:
    """Of one that is over the stream is its end, without the result; as often as is asked."""
    _two_in_the_way(service)
    id_ = _found(service)
    for _ in range(5):  # more often than there are seats
        answer = service.client.get(f"{_PATH}/{id_}/events")
        assert (answer.status_code, answer.mimetype) == (200, "text/event-stream")
        _, event = [one.splitlines() for one in answer.get_data(as_text=True).split("\n\n") if one]
        answer.close()
        body = msgspec.json.decode(event[1].removeprefix("data: "))
        assert (event[0], body["state"], "result" in body) == ("event: ended", "finished", False)
    assert service.client.get(f"{_PATH}/nope/events").status_code == 404


def _stream(service: Service) -> LiveStream:
    stream = watch_optimization(service.runtime, "p-1").body
    assert isinstance(stream, LiveStream)
    return stream


def test_progress_is_streamed_and_no_more_watch_than_may(open_service: Open) -> None:
    """Every word of its process is an event; a fifth stream is turned away until one is closed."""
    service = open_service(streams=4)
    rows, now_ms = service.runtime.optimizations.rows, service.runtime.optimizations.now_ms()
    rows.add(OptimizationRow("p-1", now_ms, b"{}", now_ms), most=9)
    streams = [_stream(service) for _ in range(4)]
    first = next(streams[0])
    assert first.startswith(b"retry")
    assert b'"running"' in first
    rows.beat("p-1", now_ms + 1, b'{"value":3.5}')
    assert next(streams[0]).startswith(b"event: progress\ndata: ")
    rows.delete("p-1")
    assert next(streams[0]).startswith(b"event: forgotten")
    rows.add(OptimizationRow("p-1", now_ms, b"{}", now_ms), most=9)
    assert service.client.get(f"{_PATH}/p-1/events").get_json()["code"] == "too_many"
    streams[0].close()
    streams[0].close()
    again = _stream(service)
    for one in (*streams, again):
        one.close()


def test_jobs_of_others_are_still_taken_over_after_a_fault(
    open_service: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The thread that looks for them outlives whatever a look raises."""
    monkeypatch.setattr("service.jobs.runner._INHERIT_S", 0.01)
    service = open_service()
    looks: list[str] = []

    def take_over(prefix: str, _now_ms: int) -> None:
        looks.append(prefix)
        raise ZeroDivisionError

    monkeypatch.setattr(service.runtime.optimizations.rows, "take_over", take_over)
    eventually(lambda: len(looks), lambda count: count > 2)
