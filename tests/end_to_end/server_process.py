"""A real server in its own process group, on loopback and a free port, that tests may kill."""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from service.cli.server_process import ServerProcess, _wait_until_ready, free_port
from tests.end_to_end.checked_ticks import faults_in
from tests.end_to_end.fork_server import fork_with_log

_START = (
    "import json, sys; from pathlib import Path; "
    "from service.config import ServiceConfig; from service.server import run; "
    "given = json.loads(sys.argv[6]); "
    "given |= {name: Path(given[name]) for name in ('clock_file', 'local') if name in given}; "
    "run(ServiceConfig(database=sys.argv[1], cluster=Path(sys.argv[2]), port=int(sys.argv[3]), "
    "workers=int(sys.argv[4]), snapshot_every=int(sys.argv[5]), "
    "**{'threads': 8, 'agent': 'gree', 'tick_s': 0.25, 'takeover_s': 2.0, "
    "**given}))"
)

_READY_S = 300.0


class Client:
    """One keep-alive connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)

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
    log = cluster.with_suffix(".log")
    process: Any = fork_with_log(prepared + _START, [*arguments, json.dumps(settings)], log)
    server = ServerProcess(process, port)
    try:
        _wait_until_ready(server, log, _READY_S)
        yield server
    finally:
        server.kill()
    assert faults_in(log) == []
