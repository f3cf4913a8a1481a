"""Read a request's headers, query and body into a `Call`, checked against its route."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

from service.http.call import Call
from service.http.fields import parse_json, read_object, read_query
from service.http.gate import Environ
from service.http.route import Body, Route
from service.problems import ApiError, problem
from service.response import JSON


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


_BARE: Final = frozenset({"CONTENT_TYPE", "CONTENT_LENGTH"})


def _key_of(name: str) -> str:
    key = name.upper().replace("-", "_")
    return key if key in _BARE else f"HTTP_{key}"


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
        ``malformed``, ``unsupported_media_type``.
    """
    media = media_of(environ)
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
