"""Gunicorn's threaded worker, with its own errors in the API's one shape."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
from gunicorn import util
from gunicorn.http.errors import ParseException
from gunicorn.workers.gthread import ThreadWorker

from planner.placement import Code
from service.problems import CONTENT_TYPE, ProblemDocument

logger = logging.getLogger("agenda.service")


class ProblemWorker(ThreadWorker):  # type: ignore[misc]
    """Answers what is not HTTP, or too long, with a problem instead of a page."""

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


def response_of(document: ProblemDocument) -> bytes:
    """Return a problem as a whole HTTP response."""
    body = msgspec.json.encode(document.to_json())
    reason = "Bad Request" if document.status < 500 else "Internal Server Error"
    head = (
        f"HTTP/1.1 {document.status} {reason}\r\nConnection: close\r\n"
        f"Content-Type: {CONTENT_TYPE}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body
