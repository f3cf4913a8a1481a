"""Webhooks of a real server that is killed while its receiver is in trouble."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.end_to_end.listening import reserve, served
from tests.end_to_end.server_process import Client
from tests.patience import eventually


class Receiver(BaseHTTPRequestHandler):
    """Takes what is posted once it is told to."""

    def do_POST(self) -> None:
        """Remember what is taken."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        takes = self.server.takes  # type: ignore[attr-defined]
        if takes:
            self.server.got.append(body["reservation"])  # type: ignore[attr-defined]
        self.server.asked = True  # type: ignore[attr-defined]
        self.send_response(200 if takes else 503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def receiver() -> Iterator[ThreadingHTTPServer]:
    """Return a receiver that refuses at first."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    server.takes, server.asked, server.got = False, False, []  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def test_what_was_not_taken_is_told_after_a_kill(
    tmp_path: Path, receiver: ThreadingHTTPServer
) -> None:
    """Killed while events wait, were just committed, or are posted: each is reported later."""
    settings = {"workers": 2, "webhook_networks": ["127.0.0.0/8"]}
    with served(tmp_path, **settings) as server:
        client = Client(server.port)
        body = {"url": f"http://127.0.0.1:{receiver.server_port}/", "kinds": ["accepted"]}
        assert client.call("POST", "/v1/webhooks", body)[0] == 201
        for number in range(5):
            reserve(client, f"r{number}")
        assert eventually(lambda: receiver.asked)  # type: ignore[attr-defined]
        for number in range(5, 8):
            reserve(client, f"r{number}")
        os.killpg(server.process.pid, signal.SIGKILL)
        server.process.wait(300)
    receiver.takes = True  # type: ignore[attr-defined]
    with served(tmp_path, **settings) as server:
        reserve(Client(server.port), "r8")
        wanted = {f"r{number}" for number in range(9)}
        assert eventually(lambda: set(receiver.got) == wanted)  # type: ignore[attr-defined]
