"""A service on a temporary database and a clock that the test moves."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from service.app import create_app
from service.clock import ManualClock
from service.config import ServiceConfig
from service.jobs import runner
from service.runtime import Runtime, open_runtime
from service.store import Store, engine
from service.warm_up import warm_up
from tests.end_to_end.fork_server import fork_module

#: Ten one-core machines, minutes, four hours.
CLUSTER = """
step = "60s"
horizon = "4h"

[[machines]]
name = "plain"
count = 10
resources = { cpu = 1, memory = "4 GiB" }
"""


@dataclass(slots=True)
class Service:
    """One server process, in this one."""

    app: Flask
    client: FlaskClient
    runtime: Runtime
    clock: ManualClock

    def reserve(self, id_: str, rdl: object = "atom(<1 cpu>, 1, 10, 60, 600)", **more: Any) -> Any:
        """Ask for a reservation that must be granted; return the answer's body."""
        answer = self.ask(id_, rdl, **more)
        assert answer.status_code == 201, answer.get_data(as_text=True)
        return answer.get_json()

    def ask(
        self,
        id_: str,
        rdl: object = "atom(<1 cpu>, 1, 10, 60, 600)",
        headers: dict[str, str] | None = None,
        query: str = "",
        **more: Any,
    ) -> TestResponse:
        """Ask for a reservation."""
        body = {"id": id_, "rdl": rdl, **more}
        return self.client.post(f"/v1/reservations{query}", json=body, headers=headers)


@cache
def _empty_database() -> bytes:
    """Return an empty database with its tables, which take longer to make than most tests."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "agenda.db"
        Store(f"sqlite:///{path}").close()
        return path.read_bytes()


#: How a service makes a connection; and that a process is warm, once one of its services is.
_PREPARE = engine._prepare_sqlite
_WARM: list[bool] = []


def _prepare_unsynced(connection: Any, record: object) -> None:
    """Make a connection that waits for no disk: nothing here outlives a loss of power."""
    _PREPARE(connection, record)
    connection.execute("PRAGMA synchronous=OFF")


def _warm_up_once(*given: Any) -> None:
    """Load code and kernels for the first service of a process; those after it have them."""
    if not _WARM:
        warm_up(*given)
        _WARM.append(True)


#: Opens another process's service on the same database.
Open = Callable[..., Service]


@pytest.fixture
def cluster_file(tmp_path: Path) -> Path:
    """Return a cluster file; a test may write another text into it."""
    path = tmp_path / "cluster.toml"
    path.write_text(CLUSTER)
    return path


@pytest.fixture
def open_service(
    tmp_path: Path, cluster_file: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Open]:
    """Return a function that opens services on one database; all are closed at the end."""
    monkeypatch.setattr(engine, "_prepare_sqlite", _prepare_unsynced)
    monkeypatch.setattr("service.runtime.warm_up", _warm_up_once)
    processes = SimpleNamespace(**{**vars(subprocess), "Popen": fork_module})
    monkeypatch.setattr(runner, "subprocess", processes)
    opened: list[Service] = []
    clock = ManualClock()
    database = tmp_path / "agenda.db"
    if not database.exists():
        database.write_bytes(_empty_database())

    def open_one(**settings: Any) -> Service:
        given: dict[str, Any] = {
            "database": f"sqlite:///{database}",
            "cluster": cluster_file,
            "agent": "gree",
            "plan_timeout_s": 120.0,
            **settings,
        }
        config = ServiceConfig(**given)
        runtime = open_runtime(config, clock)
        app = create_app(config, runtime)
        service = Service(app, app.test_client(), runtime, clock)
        opened.append(service)
        runtime.wait_ready(300)
        return service

    yield open_one
    for service in opened:
        service.runtime.close()


@pytest.fixture
def service(open_service: Open) -> Service:
    """Return a service with an empty Plan."""
    return open_service()


@pytest.fixture
def still(open_service: Open) -> Service:
    """Return a service that ticks only when told to."""
    return open_service(tick_s=0)


@pytest.fixture
def idle_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let optimisations and comparisons be processes that end at once: no one waits for them."""
    monkeypatch.setattr(runner, "_MODULES", dict.fromkeys(runner._MODULES, "site"))


@pytest.fixture
def unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no adapter look by itself: who adapts when is the test's."""
    monkeypatch.setattr("service.commits.adaptation.PlanAdapter.tick", lambda _: None)
