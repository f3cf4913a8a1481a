"""Streams of events of a real server: many at once, slow readers, restarts, two workers."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

import pytest

from service.cli.client.server_process import ServerProcess, free_port
from tests.end_to_end.server_process import Client, serving, workers_of
from tests.patience import eventually

CLUSTER = """
step = "60s"
horizon = "24h"

[[machines]]
name = "plain"
count = 1000
resources = { cpu = 4 }
"""
RDL = "window(atom(<1 cpu>, 1, 1, 60, 60), +1h, +6h)"


class Listener:
    """One client of a stream, which reads what has come."""

    def __init__(self, port: int, query: str = "", last: str | None = None) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), 60)
        resume = "" if last is None else f"Last-Event-ID: {last}\r\n"
        head = f"GET /v1/events?{query} HTTP/1.1\r\nHost: 127.0.0.1\r\n{resume}\r\n"
        self._socket.sendall(head.encode())
        self._text = b""
        self.last = last

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def head(self) -> bytes:
        """Return the head of the answer."""
        while b"\r\n\r\n" not in self._text:
            self._more()
        head, _, self._text = self._text.partition(b"\r\n\r\n")
        return head

    def next_event(self) -> tuple[str, dict[str, Any]]:
        """Return kind and data of the next event.

        Raises
        ------
        ConnectionError
            If the stream has ended.
        """
        while True:
            while b"\n\n" not in self._text:
                self._more()
            block, _, self._text = self._text.partition(b"\n\n")
            lines = dict(one.split(": ", 1) for one in block.decode().splitlines() if ": " in one)
            self.last = lines.get("id", self.last)
            if "data" in lines:
                return lines["event"], json.loads(lines["data"])

    def ids(self, count: int) -> list[str]:
        """Return the reservations of the next events that name one."""
        found: list[str] = []
        while len(found) < count:
            _, data = self.next_event()
            if "reservation" in data:
                found.append(data["reservation"])
        return found

    def is_over(self) -> bool:
        """Read to the end; return whether there is one."""
        try:
            while True:
                self._more()
        except ConnectionError:
            return True

    def _more(self) -> None:
        piece = self._socket.recv(65536)
        if not piece:
            raise ConnectionError("the stream has ended")
        self._text += piece


@contextmanager
def served(folder: Path, **settings: Any) -> Iterator[ServerProcess]:
    """Start a server in a folder, on what is there already."""
    (folder / "cluster.toml").write_text(CLUSTER)
    with serving(folder / "agenda.db", folder / "cluster.toml", **settings) as server:
        yield server


def reserve(client: Client, id_: str) -> None:
    """Ask for a reservation that must be granted."""
    status, body = client.call("POST", "/v1/reservations", {"id": id_, "rdl": RDL})
    assert status == 201, body


def test_three_hundred_streams_hold_no_thread(tmp_path: Path) -> None:
    """All hear of a commit, with as many threads as before; posts are answered beside them."""
    with served(tmp_path, streams=300) as server, ExitStack() as stack:
        client = Client(server.port)
        reserve(client, "first")
        (worker,) = workers_of(server.process.pid)
        listeners = []
        for _ in range(300):
            listener = stack.enter_context(Listener(server.port, "kinds=accepted"))
            assert listener.head().startswith(b"HTTP/1.1 200")
            assert listener.next_event()[0] == "start"
            listeners.append(listener)
        with Listener(server.port) as late:
            assert late.head().startswith(b"HTTP/1.1 429")
        assert len(os.listdir(f"/proc/{worker}/task")) < 60
        for number in range(20):
            reserve(client, f"r{number}")
        for listener in listeners:
            assert listener.ids(20) == [f"r{number}" for number in range(20)]
        listeners.pop().__exit__()
        listeners.pop().__exit__()

        def again() -> bool:
            with Listener(server.port) as one:
                return one.head().startswith(b"HTTP/1.1 200")

        assert eventually(again)


def test_streams_are_no_connections(tmp_path: Path) -> None:
    """More streams than connections may be open, and others are served."""
    with served(tmp_path, connections=4, per_address=4, streams=20) as server, ExitStack() as stack:
        for _ in range(20):
            listener = stack.enter_context(Listener(server.port))
            assert listener.head().startswith(b"HTTP/1.1 200")
            assert listener.next_event()[0] == "start"
        reserve(Client(server.port), "a")


def test_who_does_not_read_is_left(tmp_path: Path) -> None:
    """One that reads nothing of a long past is cut off, while another hears everything."""
    with served(tmp_path, answer_s=8.0) as server:
        client = Client(server.port)
        ids = [f"r{number}" for number in range(8_000)]
        for first in range(0, len(ids), 1_000):
            batch = [{"rdl": RDL, "id": id_} for id_ in ids[first : first + 1_000]]
            assert client.call("POST", "/v1/reservations:batch", batch)[0] == 200
        with Listener(server.port, "after=0") as slow, Listener(server.port, "after=0") as quick:
            assert quick.head()
            assert quick.ids(len(ids)) == ids
            log = tmp_path / "cluster.log"
            assert eventually(lambda: "did not read its stream" in log.read_text())
            assert slow.is_over()
            reserve(client, "after")
            assert quick.ids(1) == ["after"]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_stream_goes_on_after_a_restart(tmp_path: Path, how: signal.Signals) -> None:
    """With its last id a client hears the rest once, however the server ended."""
    port = free_port()
    with served(tmp_path, port=port) as server:
        client = Client(port)
        with Listener(port) as listener:
            listener.head()
            for number in range(5):
                reserve(client, f"r{number}")
            heard = listener.ids(3)
            last = listener.last
        os.killpg(server.process.pid, how)
        server.process.wait(60)
    with served(tmp_path, port=port):
        reserve(Client(port), "r5")
        with Listener(port, "kinds=accepted", last) as listener:
            listener.head()
            heard += listener.ids(3)
    assert heard == [f"r{number}" for number in range(6)]


def test_both_workers_tell_what_either_commits(tmp_path: Path) -> None:
    """Whichever worker a stream is at, it hears all commits in order, and the ids are equal."""
    with served(tmp_path, workers=2) as server, ExitStack() as stack:
        listeners = [stack.enter_context(Listener(server.port)) for _ in range(12)]
        for listener in listeners:
            listener.head()
            listener.next_event()
        for number in range(10):
            reserve(Client(server.port), f"r{number}")
        for listener in listeners:
            assert listener.ids(10) == [f"r{number}" for number in range(10)]
        assert len({listener.last for listener in listeners}) == 1


def test_a_server_that_stops_ends_its_streams(tmp_path: Path) -> None:
    """Streams hold up no shutdown."""
    with served(tmp_path) as server, Listener(server.port) as listener:
        listener.head()
        listener.next_event()
        os.kill(server.process.pid, signal.SIGTERM)
        assert listener.is_over()
        assert server.process.wait(60) == 0
