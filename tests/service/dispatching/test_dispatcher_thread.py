"""The dispatcher behind the API: who dispatches, when, and on what machines."""

from __future__ import annotations

import logging
import threading

import pytest

from service.store import LeadershipLostError
from tests.patience import eventually
from tests.service.applying import an_application, rows_of, shown_of, submit_one
from tests.service.conftest import Open, Service


def test_one_of_two_processes_dispatches_and_the_other_takes_over(open_service: Open) -> None:
    """Submitted to the second, dispatched by the first; once that is silent, by the second."""
    first, second = open_service(tick_s=0), open_service(tick_s=0)
    submit_one(second, "a", an_application())
    assert first.runtime.dispatcher.tick() is not None
    assert second.runtime.dispatcher.tick() is None
    assert len(rows_of(second)) == 1
    first.clock.advance(11)
    assert second.runtime.dispatcher.tick() is not None
    assert first.runtime.dispatcher.tick() is None
    assert shown_of(first, "a")["state"] in ("starting", "running")


def test_a_tick_that_outlasts_leadership_continues_only_where_no_one_else_leads(
    open_service: Open,
) -> None:
    """Left alone, a process renews in the middle of its tick; else it does nothing more."""
    first, second = (open_service(tick_s=0).runtime.dispatcher for _ in range(2))
    clock = open_service(tick_s=0).clock
    first.tick()
    clock.advance(11)
    assert not first.leads()
    assert first._still_leads()
    assert first.leads()
    clock.advance(11)
    second.tick()
    assert not first._still_leads()
    clock.advance(11)
    assert not first._still_leads()
    assert not first.leads()


