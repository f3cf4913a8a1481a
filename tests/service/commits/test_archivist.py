"""What ended long ago leaves the Plan, and is read from the archive."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.plan.plan import Plan
from service.clock import ManualClock
from service.commits.archivist import Archivist
from service.config import ServiceConfig
from service.runtime import open_runtime
from service.store import Store
from tests.databases import KINDS, empty_database
from tests.patience import eventually
from tests.service.conftest import Open, Service

_DAY_S = 86_400

#: Nothing leaves by itself.
_LONG: dict[str, Any] = {"tick_s": 0, "ended_days": 100.0, "refused_days": 100}

#: The whole cluster at once, so that it is refused where anything stands.
_WHOLE = "window(atom(<1 cpu>, 10, 10, 600, 6000), 0, 10m)"


def _archivist(service: Service, **settings: Any) -> Archivist:
    """Return one that keeps what ended for a week; that of the service keeps it for long."""
    runtime = service.runtime
    given: dict[str, Any] = {"ended_days": 7.0, "refused_days": 7, **settings}
    return Archivist(replace(runtime.config, **given), runtime._replica, runtime._clock)


def _plan_of(service: Service) -> Plan:
    with service.runtime.reading() as plan:
        return plan.copy()


def _ids(service: Service, query: str) -> list[str]:
    found: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = service.client.get(f"/v1/reservations?limit=2{query}{cursor and '&cursor='}{cursor}")
        found += [one["id"] for one in page.get_json()["reservations"]]
        cursor = page.get_json()["next"]
    return found


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return the URL of an empty database."""
    with empty_database(request.param, tmp_path) as made:
        yield made


@pytest.fixture
def aged(url: str, open_service: Open) -> Service:
    """Return a service with a reservation, a cancelled one and a refusal of eight days ago."""
    service = open_service(database=url, **_LONG)
    service.reserve("over", tenant="ads")
    service.reserve("given-up", tenant="ml")
    service.client.delete("/v1/reservations/given-up")
    service.reserve("wide", _WHOLE)
    assert service.ask("no-room", _WHOLE).status_code == 409
    _later(service, 8 * _DAY_S)
    return service


def _later(service: Service, seconds: float) -> None:
    """Move the clock on, and the Plan with it; "alive" is there then."""
    service.clock.advance(seconds)
    eventually(lambda: service.ask("alive").status_code, (201).__eq__)


def test_it_leaves_and_is_still_shown(aged: Service) -> None:
    """The same answer as before, with its history; lists by an ended state have it, others not."""
    names = ("over", "given-up", "wide", "no-room")
    before = {name: aged.client.get(f"/v1/reservations/{name}").get_json() for name in names}
    lists = {query: _ids(aged, query) for query in ("&state=completed", "&state=cancelled",
             "&state=refused", "&state=completed&tenant=ads", "&state=completed&to=0",
             "&state=completed&tenant=ml", "&state=completed&from=0&to=3600")}  # fmt: skip

    assert _archivist(aged).run() == 4

    plan = _plan_of(aged)
    assert [one.id for one in plan.reservations()] == ["alive"]
    assert not plan.refusals
    for name in names:
        answer = aged.client.get(f"/v1/reservations/{name}")
        assert answer.get_json() | {"version": 0} == before[name] | {"version": 0}
        assert answer.headers["ETag"] == f'"{before[name].get("revision", 1)}"'
    assert {query: _ids(aged, query) for query in lists} == lists
    assert _ids(aged, "") == ["alive"]
    assert _archivist(aged).run() == 0


def test_lists_tell_the_times_of_what_has_left(aged: Service) -> None:
    """Begin, finish and window stand in a list from the archive as they stood before."""

    def listed() -> dict[str, Any]:
        page = aged.client.get("/v1/reservations?state=completed").get_json()["reservations"]
        return {one["id"]: one for one in page}

    before = listed()
    assert before["over"]["window"] is not None
    assert _archivist(aged).run() == 4
    assert listed() == before


def test_a_tenants_place_stays_where_it_was(aged: Service, url: str, open_service: Open) -> None:
    """Also in a process that starts from a snapshot, though nothing of the tenant is left."""

    def places(service: Service) -> dict[str, int]:
        found = service.client.get("/v1/tenants").get_json()["tenants"]
        return {one["name"]: one["slot"] for one in found}

    before = places(aged)
    assert _archivist(aged).run() == 4
    assert places(aged) == before
    aged.runtime.close()
    assert places(open_service(database=url, **_LONG)) == before


