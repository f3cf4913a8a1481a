"""What tests of events share: a served cluster, requests granted, and the client of a stream."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from service.cli.server_process import ServerProcess
from tests.end_to_end.server_process import Client, serving

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
