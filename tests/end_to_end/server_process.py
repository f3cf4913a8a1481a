"""A real server in its own process group, on loopback and a free port, that tests may kill."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_START = (
    "import json, sys; from pathlib import Path; "
    "from service.config import ServiceConfig; from service.server import run; "
    "run(ServiceConfig(database=sys.argv[1], cluster=Path(sys.argv[2]), port=int(sys.argv[3]), "
    "workers=int(sys.argv[4]), snapshot_every=int(sys.argv[5]), "
    "**{'threads': 8, 'agent': 'gree', 'tick_s': 0.25, 'takeover_s': 2.0, "
    "**json.loads(sys.argv[6])}))"
)


@dataclass(slots=True)
class ServerProcess:
    """A running server."""

    process: subprocess.Popen[bytes]
    port: int

    def kill(self) -> None:
        """End every process of the server at this instant, as a loss of power would."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """Ask the server to end, and wait."""
        self.process.terminate()
        self.process.wait(60)

    def client(self) -> Client:
        """Return a client of its own connection."""
        return Client(self.port)


class Client:
    """One keep-alive connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def call(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        """Return (status, parsed body).

        Raises
        ------
        OSError, http.client.HTTPException
            When the connection breaks before the answer is whole.
        """
        sent = None if body is None else json.dumps(body)
        self._connection.request(
            method, path, sent, {"Content-Type": "application/json", **(headers or {})}
        )
        answer = self._connection.getresponse()
        return answer.status, json.loads(answer.read())

    def text(self, path: str) -> str:
        """Return a page that is not JSON."""
        self._connection.request("GET", path)
        return self._connection.getresponse().read().decode()


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def workers_of(master: int) -> list[int]:
    """Return the ids of the processes that a server has begun."""
    children = Path(f"/proc/{master}/task/{master}/children")
    with contextlib.suppress(FileNotFoundError):
        return [int(pid) for pid in children.read_text().split()]
    return []


@contextmanager
def serving(
    database: Path | str,
    cluster: Path,
    *,
    workers: int = 1,
    snapshot_every: int = 10_000,
    port: int | None = None,
    prepared: str = "",
    **settings: float | str,
) -> Iterator[ServerProcess]:
    """Start a server on a file or a URL, wait until it is ready, and leave nothing behind.

    Parameters
    ----------
    prepared
        Python that it runs before it serves.
    settings
        More of `ServiceConfig`.
    """
    port = free_port() if port is None else port
    url = database if isinstance(database, str) else f"sqlite:///{database}"
    arguments = [url, str(cluster), str(port), str(workers), str(snapshot_every)]
    log = cluster.with_suffix(".log").open("ab")
    process = subprocess.Popen(
        [sys.executable, "-c", prepared + _START, *arguments, json.dumps(settings)],
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    server = ServerProcess(process, port)
    try:
        _wait_until_ready(server, log.name)
        yield server
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        log.close()


def _wait_until_ready(server: ServerProcess, log: str, limit_s: float = 300.0) -> None:
    until = time.monotonic() + limit_s
    while time.monotonic() < until:
        if server.process.poll() is not None:
            raise RuntimeError(f"the server ended:\n{Path(log).read_text()}")
        with contextlib.suppress(OSError, http.client.HTTPException):
            if server.client().call("GET", "/readyz")[0] == 200:
                return
        time.sleep(0.05)
    raise TimeoutError(f"the server is not ready:\n{Path(log).read_text()}")