def test_it_stays_while_work_runs_under_it(url: str, open_service: Open) -> None:
    """Else anyone who reserved under its id next would be given another's work."""
    service = open_service(database=url, **_LONG)
    service.reserve("r", tenant="ads")
    part = {"name": "worker", "count": 1, "core": True, "resources": {"cpu": 1}}
    asked = {"id": "a", "tenant": "ads", "reservation": "r",
             "application": {"name": "workers", "components": [part]}}  # fmt: skip
    assert service.client.post("/v1/applications", json=asked).status_code == 201
    _later(service, 8 * _DAY_S)
    assert _archivist(service).run() == 0

    service.client.delete("/v1/applications/a")
    service.runtime.dispatcher.tick()
    assert _archivist(service).run() == 1


def test_every_process_and_every_restart_has_the_same_plan(
    aged: Service, open_service: Open
) -> None:
    """One that follows the log, one that replays it, and one that starts from a snapshot."""
    url = aged.runtime.config.database
    beside = open_service(database=url, **_LONG)
    _archivist(aged).run()
    replayed = open_service(database=url, **_LONG)
    aged.runtime._replica.keep_snapshot(aged.clock.now_ms())
    aged.reserve("more")
    restarted = open_service(database=url, **_LONG)
    plans = [_plan_of(one) for one in (aged, beside, replayed, restarted)]
    shown = [[one.to_json(plan.grid, history=True) for one in plan.reservations()]
             for plan in plans]  # fmt: skip
    assert [one["id"] for one in shown[0]] == ["alive", "more"]
    assert shown[1:] == shown[:1] * 3


def test_a_race_leaves_nothing_twice(aged: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where another process is first nothing is archived; the next look does it once."""
    first, store = _archivist(aged), Store(aged.runtime.config.database)
    append = aged.runtime._replica.store.append

    def overtaken(*entries: Any, **more: Any) -> None:
        monkeypatch.undo()
        _archivist(aged).run()
        append(*entries, **more)

    monkeypatch.setattr(aged.runtime._replica.store, "append", overtaken)
    assert first.run() == 0
    assert first.run() == 0
    assert store.archive.find("over") is not None
    with store._engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM archive").scalar_one() == 4
    store.close()


def test_what_ended_a_moment_ago_stays(service: Service) -> None:
    """Within the retention it is in the Plan, however short it was."""
    service.reserve("over")
    _later(service, 3600)
    assert _archivist(service).run() == 0


def test_the_server_archives_by_itself_and_forgets_in_the_end(open_service: Open) -> None:
    """A tick of the planner lets it leave; when its time in the archive is over it is gone."""
    service = open_service(tick_s=0, ended_days=0.05, archive_days=1)
    service.reserve("over")
    _later(service, 10 * 3600)

    def has_left() -> bool:
        service.clock.advance(61)  # it looks once a minute, and may have before the Plan moved on
        return _plan_of(service).reservation("over") is None

    eventually(has_left)
    assert service.client.get("/v1/reservations/over").status_code == 200
    service.clock.advance(2 * _DAY_S)
    eventually(lambda: service.client.get("/v1/reservations/over").status_code == 404)


def test_settings_that_keep_nothing_are_refused() -> None:
    """A retention is above zero."""
    with pytest.raises(ValueError, match="ended_days"):
        ServiceConfig(ended_days=0.0)


def test_a_plan_without_anything_old_is_left_alone(tmp_path: Any, cluster_file: Any) -> None:
    """An empty Plan gets no record by a look."""
    config = ServiceConfig(database=f"sqlite:///{tmp_path / 'a.db'}", cluster=cluster_file)
    runtime = open_runtime(config, ManualClock())
    runtime.wait_ready(300)
    with runtime.reading() as plan:
        version = plan.version
    assert Archivist(config, runtime._replica, runtime._clock).run() == 0
    with runtime.reading() as plan:
        assert plan.version == version
    runtime.close()


def test_promises_are_counted_in_the_archive_too(aged: Service) -> None:
    """What has left the Plan counts as before, once; refusals are no promises."""
    before = aged.client.get("/v1/promises").get_json()["tenants"]
    assert _archivist(aged).run() == 4
    assert aged.client.get("/v1/promises").get_json()["tenants"] == before
    assert {one["tenant"]: one["promised"] for one in before} == {"ads": 1, "default": 1, "ml": 0}


@pytest.mark.parametrize("by", ["tenant", "queue", "user"])
def test_a_report_counts_the_archive_too(aged: Service, by: str) -> None:
    """Promises, refusals and their core-hours are what they were before they left the Plan."""

    def report() -> Any:
        found = aged.client.get(f"/v1/report?from=0&by={by}").get_json()
        return found["rows"], found["total"]

    before = report()
    assert _archivist(aged).run() == 4
    assert report() == before
    total = before[1]
    assert (total["refused"], total["refused_core_hours"]) == (1, pytest.approx(10 / 6, abs=0.001))
    assert total["promised_core_hours"] > 0
