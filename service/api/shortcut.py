"""Shortcut: the plain calls of the API answered without Flask's ceremony, the others by Flask.

A POST of a small body to a fixed path costs Flask 0.15 ms: contexts, URL matching, objects for the
request and the response. That is as much as reading and compiling what it asks for. Such a call
needs none of it: its route is one look-up, its body has a length, it has no query. Everything else
(parts in the path, queries, chunked or too long bodies, unknown paths, failures) goes to Flask,
and both go through the same `Answering`, so that an answer does not tell which way it took.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Any, Final, TypeAlias
from urllib.parse import urlsplit

import msgspec

from planner.placement import Code
from service.api.call import NDJSON, Body, Call, Reply, Route
from service.api.fields import parse_json, read_object, read_query
from service.config import ServiceConfig, is_loopback
from service.problems import CONTENT_TYPE, ApiError, ApiProblemError, ProblemDocument, problem
from service.runtime import Runtime
from service.store.driver import UNAVAILABLE

Environ: TypeAlias = dict[str, Any]
StartResponse: TypeAlias = Callable[..., Any]
Wsgi: TypeAlias = Callable[[Environ, StartResponse], Iterable[bytes]]

#: What a client is told of a fault of the server.
FAULT: Final = ProblemDocument("internal", "the server's log says more")

#: What a client is told while the database is away, full or locked.
_NO_DATABASE: Final = ProblemDocument(
    "unavailable",
    "the database cannot be used now; the server's log says why",
    headers={"Retry-After": "1"},
)

logger = logging.getLogger("agenda.service")

#: Digits of the longest Content-Length that is looked at.
_LONGEST_LENGTH: Final = 15

#: Characters of a foreign Host that are shown.
_LONGEST_HOST: Final = 100

_REASONS: Final = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}


class Headers(Mapping[str, str]):
    """Headers of a request by lower-case name, looked up where the server keeps them."""

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


_BARE: Final = frozenset({"CONTENT_TYPE", "CONTENT_LENGTH"})


def _key_of(name: str) -> str:
    key = name.upper().replace("-", "_")
    return key if key in _BARE else f"HTTP_{key}"


class Answering:
    """One route: from a request's parts to the reply, problems included.

    Parameters
    ----------
    runtime, route
        Who answers, and what.
    """

    def __init__(self, runtime: Runtime, route: Route) -> None:
        self.route = route
        self._runtime = runtime
        self._observe = runtime.telemetry.observer(route.method, route.path)

    def reply(self, read: Callable[[Route], Call]) -> Reply:
        """Return the reply to the call that `read` reads; every problem is a reply too."""
        with self._observe() as outcome:
            try:
                if not self.route.live:
                    # Another worker of this port may have said that it is ready.
                    self._runtime.require_ready(self._runtime.config.replay_wait_s)
                reply = self.route.view(self._runtime, read(self.route))
            except ApiProblemError as error:
                reply = reply_of(error.document)
            except UNAVAILABLE:
                logger.exception("%s %s was not answered", self.route.method, self.route.path)
                reply = reply_of(_NO_DATABASE)
            outcome.status = reply.status
            return reply


class Shortcut:
    """Takes the plain calls and hands the others on.

    Parameters
    ----------
    rest
        The whole application.
    answerings
        One a route.
    config
        Longest body that is taken, and names under which the server answers.
    """

    def __init__(self, rest: Wsgi, answerings: Iterable[Answering], config: ServiceConfig) -> None:
        self._rest = rest
        self._max_body = config.max_body
        self._is_own = lru_cache(maxsize=256)(partial(_is_own_host, (config.host, *config.names)))
        self._plain = {
            (one.route.method, one.route.path): one
            for one in answerings
            if "{" not in one.route.path and one.route.body is not None
        }

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request, as WSGI asks it."""
        host = environ.get("HTTP_HOST")
        if host is not None and not self._is_own(host):
            return _sent(reply_of(_foreign_host(host)), start_response)
        found = self._plain.get((environ["REQUEST_METHOD"], environ["PATH_INFO"]))
        length = None if found is None else self._length(environ)
        if found is None or length is None:
            return self._rest(environ, start_response)
        try:
            reply = found.reply(lambda route: read_call(route, environ, _whole(environ, length)))
        except Exception:
            logger.exception("%s %s failed", environ["REQUEST_METHOD"], environ["PATH_INFO"])
            reply = reply_of(FAULT)
        return _sent(reply, start_response)

    def _length(self, environ: Environ) -> int | None:
        """Return the length of the body of a plain call; None for another call."""
        given = environ.get("CONTENT_LENGTH", "")
        plain = (
            not environ.get("QUERY_STRING")
            and "HTTP_TRANSFER_ENCODING" not in environ
            and given.isascii()
            and given.isdecimal()
            and len(given) <= _LONGEST_LENGTH
        )
        return int(given) if plain and int(given) <= self._max_body else None


