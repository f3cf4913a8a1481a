"""Site: a service of this process, served on a free port, with a clock that tests move."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from flask.testing import FlaskClient
from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler, make_server

from service.app import create_app
from service.clock import ManualClock
from service.config import ServiceConfig
from service.example_day import SEED, cluster_text, example_day
from service.runtime import Runtime, open_runtime
from tests.service.access.walking import WALKERS


@dataclass(frozen=True, slots=True)
class Site:
    """What a browser looks at, and the means to change it behind the browser's back.

    Attributes
    ----------
    secrets
        Tokens by walker (`user`, `other`, `operator`, `admin`); empty if none are requested.
    """

    url: str
    client: FlaskClient
    runtime: Runtime
    clock: ManualClock
    secrets: dict[str, str]

    def call(self, method: str, path: str, body: object = None, **headers: str) -> Any:
        """Make a call that must be taken, as operator where tokens are requested; its body."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.secrets:
            sent["Authorization"] = f"Bearer {self.secrets['operator']}"
        answer = self.client.open(path, method=method, json=body, headers=sent)
        assert answer.status_code < 300, answer.get_data(as_text=True)
        return answer.get_json(silent=True)

    def reservations(self) -> list[dict[str, Any]]:
        """Return all that was requested, in full: what a page shows is counted from it."""
        listed: list[dict[str, Any]] = self.call("GET", "/v1/reservations?limit=1000")[
            "reservations"
        ]
        return [self.call("GET", f"/v1/reservations/{one['id']}") | one for one in listed]

    def ask(self, requests: Sequence[dict[str, Any]]) -> list[int]:
        """Ask for many reservations; return the status of each."""
        answered = self.call("POST", "/v1/reservations:batch?offers=3", list(requests))
        return [one["status"] for one in answered["results"]]


class _Silent(WSGIRequestHandler):
    def log_request(self, *_: object) -> None:
        """Write nothing: a test's output is its own."""


@contextmanager
def served_site(folder: Path, cluster: str, **settings: Any) -> Iterator[Site]:
    """Serve a cluster in this process until the end of the block."""
    file = folder / "cluster.toml"
    file.write_text(cluster)
    clock = ManualClock()
    given: dict[str, Any] = {"agent": "gree-l", "plan_timeout_s": 120.0, "tick_s": 0, **settings}
    config = ServiceConfig(database=f"sqlite:///{folder / 'agenda.db'}", cluster=file, **given)
    runtime = open_runtime(config, clock)
    app = create_app(config, runtime)
    runtime.wait_ready(300)
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=_Silent)
    assert isinstance(server, ThreadedWSGIServer)
    server.daemon_threads = True
    server.block_on_close = False
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    secrets = {}
    if config.auth == "token":
        secrets = {
            name: runtime.tokens.create(user, None, clock.now_ms())[1]
            for name, user in WALKERS.items()
        }
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        yield Site(url, app.test_client(), runtime, clock, secrets)
    finally:
        server.shutdown()
        thread.join()
        runtime.close()


@contextmanager
def example_site(folder: Path, hours: float, **settings: Any) -> Iterator[Site]:
    """Serve the example day, with all its requests answered at 0:00 and this many hours gone by."""
    with served_site(folder, cluster_text(), **settings) as site:
        lines = example_day(np.random.default_rng(SEED))
        site.ask([{key: line[key] for key in line if key != "submitted"} for line in lines])
        site.clock.advance(3600 * hours)
        yield site
