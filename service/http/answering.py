"""Answering: reads the requests of one route, and turns them into responses."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from rdl.errors import limited_suggestions
from service.access.user import LOCAL_USER, acting
from service.http.call import Call
from service.http.fields import parse_json, read_object, read_query
from service.http.gate import Environ, Gate
from service.http.route import Body, Route
from service.metrics import CallOutcome
from service.problems import ApiError, ApiProblemError, ProblemDocument, problem
from service.response import JSON, Response, problem_response
from service.runtime import Runtime
from service.store.engine import UNAVAILABLE

logger = logging.getLogger("agenda.service")

#: The answer to an internal error.
FAULT: Final = ProblemDocument("internal", "see the server's log")

#: The answer while the database is unavailable, full or locked.
_NO_DATABASE: Final = ProblemDocument(
    "unavailable",
    "the database is unavailable; see the server's log",
    headers={"Retry-After": "1"},
)

_BARE: Final = frozenset({"CONTENT_TYPE", "CONTENT_LENGTH"})


class Answering:
    """Turns the requests of one route into responses, including problems.

    Parameters
    ----------
    runtime
        Argument of the view.
    gate
        Authenticates the caller.
    route
        The route to answer.
    """

    def __init__(self, runtime: Runtime, gate: Gate, route: Route) -> None:
        self.route = route
        self._runtime = runtime
        self._gate = gate

    @cached_property
    def _observe(self) -> Callable[[], AbstractContextManager[CallOutcome]]:
        """Counts and times calls; created on first use, because all routes' take 10 ms."""
        return self._runtime.telemetry.observer(self.route.method, self.route.path)

    def respond(self, environ: Environ, read: Callable[[Route], Call]) -> Response:
        """Return the response to the call that `read` reads; every problem becomes a response.

        A caller without permission is refused before its body is read.
        """
        with self._observe() as outcome, limited_suggestions():
            try:
                actor = self._gate.admit(self.route, environ)
                if not self.route.live:
                    # Another worker of this port may have reported that it is ready.
                    self._runtime.require_ready(self._runtime.config.replay_wait_s)
                with acting(actor), self._gate.place_for(environ, actor.user):
                    call = read(self.route)
                    if actor.user is not LOCAL_USER:
                        call = replace(call, user=actor.user)
                    response = self.route.view(self._runtime, call)
            except ApiProblemError as error:
                response = self._failure(error.document)
            except UNAVAILABLE:
                logger.exception("%s %s failed", self.route.method, self.route.path)
                response = self._failure(_NO_DATABASE)
            outcome.status = response.status
            return response

    def _failure(self, document: ProblemDocument) -> Response:
        form = self.route.failure
        return problem_response(document) if form is None else form.render(document)


class Headers(Mapping[str, str]):
    """Headers of a request by lower-case name, read from the WSGI environment."""

    def __init__(self, environ: Environ) -> None:
        self._environ = environ

    def __getitem__(self, name: str) -> str:
        return str(self._environ[_key_of(name)])

    def __iter__(self) -> Any:
        return (
            key.removeprefix("HTTP_").replace("_", "-").lower()
            for key in self._environ
            if key.startswith("HTTP_") or key in _BARE
        )

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _key_of(name: str) -> str:
    key = name.upper().replace("-", "_")
    return key if key in _BARE else f"HTTP_{key}"


def _media_of(environ: Environ) -> str:
    """Return the media type of a body, without its parameters."""
    return str(environ.get("CONTENT_TYPE", "")).partition(";")[0].strip().lower()


def read_call(
    route: Route,
    environ: Environ,
    raw: bytes,
    path: Mapping[str, str] | None = None,
    query: Mapping[str, list[str]] | None = None,
) -> Call:
    """Return a request, checked against its route.

    Raises
    ------
    ApiProblemError
        ``malformed``, ``unsupported_media_type``.
    """
    media = _media_of(environ)
    values = read_query(route.query, query or {})
    body = None if route.body is None else _read_body(route.body, media, raw)
    headers = Headers(environ)
    return Call(path or {}, values, headers, body, media, _fingerprint(environ, raw))


def _fingerprint(environ: Environ, raw: bytes) -> bytes:
    """Return the hash of a request with an idempotency key, else an empty one."""
    if "HTTP_IDEMPOTENCY_KEY" not in environ:
        return b""
    path, query = environ["PATH_INFO"], environ.get("QUERY_STRING", "")
    target = f"{environ['REQUEST_METHOD']} {path}?{query}\n".encode()
    return hashlib.sha256(target + raw).digest()


def _read_body(spec: Body, media: str, raw: bytes) -> Any:
    if media not in spec.media:
        known = " or ".join(spec.media)
        shown = media or "nothing"
        error = ApiError(f"send {known}", "unsupported_media_type", pointer="Content-Type")
        raise problem("unsupported_media_type", f"the body is {shown}, not {known}", [error])
    if media != JSON:
        return raw
    value = parse_json(raw, "")
    return value if spec.fields is None else read_object(spec.fields, value, "")
