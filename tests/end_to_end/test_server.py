"""The server as operators run it: what it answers to what is no request, and how it stops."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.cli.client.server_process import ServerProcess
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
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
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
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as connection:
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
