"""On a Slurm no promise is made before a dispatcher leads that has looked at it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dispatch.backends.slurm.control.errors import SlurmError
from service.dispatching.dispatcher_thread import DispatcherThread
from tests.service.conftest import Open, Service

_ASK = {"rdl": "deadline(atom(<1 cpu>, 1, 1, 1h, 1h), +3h)"}


class _Tenure:
    """A tenure whose Slurm answers when a test says so."""

    has_looked = False

    def __init__(self, number: int) -> None:
        self.number = number

    def tick(self, now_ms: int) -> Any:
        return SimpleNamespace(below=frozenset())

    def close(self) -> None: ...


@pytest.fixture
def on_slurm(open_service: Open, monkeypatch: pytest.MonkeyPatch) -> Service:
    """Return a service on a Slurm, whose ticks a test makes."""
    monkeypatch.setattr(DispatcherThread, "_begin_tenure", lambda self: _Tenure(self._number))
    return open_service(tick_s=0, slurm=Path("slurm.toml"))


def _codes(service: Service) -> tuple[int, int, int]:
    """Return what readiness, a request and its rehearsal are answered."""
    return (
        service.client.get("/readyz").status_code,
        service.client.post("/v1/reservations", json=_ASK).status_code,
        service.client.post("/v1/reservations?dry_run=true", json=_ASK).status_code,
    )


def test_a_server_is_ready_when_its_dispatcher_has_looked_at_slurm(
    on_slurm: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tick before the first answer of Slurm is not enough; one that falls silent later is."""
    assert _codes(on_slurm) == (503, 503, 200)
    on_slurm.runtime.dispatcher.tick()
    assert _codes(on_slurm) == (503, 503, 200)
    monkeypatch.setattr(_Tenure, "has_looked", True)
    on_slurm.runtime.dispatcher.tick()
    assert _codes(on_slurm) == (200, 201, 200)
    monkeypatch.setattr(_Tenure, "has_looked", False)
    on_slurm.runtime.dispatcher.tick()
    assert _codes(on_slurm) == (200, 201, 200)


def test_a_batch_waits_for_it_too(on_slurm: Service) -> None:
    """As one request does."""
    answer = on_slurm.client.post("/v1/reservations:batch", json=[_ASK])
    assert answer.status_code == 503


def test_a_server_is_ready_when_another_process_leads(
    on_slurm: Service, open_service: Open
) -> None:
    """That one has promises carried out."""
    other = open_service(tick_s=0, slurm=Path("slurm.toml"))
    on_slurm.runtime.dispatcher.tick()
    other.runtime.dispatcher.tick()
    assert other.client.get("/readyz").status_code == 200


def test_what_is_waited_for_is_said(on_slurm: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as why Slurm cannot be used."""

    def fail(self: DispatcherThread) -> Any:
        self._closing.set()
        raise SlurmError("no partition agenda")

    monkeypatch.setattr(DispatcherThread, "_begin_tenure", fail)
    on_slurm.runtime.dispatcher._run()
    body = on_slurm.client.get("/readyz").get_json()
    assert "no partition agenda" in body["detail"]


def test_without_a_slurm_nothing_is_waited_for(open_service: Open) -> None:
    """Components of other backends start when there is a leader."""
    assert open_service(tick_s=0).client.get("/readyz").status_code == 200


def test_changes_and_holds_are_promises_too(
    on_slurm: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What holds capacity for a minute is none."""
    monkeypatch.setattr(on_slurm.runtime.dispatcher, "_waits_for", "")
    assert on_slurm.client.post("/v1/reservations", json={**_ASK, "id": "a"}).status_code == 201
    monkeypatch.setattr(on_slurm.runtime.dispatcher, "_waits_for", "Slurm has not answered yet")
    assert on_slurm.client.post("/v1/holds", json={**_ASK, "id": "h"}).status_code == 201
    assert on_slurm.client.post("/v1/holds/h/accept").status_code == 503
    changed = on_slurm.client.put("/v1/reservations/a", json=_ASK, headers={"If-Match": '"1"'})
    assert changed.status_code == 503
