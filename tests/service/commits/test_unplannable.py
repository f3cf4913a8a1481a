"""A cluster that cannot be planned on is refused; a record that fails can be left out."""

from __future__ import annotations

import copy
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest

from planner.cluster import cost
from service.config import ConfigError
from service.store import LogEntry, Store
from tests.service.conftest import Open, Service

Document = dict[str, Any]


def _cluster(service: Service) -> Document:
    document: Document = service.client.get("/v1/cluster").get_json()
    return document


def _labelled(document: Document, count: int, horizon: object) -> Document:
    """Return a description with this many labelled groups more, and another horizon."""
    wanted = copy.deepcopy(document)
    wanted["horizon"] = horizon
    for number in range(count):
        group = {"name": f"l{number}", "count": 1, "labels": [f"x{number}"]}
        wanted["machines"].append(group | {"resources": {"cpu": 1}})
    return wanted


def test_a_cluster_too_large_to_plan_is_refused_and_nothing_is_lost(service: Service) -> None:
    """What locked a server up for good is 422 now, says what is too much, and changes nothing."""
    service.reserve("a")
    before = _cluster(service)
    answer = service.client.put(
        "/v1/cluster", json=_labelled(before, 30, 60 * 49_000_000), headers={"If-Match": "*"}
    )
    assert answer.status_code == 422, answer.get_data(as_text=True)
    body = answer.get_json()
    assert (body["code"], body["errors"][0]["pointer"]) == ("unplannable_cluster", "/horizon")
    assert "rows of the profile" in body["detail"]
    assert "steps are right" in body["errors"][0]["fix"]
    assert _cluster(service) == before
    service.reserve("b")


def test_ten_million_machines_are_refused(service: Service) -> None:
    """Nobody can dispatch to so many: the dispatcher would go without a tick for a minute."""
    wanted = _cluster(service)
    wanted["machines"][0]["count"] = 10_000_000
    answer = service.client.put("/v1/cluster", json=wanted, headers={"If-Match": "*"})
    assert (answer.status_code, answer.get_json()["code"]) == (422, "unplannable_cluster")
    assert answer.get_json()["errors"][0]["pointer"] == "/machines"


def test_an_outage_that_costs_too_much_is_refused(
    open_service: Open, cluster_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two outages of most machines that are followed: the second would name more than are."""
    monkeypatch.setattr(cost, "MOST_AWAY", 10_000)
    cluster_file.write_text(cluster_file.read_text().replace("count = 10", "count = 6000"))
    service = open_service(tick_s=0)
    asked = {"machines": "plain", "count": 6_000, "end": "+2h"}
    assert service.client.post("/v1/cluster/outages", json=asked).status_code == 201
    for query in ("?dry_run=true", ""):
        again = service.client.post(f"/v1/cluster/outages{query}", json={**asked, "end": "+3h"})
        assert (again.status_code, again.get_json()["code"]) == (422, "unplannable_cluster")
    assert len(_cluster(service)["outages"]) == 1


def test_what_the_limits_miss_fails_on_a_copy(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error while a copy of the Plan goes on with the cluster is told; the log has no record."""
    version = service.client.get("/v1/plan").get_json()["version"]
    wanted = _labelled(_cluster(service), 3, 3600)

    def out_of_memory(*_: object) -> None:
        raise MemoryError("no capacity for the profile")

    with monkeypatch.context() as patch:
        patch.setattr("service.commits.cluster_changes.PlanFollower", out_of_memory)
        answer = service.client.put("/v1/cluster", json=wanted, headers={"If-Match": "*"})
    assert (answer.status_code, answer.get_json()["code"]) == (422, "unplannable_cluster")
    assert "MemoryError: no capacity for the profile" in answer.get_json()["detail"]
    assert service.client.get("/v1/plan").get_json()["version"] == version
    assert (
        service.client.put("/v1/cluster", json=wanted, headers={"If-Match": "*"}).status_code == 200
    )


def _append(url: str, changes: list[Document]) -> int:
    """Append a record as a process of an older version might have; return its version."""
    store = Store(url)
    version = (store.tail(0) or [])[-1].version + 1
    body = {"version": version, "at_ms": 0, "changes": changes}
    store.append([LogEntry(version, 0, msgspec.json.encode(body))])
    store.close()
    return version


def _poisoned(open_service: Open) -> tuple[str, Document, int]:
    """Reserve "a", then append a cluster and a horizon that no machine has the memory for."""
    one = open_service(snapshot_every=10_000)
    one.reserve("a")
    url, before = one.runtime.config.database, _cluster(one)
    one.runtime._replica.keep_snapshot = lambda _: None  # type: ignore[method-assign]
    one.runtime.close()
    wanted = _labelled(before, 30, 60 * 49_000_000) | {"prices": []}
    poison = _append(url, [{"op": "cluster", "cluster": wanted}])
    _append(url, [{"op": "advance", "now_step": 1, "horizon": 49_000_001}])
    return url, before, poison


def test_a_record_that_cannot_be_replayed_is_named_and_can_be_left_out(
    open_service: Open,
    cluster_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Clients and the log are told which; without it all else is there, for later starts too."""
    monkeypatch.setattr("service.commits.replay._memory_bytes", lambda: 8 * 2**30)
    url, before, poison = _poisoned(open_service)
    with pytest.raises(RuntimeError, match="could not be replayed"):
        open_service(cluster=None)
    said = f"record {poison + 1} of the log cannot be applied"
    advice = f"agenda serve --skip-record {poison} --skip-record {poison + 1}"
    assert said in caplog.text
    assert advice in caplog.text
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        other = open_service(cluster=None, skip_records=(poison, poison + 1))
    assert f"record {poison} is skipped" in caplog.text
    assert _cluster(other) == before
    assert other.client.get("/v1/reservations/a").get_json()["state"] == "accepted"
    other.reserve("b")
    other.runtime.close()
    later = open_service(cluster=None)
    assert later.client.get("/v1/reservations/b").status_code == 200
    store = Store(url)
    kept = store.skipped.record(poison)
    assert kept is not None
    assert msgspec.json.decode(kept)["changes"][0]["op"] == "cluster"
    store.close()


def test_clients_are_notified_which_record_stands_in_the_way(
    service: Service, caplog: pytest.LogCaptureFixture
) -> None:
    """A record that another process appended and this one cannot apply: 503, with its number."""
    service.reserve("a")
    poison = _append(service.runtime.config.database, [{"op": "unheard of"}])
    for path in ("/v1/plan", "/v1/reservations/a"):
        answer = service.client.get(path)
        assert (answer.status_code, answer.get_json()["code"]) == (503, "unavailable")
        assert f"--skip-record {poison}" in answer.get_json()["detail"]
    assert service.ask("b").status_code == 503


def test_only_what_is_in_the_log_can_be_left_out(open_service: Open) -> None:
    """A version that is not there, or that a snapshot holds already, is an error that says so."""
    one = open_service()
    one.reserve("a")
    one.runtime.close()
    with pytest.raises(ConfigError, match="record 1 cannot be skipped: the snapshot of version"):
        open_service(skip_records=(1,))
    with pytest.raises(ConfigError, match="the log has no record 99"):
        open_service(skip_records=(99,))
