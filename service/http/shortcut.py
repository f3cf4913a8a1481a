"""Shortcut: answers plain API calls without Flask's overhead, and passes all others to Flask.

A POST of a small body to a fixed path takes Flask 0.15 ms for contexts, URL matching, and request
and response objects. That is as long as reading and compiling the request. Such a call needs none
of this: its route is one lookup, its body has a length, and it has no query. Everything else (parts
in the path, queries, chunked or too long bodies, unknown paths, failures) goes to Flask. Both use
the same `Answering`, so clients see no difference.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from planner.placement import Code
from service.config import ServiceConfig
from service.http.answering import FAULT, Answering, read_call
from service.http.gate import Environ, foreign_host, is_own_host
from service.problems import problem
from service.response import Response, problem_response

StartResponse: TypeAlias = Callable[..., Any]
Wsgi: TypeAlias = Callable[[Environ, StartResponse], Iterable[bytes]]

logger = logging.getLogger("agenda.service")

#: Most digits of a Content-Length that is parsed.
_LONGEST_LENGTH: Final = 15

_REASONS: Final = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}


class Shortcut:
    """Answers plain calls itself and passes the others on.

    Parameters
    ----------
    rest
        The full application.
    answerings
        One for each route.
    config
        Longest accepted body, and names of the server.
    """

    def __init__(self, rest: Wsgi, answerings: Iterable[Answering], config: ServiceConfig) -> None:
        self._rest = rest
        self._max_body = config.max_body
        self._is_own = lru_cache(maxsize=256)(partial(is_own_host, (config.host, *config.names)))
        self._plain = {
            (answering.route.method, answering.route.path): answering
            for answering in answerings
            if "{" not in answering.route.path and answering.route.body is not None
        }

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one WSGI request."""
        host = environ.get("HTTP_HOST")
        if host is not None and not self._is_own(host):
            return _send(problem_response(foreign_host(host)), start_response)
        answering = self._plain.get((environ["REQUEST_METHOD"], environ["PATH_INFO"]))
        length = None if answering is None else self._length(environ)
        if answering is None or length is None:
            return self._rest(environ, start_response)
        try:
            response = answering.respond(
                environ,
                lambda route: read_call(route, environ, _whole(environ, length)),
            )
        except Exception:
            logger.exception("%s %s failed", environ["REQUEST_METHOD"], environ["PATH_INFO"])
            response = problem_response(FAULT)
        return _send(response, start_response)

    def _length(self, environ: Environ) -> int | None:
        """Return the length of the body of a plain call; None for other calls."""
        given = environ.get("CONTENT_LENGTH", "")
        plain = (
            not environ.get("QUERY_STRING")
            and "HTTP_TRANSFER_ENCODING" not in environ
            and given.isascii()
            and given.isdecimal()
            and len(given) <= _LONGEST_LENGTH
        )
        return int(given) if plain and int(given) <= self._max_body else None


def _send(response: Response, start_response: StartResponse) -> list[bytes]:
    """Send a response; return its body in WSGI's form."""
    body = response.payload()
    headers = [("Content-Type", response.media), *response.headers.items()]
    start_response(_REASONS[response.status], [*headers, ("Content-Length", str(len(body)))])
    return [body]


def _whole(environ: Environ, length: int) -> bytes:
    raw: bytes = environ["wsgi.input"].read(length)
    if len(raw) < length:
        raise problem(Code.MALFORMED, f"the body has {len(raw)} bytes, not {length} as announced")
    return raw