def _sent(reply: Reply, start_response: StartResponse) -> list[bytes]:
    """Send a reply; return its body, as WSGI wants it."""
    body = body_of(reply)
    headers = [("Content-Type", reply.media), *reply.headers.items()]
    start_response(_REASONS[reply.status], [*headers, ("Content-Length", str(len(body)))])
    return [body]


def _is_own_host(names: tuple[str, ...], host: str) -> bool:
    """Return whether a Host is this machine's loopback or one of `names`, at whatever port."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return is_loopback(name) or name in (one.strip("[]").lower() for one in names)


def _foreign_host(host: str) -> ProblemDocument:
    """Return the answer to a request that means another server.

    A page of somebody else may let its own name point to this machine; the browser then takes what
    this server answers for the page's own, unless the server looks at the name it is called by.
    """
    detail = f"this server does not answer as {host[:_LONGEST_HOST]!r}"
    fix = "ask 127.0.0.1, [::1] or localhost, or start the server with --name"
    return ProblemDocument(
        "foreign_host", detail, (ApiError(detail, "foreign_host", "Host", None, fix),)
    )


def _whole(environ: Environ, length: int) -> bytes:
    raw: bytes = environ["wsgi.input"].read(length)
    if len(raw) < length:
        raise problem(Code.MALFORMED, f"the body has {len(raw)} bytes, not {length} as announced")
    return raw


def media_of(environ: Environ) -> str:
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
        ``malformed``, ``unsupported_media_type``, ``foreign_origin``.
    """
    if route.method != "GET":
        _refuse_foreign_page(environ)
    media = media_of(environ)
    values = read_query(route.query, query or {})
    body = None if route.body is None else _read_body(route.body, media, raw)
    headers = Headers(environ)
    return Call(path or {}, values, headers, body, media, _fingerprint(environ, raw))


def _refuse_foreign_page(environ: Environ) -> None:
    """Refuse a change that a browser sends for a page of somebody else.

    Whoever reaches this server may change the Plan, and a browser on this machine reaches it for
    any page it shows. Browsers name the page's origin with every change; other clients name none.
    """
    origin = environ.get("HTTP_ORIGIN")
    if origin is None:
        return
    try:
        own = is_loopback(urlsplit(origin).hostname or "")
    except ValueError:
        own = False
    if not own:
        error = ApiError("changes come from pages of this machine only", "foreign_origin", "Origin")
        raise problem("foreign_origin", f"a page of {origin!r} may change nothing here", [error])


def _fingerprint(environ: Environ, raw: bytes) -> bytes:
    """Return the hash of a request that may be told its first answer again, else nothing."""
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
    if media == NDJSON:
        return raw
    value = parse_json(raw, "")
    return value if spec.fields is None else read_object(spec.fields, value, "")


def reply_of(document: ProblemDocument) -> Reply:
    """Return a problem as a reply."""
    return Reply(document.status, document.to_json(), dict(document.headers), CONTENT_TYPE)


def body_of(reply: Reply) -> bytes:
    """Return the bytes of a reply."""
    if reply.status in (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED):
        return b""
    return reply.body if isinstance(reply.body, bytes) else msgspec.json.encode(reply.body)
