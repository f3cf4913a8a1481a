"""The server as operators run it: what it answers to what is no request, and how it stops."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from service.cli.server_process import ServerProcess
from tests.end_to_end.server_process import Client, serving, workers_of
from tests.patience import eventually

CLUSTER = """
step = "60s"
horizon = "24h"

[[machines]]
name = "plain"
count = 4
resources = { cpu = 4 }
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Return a running server of two workers."""
    folder = tmp_path_factory.mktemp("server")
    cluster = folder / "cluster.toml"
    cluster.write_text(CLUSTER)
    with serving(folder / "agenda.db", cluster, workers=2) as running:
        yield running


@pytest.mark.parametrize(
    "raw",
    [
        b"GET / HTTP/9.9\r\n\r\n",
        b"nonsense\r\n\r\n",
        b"GET /v1/plan HTTP/1.1\r\nbad header\r\n\r\n",
        b"GET /v1/plan?from=" + b"9" * 10_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
def test_what_is_no_request_is_a_problem(server: ServerProcess, raw: bytes) -> None:
    """What never reaches the application is answered in the one shape too."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(raw)
        answer = b""
        while piece := connection.recv(65_536):
            answer += piece

    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert b"application/problem+json" in head
    assert json.loads(body)["code"] == "malformed"


def test_workers_share_one_plan(server: ServerProcess) -> None:
    """Whichever worker answers, it knows what any of them has promised."""
    clients = [Client(server.port) for _ in range(8)]
    status, made = clients[0].call("POST", "/v1/reservations", {"rdl": "atom(<1 cpu>,1,1,60,60)"})

    answers = [client.call("GET", f"/v1/reservations/{made['id']}") for client in clients]

    assert status == 201
    assert {status for status, _ in answers} == {200}


def test_threads_stay_with_no_client_for_long(server: ServerProcess) -> None:
    """Many more clients than threads, each asking again and again, are all served in turn."""
    clients = [Client(server.port) for _ in range(60)]

    answers = [client.call("GET", "/healthz")[0] for _ in range(3) for client in clients]

    assert set(answers) == {200}


def test_two_requests_sent_at_once_are_answered_in_order(server: ServerProcess) -> None:
    """What a client has sent before it read the first answer is not forgotten."""
    one = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    last = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
        connection.sendall(one + last)
        answer = b""
        while piece := connection.recv(65_536):
            answer += piece

    first, _, second = answer.partition(b"HTTP/1.1 404")
    assert first.startswith(b"HTTP/1.1 200")
    assert second


def test_a_port_is_free_when_its_master_was_killed(tmp_path: Path) -> None:
    """Workers end with their master, whatever their clients still send: a new server may start."""
    cluster = tmp_path / "cluster.toml"
    cluster.write_text(CLUSTER)
    half = b"POST /v1/reservations HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{"
    with serving(tmp_path / "agenda.db", cluster, workers=2) as first:
        connections = [socket.create_connection(("127.0.0.1", first.port)) for _ in range(3)]
        for connection in connections:
            connection.sendall(half)
        Client(first.port).call("GET", "/healthz")

        os.kill(first.process.pid, signal.SIGKILL)

        # Workers that stayed would answer for it: it is its own workers that count.
        with serving(tmp_path / "agenda.db", cluster, workers=2, port=first.port) as second:
            process = second.process
            eventually(lambda: process.poll() is not None or workers_of(process.pid), bool)
            assert process.poll() is None
        for connection in connections:
            connection.close()


def _away_while(flag: Path) -> str:
    """Return Python after which no process can open its database while a file is there."""
    return (
        "import pathlib; from service.config import ConfigError; from service.store import Store\n"
        "real = Store.__init__\n"
        "def opened(self, url):\n"
        f"    if pathlib.Path({str(flag)!r}).exists():\n"
        "        raise ConfigError('the database is unavailable')\n"
        "    real(self, url)\n"
        "Store.__init__ = opened\n"
    )


def test_a_worker_that_starts_without_its_database_waits_for_it(tmp_path: Path) -> None:
    """Also after the cluster file was spoiled: only the first start of a server reads it."""
    flag, cluster = tmp_path / "away", tmp_path / "cluster.toml"
    cluster.write_text(CLUSTER)
    with serving(tmp_path / "agenda.db", cluster, prepared=_away_while(flag)) as server:
        flag.touch()
        cluster.write_text("step = 7")
        (worker,) = workers_of(server.process.pid)
        os.kill(worker, signal.SIGKILL)

        def ask(path: str) -> tuple[int, object, str | None]:
            try:
                connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
                connection.request("GET", path)
                answer = connection.getresponse()
            except OSError:
                return 0, None, None
            return answer.status, json.loads(answer.read()), answer.headers["Retry-After"]

        eventually(lambda: ask("/readyz")[0], (503).__eq__)
        status, body, retry = ask("/v1/reservations")
        assert (status, retry) == (503, "1")
        assert isinstance(body, dict)
        assert body["code"] == "unavailable"
        assert ask("/healthz")[0] == 200
        flag.unlink()
        eventually(lambda: ask("/readyz")[0], (200).__eq__)
        assert server.process.poll() is None


def test_a_server_whose_planner_ends_says_so_and_ends(tmp_path: Path) -> None:
    """A supervisor starts it again; nothing would be planned otherwise, without a word."""
    flag, cluster = tmp_path / "end", tmp_path / "cluster.toml"
    cluster.write_text(CLUSTER)
    prepared = (
        "import pathlib, time; from service.commits.planner import Planner\n"
        "def serve(self):\n"
        f"    while not pathlib.Path({str(flag)!r}).exists():\n"
        "        time.sleep(0.02)\n"
        "    raise ZeroDivisionError\n"
        "Planner.serve = serve\n"
    )
    with serving(tmp_path / "agenda.db", cluster, workers=2, prepared=prepared) as server:
        client = Client(server.port)
        flag.touch()
        eventually(
            lambda: client.call("GET", "/readyz")[1].get("detail", ""),
            lambda detail: "ZeroDivisionError" in detail,
        )
        assert server.process.wait(300) != 0


def test_metrics_are_of_all_workers(server: ServerProcess) -> None:
    """Figures are summed over the workers, whoever is asked."""
    clients = [Client(server.port) for _ in range(8)]
    for client in clients:
        client.call("GET", "/v1/cluster")

    text = Client(server.port).text("/metrics")

    line = next(
        one
        for one in text.splitlines()
        if one.startswith("agenda_http_requests_total") and 'route="/v1/cluster"' in one
    )
    assert float(line.rpartition(" ")[2]) >= 8
