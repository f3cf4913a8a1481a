"""Gunicorn's threaded worker, with its own errors in the API's one shape."""

from __future__ import annotations

import logging
import select
import socket
from typing import Any, Final

import msgspec
from gunicorn import util
from gunicorn.http.errors import ParseException
from gunicorn.workers.gthread import ThreadWorker

from planner.placement import Code
from service.problems import CONTENT_TYPE, ProblemDocument

logger = logging.getLogger("agenda.service")


#: How long a thread waits for the next request of the client it has just answered.
_LINGER_MS: Final = 20


class ProblemWorker(ThreadWorker):  # type: ignore[misc]
    """Answers what is not HTTP, or too long, with a problem instead of a page.

    While there are threads for all connections, a thread that has answered stays with its client
    for a moment: one that posts request after request is then served without three other threads
    and two system calls in between, a fifth of what a small request costs.
    """

    def handle(self, conn: Any) -> Any:
        """Serve requests of a connection until it pauses; return whether it is kept."""
        kept = super().handle(conn)
        while kept is True and self._may_linger() and _has_more(conn.sock):
            kept = super().handle(conn)
        return kept

    def _may_linger(self) -> bool:
        return bool(self.alive and self.nr_conns <= self.cfg.threads)

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        """Answer a request that never reached the application, and close the connection."""
        if isinstance(exc, ParseException):
            document = ProblemDocument(Code.MALFORMED, f"not a request this server reads: {exc}")
        else:
            logger.error("a connection failed", exc_info=exc)
            document = ProblemDocument("internal", "the server's log says more")
        try:
            util.write_nonblock(client, response_of(document))
        except OSError as error:
            logger.debug("the client of a broken request is gone: %s", error)


def _has_more(client: socket.socket) -> bool:
    """Return whether the client sends, or hangs up, soon."""
    poll = select.poll()
    poll.register(client, select.POLLIN)
    return bool(poll.poll(_LINGER_MS))


def response_of(document: ProblemDocument) -> bytes:
    """Return a problem as a whole HTTP response."""
    body = msgspec.json.encode(document.to_json())
    reason = "Bad Request" if document.status < 500 else "Internal Server Error"
    head = (
        f"HTTP/1.1 {document.status} {reason}\r\nConnection: close\r\n"
        f"Content-Type: {CONTENT_TYPE}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