def test_who_leads_is_recorded(
    open_service: Open, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line where a process begins to lead, and one where it cannot renew that in time."""
    monkeypatch.setattr(logging.getLogger("agenda"), "propagate", True)
    caplog.set_level(logging.INFO, "agenda.service")
    service = open_service(tick_s=0)
    dispatcher = service.runtime.dispatcher
    dispatcher.tick()
    dispatcher.tick()
    assert [m for m in caplog.messages if "leads" in m] == [
        "this process leads the dispatch (tenure 1)"
    ]

    dispatcher._let_leadership_lapse()
    assert dispatcher.leads()
    service.clock.advance(60)
    dispatcher._let_leadership_lapse()  # as after a tick that the database did not answer

    assert caplog.messages[-1] == "this process no longer leads the dispatch (tenure 1)"
    assert "agenda_leads 0.0" in service.runtime.telemetry.exposition().decode()


def test_how_long_a_silent_process_is_waited_for_is_a_setting(open_service: Open) -> None:
    """With a takeover of five seconds the other continues after six, and not after four."""
    first, second = (open_service(tick_s=0, takeover_s=5.0) for _ in range(2))
    submit_one(second, "a", an_application())
    assert first.runtime.dispatcher.tick() is not None
    first.clock.advance(4)
    assert second.runtime.dispatcher.tick() is None
    first.clock.advance(2)
    assert second.runtime.dispatcher.tick() is not None


def test_how_long_a_promise_was_not_kept_is_reported_when_it_ends(still: Service) -> None:
    """A reservation whose work runs from its first instant on was below for no time."""
    still.reserve("r1", "window(atom(<1 cpu>, 2, 2, 60, 120), +0, +1m)")
    submit_one(still, "a", an_application(2, reservation="r1"))

    def ended() -> dict[str, float]:
        text = still.client.get("/metrics").get_data(as_text=True)
        lines = [line.split() for line in text.splitlines()]
        name = "agenda_reservation_below_seconds_"
        return {
            one[0].removeprefix(name): float(one[1]) for one in lines if one[0].startswith(name)
        }

    still.runtime.dispatcher.tick()
    assert (len(rows_of(still)), ended()["count"]) == (2, 0)
    still.clock.advance(121)
    still.runtime.dispatcher.tick()
    assert (ended()["count"], ended()["sum"]) == (1, 0)


def test_who_still_loads_its_loops_keeps_no_one_from_dispatching(
    open_service: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leadership is requested after the kernels are loaded, or could not be."""
    loading, may_end = threading.Event(), threading.Event()

    def load() -> None:
        loading.set()
        assert may_end.wait(300)
        raise RuntimeError("the cache cannot be written")

    monkeypatch.setattr("service.dispatching.dispatcher_thread.load_kernels", load)
    slow, other = open_service(tick_s=0.05), open_service(tick_s=0)
    try:
        assert loading.wait(300)
        submit_one(other, "a", an_application())
        assert other.runtime.dispatcher.tick() is not None
    finally:
        may_end.set()
    other.runtime.dispatcher.close()
    submit_one(other, "b", an_application())
    eventually(lambda: shown_of(slow, "b")["state"], lambda state: state != "queued")


def test_a_stop_does_not_wait_for_kernels_and_no_tick_follows_it(
    open_service: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where kernels are new they compile for a minute; a supervisor kills who stops so long."""
    loading, may_end = threading.Event(), threading.Event()

    def load() -> None:
        loading.set()
        assert may_end.wait(300)

    monkeypatch.setattr("service.dispatching.dispatcher_thread.load_kernels", load)
    service = open_service(tick_s=0.05)
    thread = service.runtime.dispatcher._thread
    assert loading.wait(300)
    submit_one(service, "a", an_application())
    service.runtime.dispatcher.close()
    assert thread.is_alive()
    may_end.set()
    thread.join(300)
    assert not thread.is_alive()
    assert shown_of(service, "a")["state"] == "queued"


def test_a_machine_taken_by_an_outage_is_left_and_its_work_begins_again(still: Service) -> None:
    """Outages of the Plan are the truth: nothing stays on a machine that is down."""
    submit_one(still, "a", an_application(10))
    still.runtime.dispatcher.tick()
    assert len(rows_of(still)) == 10
    cluster = still.client.get("/v1/cluster").get_json()
    cluster["outages"] = [{"machines": "plain", "count": 1, "start": 0, "end": 600}]
    assert (
        still.client.put("/v1/cluster", json=cluster, headers={"If-Match": "*"}).status_code == 200
    )
    still.runtime.dispatcher.tick()
    assert rows_of(still) == []
    assert shown_of(still, "a")["state"] == "queued"
    still.clock.advance(601)
    still.runtime.dispatcher.tick()
    assert len(rows_of(still)) == 10


def test_elastic_components_that_no_machine_holds_say_so(still: Service) -> None:
    """They are not wanted, with the reason beside them, and who comes next is not kept waiting."""
    application = an_application(1, 50)
    application["components"][1]["labels"] = ["gpu"]
    submit_one(still, "a", application)
    submit_one(still, "b", an_application(1))
    still.runtime.dispatcher.tick()
    still.runtime.dispatcher.tick()
    worker = shown_of(still, "a")["components"][1]
    assert (worker["wanted"], worker["assigned"]) == (0, 0)
    assert worker["reason"] == "'w' is for machines labelled gpu, and there are none"
    assert shown_of(still, "b")["state"] == "running"


def test_machines_that_become_smaller_are_left(still: Service) -> None:
    """A machine of ten cores becomes one of four: six components go, the core one stays."""
    cluster = still.client.get("/v1/cluster").get_json()
    for cores, expected in ((10, 10), (4, 4)):
        cluster["machines"][0] |= {"count": 1, "resources": {"cpu": cores}}
        assert (
            still.client.put("/v1/cluster", json=cluster, headers={"If-Match": "*"}).status_code
            == 200
        )
        submit_one(still, "a", an_application(1, 9))
        still.runtime.dispatcher.tick()
        still.runtime.dispatcher.tick()
        assert (len(rows_of(still)), shown_of(still, "a")["state"]) == (expected, "running")


def test_the_thread_ticks_by_itself(open_service: Open) -> None:
    """With a tick of 20 ms an application is running without anybody calling."""
    service = open_service(tick_s=0.02)
    submit_one(service, "a", an_application())
    assert eventually(lambda: shown_of(service, "a")["state"], "running".__eq__)


def test_work_above_a_reservation_gives_the_latest_leases_back(still: Service) -> None:
    """Eight components on an entitlement of four: what they are ahead by is released and free."""
    text = "window(atom(<1 cpu>, 1, 4, 1m, 40m), 0, 10m)"
    body = {"id": "r", "rdl": text, "agent": "earliest"}
    assert still.client.post("/v1/reservations", json=body).status_code == 201
    submit_one(still, "a", an_application(2, 6), reservation="r")
    for _ in range(24):
        still.runtime.dispatcher.tick()
        still.clock.advance(10)
    shown = still.client.get("/v1/reservations/r").get_json()
    (atom,) = shown["atoms"]
    work = sum((end - start) * count for start, end, count in atom["released"])
    held = sum((end - start) * count for start, end, count in atom["allocation"])
    assert work + held == 40 * 60
    assert 60 * 4 <= work <= 60 * 12
    assert max(end for _, end, _ in atom["released"]) > max(e for _, e, _ in atom["allocation"])


def test_a_leader_of_before_gives_nothing_back(open_service: Open) -> None:
    """What it wanted to close stays as it is once another process has led."""
    first, second = open_service(tick_s=0), open_service(tick_s=0)
    first.reserve("r")
    submit_one(first, "a", an_application())
    first.runtime.dispatcher.tick()
    releaser, tenure = first.runtime.dispatcher._releaser, first.runtime.dispatcher._number
    first.clock.advance(11)
    second.runtime.dispatcher.tick()
    with pytest.raises(LeadershipLostError):
        releaser.close("r", tenure)
    assert first.client.get("/v1/reservations/r").get_json()["revision"] == 1


def _running(service: Service) -> list[str]:
    """Return who has components on machines."""
    return sorted({row["execution"] for row in rows_of(service)})


def test_a_higher_priority_is_served_first_then_interactive_then_the_oldest(still: Service) -> None:
    """All wait for one that fills the cluster; as each ends, the next by rank comes in."""
    submit_one(still, "full", an_application(10))
    still.runtime.dispatcher.tick()
    waiting = {
        "old": an_application(10),
        "low": an_application(10, priority=-1, kind="interactive"),
        "chat": an_application(10, kind="interactive"),
        "high": an_application(10, priority=5),
        "urgent": an_application(10, priority=5, kind="interactive"),
    }
    for id_, application in waiting.items():
        still.clock.advance(1)
        assert submit_one(still, id_, application).status_code == 201
    still.runtime.dispatcher.tick()
    order = _running(still)
    for _ in waiting:
        still.client.delete(f"/v1/applications/{order[-1]}")
        still.runtime.dispatcher.tick()
        still.runtime.dispatcher.tick()
        order += _running(still)
    assert order == ["full", "urgent", "high", "chat", "old", "low"]


def test_who_goes_first_takes_elastic_components_and_leaves_cores(still: Service) -> None:
    """A batch fills the cluster with elastic components; an interactive one need not wait."""
    submit_one(still, "batch", an_application(2, elastic=8))
    still.runtime.dispatcher.tick()
    assert len(rows_of(still)) == 10
    submit_one(still, "more", an_application(4))
    still.runtime.dispatcher.tick()
    assert _running(still) == ["batch"]
    submit_one(still, "chat", an_application(4, kind="interactive"))
    for _ in range(3):
        still.clock.advance(1)
        still.runtime.dispatcher.tick()
    assert "chat" in _running(still)
    parts = {row["component"] for row in rows_of(still) if row["execution"] == "batch"}
    assert "m" in parts
    assert len([row for row in rows_of(still) if row["execution"] == "chat"]) == 4
