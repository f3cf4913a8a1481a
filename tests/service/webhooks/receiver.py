"""Receiver: takes what webhooks are notified, on this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.service.conftest import Service

#: What a server must allow to tell a receiver on this machine.
LOOPBACK = ("127.0.0.0/8", "::1/128")


class Receiver:
    """Takes what is posted, and answers as told."""

    def __init__(self) -> None:
        self.status = 204
        self.got: list[tuple[dict[str, str], bytes]] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                named = {name.lower(): value for name, value in self.headers.items()}
                receiver.got.append((named, body))
                self.send_response(receiver.status)
                self.send_header("Location", "http://127.0.0.1:1/elsewhere")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @classmethod
    @contextmanager
    def open(cls) -> Iterator[Receiver]:
        """Yield one that takes until the block ends."""
        one = cls()
        try:
            yield one
        finally:
            one.server.shutdown()
            one.server.server_close()

    def told(self) -> list[tuple[str, str | None]]:
        """Return kind and reservation of all that came."""
        bodies = [json.loads(body) for _, body in self.got]
        return [(one["kind"], one.get("reservation")) for one in bodies]


def hook_of(service: Service, url: str, **more: Any) -> dict[str, Any]:
    """Create a webhook."""
    answer = service.client.post("/v1/webhooks", json={"url": url, **more})
    assert answer.status_code == 201, answer.get_data(as_text=True)
    body: dict[str, Any] = answer.get_json()
    return body


def tell(service: Service) -> None:
    """Note and deliver, as the process that leads does each second."""
    service.runtime.dispatcher.tick()
    service.runtime.webhooks.note()
    service.runtime.webhooks.deliver()
    service.runtime.webhooks.wait()
