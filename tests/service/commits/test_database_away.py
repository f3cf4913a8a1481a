"""The database is full or away: nothing is promised, reads continue, and it heals by itself."""

from __future__ import annotations

import io
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from service.commits.planner import Planner
from service.dispatching.dispatcher_thread import DispatcherThread
from service.logs import begin_log
from service.store import Store
from service.store.engine import UnavailableError
from tests.patience import eventually
from tests.service.conftest import Open, Service

SMALL = "window(atom(<1 cpu>, 1, 1, 60, 60), +0, +1h)"


@contextmanager
def full_disk(service: Service) -> Iterator[None]:
    """Let SQLite find no capacity for a page more than it has."""
    engine, driver = service.runtime._replica.store._engine, service.runtime._replica.store._driver

    def limit(connection: Any, *_rest: object) -> None:
        connection.execute("PRAGMA max_page_count=1")  # SQLite takes the present count instead

    def free(connection: Any, *_rest: object) -> None:
        connection.execute("PRAGMA max_page_count=1000000")

    sa.event.listen(engine, "checkout", limit)
    driver.close()  # what it keeps is checked out already
    try:
        yield
    finally:
        sa.event.remove(engine, "checkout", limit)
        sa.event.listen(engine, "checkout", free)
        driver.close()


def test_a_full_disk_promises_nothing_and_heals(service: Service) -> None:
    """Changes are 503 with Retry-After, what was answered stays, and capacity is all it takes."""
    with full_disk(service):
        answers = [service.ask(f"a{number}", SMALL) for number in range(40)]
    kept = [number for number, answer in enumerate(answers) if answer.status_code == 201]
    refused = [answer for answer in answers if answer.status_code != 201]

    assert refused
    assert {answer.get_json()["code"] for answer in refused} == {"unavailable"}
    assert all(answer.headers["Retry-After"] for answer in refused)
    shown = service.client.get("/v1/reservations").get_json()["reservations"]
    assert [one["id"] for one in shown] == [f"a{number}" for number in kept]
    assert service.ask("after", SMALL).status_code == 201


def test_readyz_says_that_nothing_can_be_written(service: Service) -> None:
    """After a change that found no room it is 503 with the reason, until there is room again."""
    with full_disk(service):
        numbers = iter(range(100))
        while service.ask(f"a{next(numbers)}", SMALL).status_code == 201:
            assert service.client.get("/readyz").status_code == 200
        answers = [service.client.get("/readyz") for _ in range(2)]
    healed = service.client.get("/readyz")

    assert [answer.status_code for answer in answers] == [503, 503]
    assert answers[1].get_json()["detail"] == (
        "the database accepts no changes: database or disk is full"
    )
    assert (healed.status_code, healed.get_json()) == (200, {"status": "ready"})
    assert service.runtime._replica.store.find_setting("attempt") is None


def test_readyz_finds_out_before_anything_is_written(service: Service) -> None:
    """A server that starts on a full disk is not ready, though no change has failed yet."""
    with full_disk(service):
        assert service.client.get("/readyz").status_code == 503
    assert service.client.get("/readyz").status_code == 200


def test_readyz_is_reported_by_a_change_too(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change that is durable ends the trouble; nothing is attempted then."""
    with full_disk(service):
        numbers = iter(range(100))
        while service.ask(f"a{next(numbers)}", SMALL).status_code == 201:
            pass
    assert service.ask("after", SMALL).status_code == 201

    monkeypatch.setattr(service.runtime.store.write_check, "_write", None)
    assert service.client.get("/readyz").status_code == 200


@pytest.mark.parametrize("path", ["/readyz", "/v1/reservations", "/v1/plan"])
def test_a_silent_database_is_503(
    service: Service, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads that could not show what others answered are 503, and the process is not ready."""

    def tail(_self: Store, _after: int) -> None:
        raise UnavailableError("connection refused")

    monkeypatch.setattr(Store, "tail", tail)
    answer = service.client.get(path)

    assert (answer.status_code, answer.get_json()["code"]) == (503, "unavailable")
    assert service.client.get("/healthz").status_code == 200


def test_a_database_that_goes_away_as_the_server_gets_ready_keeps_no_change_away(
    open_service: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planner's thread outlives it, and plans once the database is back."""
    with monkeypatch.context() as patch:

        def away(*_given: object) -> None:
            raise UnavailableError("connection refused")

        def start(_self: DispatcherThread) -> None:
            """Ready: the dispatcher is the next to be started."""
            patch.setattr(Store, "tail", away)

        patch.setattr(DispatcherThread, "start", start)
        service = open_service()
        eventually(lambda: service.client.get("/readyz").status_code, (503).__eq__)
    eventually(lambda: service.client.get("/readyz").status_code, (200).__eq__)
    service.reserve("a")


def test_a_planner_that_has_ended_is_not_ready(
    open_service: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every call is 503 then, and whoever opened the runtime learns of it once."""

    ready = threading.Event()

    def serve(_self: Planner) -> None:
        ready.wait()
        raise ZeroDivisionError

    monkeypatch.setattr(Planner, "serve", serve)
    service = open_service()
    ready.set()
    answer = eventually(
        lambda: service.client.get("/readyz"), lambda one: bool(one.status_code == 503)
    )
    assert "ZeroDivisionError" in answer.get_json()["detail"]
    assert service.ask("a").status_code == 503
    assert service.client.get("/healthz").status_code == 200


@pytest.mark.parametrize("method", ["open", "write"])
def test_what_runs_continues_where_the_dispatcher_finds_no_database(
    open_service: Open, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """Three failed ticks restart nothing, and what they could not write is written later."""
    service = open_service(tick_s=0.02)
    component = {"name": "m", "core": True, "resources": {"cpu": 1}}

    def submit(id_: str) -> None:
        body = {"id": id_, "application": {"name": "a", "components": [component]}}
        assert service.client.post("/v1/applications", json=body).status_code == 201

    def shown(id_: str) -> dict[str, Any]:
        found: dict[str, Any] = service.client.get(f"/v1/applications/{id_}").get_json()
        return found

    submit("a")
    eventually(lambda: shown("a")["state"], "running".__eq__)
    rows, tries = service.runtime.dispatcher.rows, threading.Semaphore(0)

    def away(*_given: object, **_more: object) -> None:
        tries.release()
        raise UnavailableError("connection refused")

    with monkeypatch.context() as patch:
        patch.setattr(rows, method, away)
        service.clock.advance(5)
        submit("b")
        for _ in range(3):
            assert tries.acquire(timeout=300)
    eventually(lambda: shown("b")["state"], "running".__eq__)
    assert shown("a")["started"] == 0


def test_the_log_tells_it_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unavailable database is no fault of ours: no traceback, which any other fault has."""
    ours = logging.getLogger("agenda")
    monkeypatch.setattr(ours, "handlers", [])
    monkeypatch.setattr(ours, "propagate", True)
    written = io.StringIO()
    monkeypatch.setattr("sys.stderr", written)
    begin_log()
    for failure in (UnavailableError("disk is\nfull"), RuntimeError("broken")):
        try:
            raise failure
        except Exception:
            logging.getLogger("agenda.service").exception("it failed")

    away, fault = written.getvalue().split("it failed\n")[1:]
    assert away.startswith("  the database cannot be used: disk is full\n")
    assert "Traceback" not in away
    assert "Traceback" in fault
    assert "[ERROR]" in away
