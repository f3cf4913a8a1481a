"""A server's start while its database goes away."""

from __future__ import annotations

import threading

import pytest

from service.app import create_app
from service.commits.replica import open_replica
from service.runtime import Runtime
from service.store.engine import UnavailableError
from service.store.host_clock import HostClock
from tests.service.conftest import Open


def test_a_database_that_is_unavailable_at_the_start(
    open_service: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A server whose database goes away while it replays the Plan answers once it is back."""
    monkeypatch.setattr("service.runtime._NEXT_REPLAY_S", 0.01)
    first = open_service(replay_wait_s=0.0)
    first.reserve("r1")
    config, clock = first.runtime.config, first.clock
    replica = open_replica(config, clock)
    load, looks = replica.store.tail, []

    def away_twice(version: int) -> object:
        looks.append(version)
        if len(looks) <= 2:
            raise UnavailableError("the connection is closed")
        return load(version)

    monkeypatch.setattr(replica.store, "tail", away_twice)
    runtime = Runtime(config, replica, HostClock(clock))
    client = create_app(config, runtime).test_client()
    runtime.start().wait_ready(120)
    answer = client.get("/v1/reservations/r1")
    runtime.close()

    assert answer.get_json()["state"] == "accepted"
    assert caplog.text.count("replayed once the database answers") == 2


def test_a_stop_while_the_database_is_unavailable(
    open_service: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that waits for its database can be stopped."""
    first = open_service()
    config, clock = first.runtime.config, first.clock
    replica = open_replica(config, clock)
    looked = threading.Event()

    def away(_: int) -> object:
        looked.set()
        raise UnavailableError("the connection is closed")

    monkeypatch.setattr(replica.store, "tail", away)
    runtime = Runtime(config, replica, HostClock(clock)).start()
    assert looked.wait(300)
    runtime.close()

    with pytest.raises(RuntimeError, match="could not be replayed"):
        runtime.wait_ready(0)
