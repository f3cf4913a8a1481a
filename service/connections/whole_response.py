"""WholeResponse: gunicorn's response, which sends its head with the first piece of its body.

Each system call may switch threads, and wakes the client: sending the head separately takes a tenth
of the time of a small answer.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from gunicorn import util
from gunicorn.http.wsgi import Response


class WholeResponse(Response):  # type: ignore[misc]
    """A response that delays its head until the first piece of its body, or its end.

    Attributes
    ----------
    longest_s
        Seconds in which a client must read all of it, from its first delay.
    """

    headers_sent: bool
    longest_s = float("inf")

    def __init__(self, req: Any, sock: Any, cfg: Any) -> None:
        super().__init__(req, sock, cfg)
        self._head = b""
        self._began: float | None = None

    @property
    def begun(self) -> bool:
        """Whether a part of it has been sent."""
        return bool(self.headers_sent and not self._head)

    def send_all(self, pieces: Iterable[bytes]) -> None:
        """Send an answer with a body in pieces."""
        try:
            for piece in pieces:
                self.write(piece)
            self.close()
        finally:
            if hasattr(pieces, "close"):
                pieces.close()

    def default_headers(self) -> list[str]:
        """Return the common lines of answers: status, server, date, connection."""
        major, minor = self.req.version
        lines = [
            f"HTTP/{major}.{minor} {self.status}\r\n",
            f"Server: {self.version}\r\n",
            f"Date: {_date(int(time.time()))}\r\n",
            f"Connection: {'close' if self.should_close() else 'keep-alive'}\r\n",
        ]
        return [*lines, "Transfer-Encoding: chunked\r\n"] if self.chunked else lines

    def send_headers(self) -> None:
        """Build the head; it is sent with the next piece."""
        if self.headers_sent:
            return
        lines = [*self.default_headers(), *(f"{name}: {value}\r\n" for name, value in self.headers)]
        self._head = "".join([*lines, "\r\n"]).encode("latin-1")
        self.headers_sent = True

    def close(self) -> None:
        """End the answer; without a body, send only its head."""
        self.send_headers()
        if self._head:
            self._send(self._take_head())
        super().close()

    def _emit_body(self, data: bytes) -> None:
        if self.chunked:
            data = b"%X\r\n%b\r\n" % (len(data), data)
        self._send(self._take_head() + data)

    def _send(self, data: bytes) -> None:
        """Send all data.

        Raises
        ------
        BlockingIOError
            If the client reads nothing until the socket's timeout, or has not read the whole answer
            in time.
        """
        sent = self.sock.send(data)
        if sent == len(data):
            return
        if self._began is None:
            self._began = time.monotonic()
        left, began = memoryview(data)[sent:], self._began
        while left:
            if time.monotonic() - began > self.longest_s:
                raise BlockingIOError("the client reads its answer too slowly")
            left = left[self.sock.send(left) :]

    def _take_head(self) -> bytes:
        head, self._head = self._head, b""
        return head


@lru_cache(maxsize=2)
def _date(second: int) -> str:
    return str(util.http_date(second))
