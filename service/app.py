"""create_app: the Flask application of one server process."""

from __future__ import annotations

import logging
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any, Final

from flask import Flask, request
from flask import Response as FlaskResponse
from gunicorn.http.errors import ParseException
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge
from werkzeug.routing import Map, Rule

from planner.placement import Code
from service.access.rate_limit import RateLimit
from service.config import ServiceConfig
from service.http.answering import FAULT, Answering, read_call
from service.http.call import Call
from service.http.gate import Environ, Gate
from service.http.route import Route
from service.http.shortcut import Shortcut, StartResponse, Wsgi
from service.logs import REQUEST_ID
from service.problems import CODE_OF_STATUS, ApiProblemError, ProblemDocument
from service.random_ids import RandomIds
from service.resources.table import ROUTES
from service.response import Response, problem_response
from service.runtime import Runtime, open_runtime
from service.streaming.live_stream import STREAM_PLACE, LiveStream

logger = logging.getLogger("agenda.service")

#: Smaller bodies are sent uncompressed: the gzip header would cost more than is saved.
LEAST_BYTES: Final = 10_000

#: The same for modules and styles, which browsers cache: they are compressed once for many readers.
_LEAST_ASSET_BYTES: Final = 500
_ASSETS: Final = ("text/css", "text/javascript", "text/html")

#: The fastest level: on columns of numbers it takes a third of the default level's time, for 10 %
#: more bytes.
_LEVEL: Final = 1

#: Window bits that make zlib write a gzip stream.
_GZIP: Final = 31

HEADER: Final = "X-Request-Id"
_GIVEN: Final = re.compile(r"[A-Za-z0-9_.:@+=/-]{1,128}")


def create_app(
    config: ServiceConfig, runtime: Runtime | None = None, rates: RateLimit | None = None
) -> Flask:
    """Return the application, its Plan replayed and its planner running.

    Parameters
    ----------
    config
        Settings.
    runtime
        An open runtime (tests pass one with their own clock), which the caller closes; None to open
        one.
    rates
        Rate limits shared by several processes; None for this process only.
    """
    app = Flask("agenda", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = config.max_body
    app.url_map = _url_map()
    app.extensions["agenda"] = runtime if runtime is not None else open_runtime(config)
    gate = Gate(runtime_of(app), RateLimit(config.rate) if rates is None else rates)
    answerings = [Answering(runtime_of(app), gate, route) for route in ROUTES]
    for answering in answerings:
        app.view_functions[answering.route.name] = _view_of(answering)
    app.register_error_handler(ApiProblemError, _on_problem)
    app.register_error_handler(HTTPException, _on_http_error)
    app.register_error_handler(ParseException, _on_unreadable)
    app.register_error_handler(Exception, _on_failure)
    shortcut = Shortcut(app.wsgi_app, answerings, config)
    app.wsgi_app = RequestIds(shortcut)  # type: ignore[method-assign]
    return app


@cache
def _url_map() -> Map:
    """Return the paths of all routes, compiled once per process."""
    return Map(
        [
            Rule(
                route.path.replace("{", "<").replace("}", ">"),
                methods=[route.method],
                endpoint=route.name,
            )
            for route in ROUTES
        ],
        merge_slashes=False,
    )


def runtime_of(app: Flask) -> Runtime:
    """Return the runtime behind an application."""
    runtime = app.extensions["agenda"]
    assert isinstance(runtime, Runtime)
    return runtime


def _view_of(answering: Answering) -> Callable[..., FlaskResponse]:
    def view(**path: str) -> FlaskResponse:
        response = answering.respond(
            request.environ,
            lambda route: _read_call(route, path),
        )
        if answering.route.method == "GET":
            response = compress_response(response, request.headers.get("Accept-Encoding", ""))
        return _flask_response(response)

    return view


def _read_call(route: Route, path: dict[str, str]) -> Call:
    raw = b"" if route.body is None else _read_raw()
    query = {} if route.open_query else request.args.to_dict(flat=False)
    return read_call(route, request.environ, raw, path, query)


def _read_raw() -> bytes:
    """Return the complete body, or raise an error.

    A body without a length (chunked) is silently truncated at the limit; a truncated batch would be
    accepted partly.
    """
    raw = request.get_data(cache=False)
    if request.content_length is None and request.environ["wsgi.input"].read(1):
        raise RequestEntityTooLarge
    return raw


def _flask_response(response: Response) -> FlaskResponse:
    # Answers in pieces are only sent here: the shortcut is for calls with a body.
    body: Iterator[bytes] | bytes
    if not isinstance(response.body, Iterator):
        body = response.payload()
    elif _is_taken_over(response.body):
        body = iter(())
    else:
        body = response.body
    made = FlaskResponse(body, response.status, content_type=response.media)
    made.headers.extend(dict(response.headers))
    return made


def _is_taken_over(body: Iterator[bytes]) -> bool:
    """Pass a stream to the server if it feeds streams without a thread; return whether it did."""
    carry = request.environ.get(STREAM_PLACE)
    if carry is None or not isinstance(body, LiveStream) or request.method != "GET":
        return False
    carry(body)
    return True


def _flask_problem(document: ProblemDocument) -> FlaskResponse:
    return _flask_response(problem_response(document))


def _on_problem(error: Exception) -> FlaskResponse:
    assert isinstance(error, ApiProblemError)
    return _flask_problem(error.document)


def _on_unreadable(error: Exception) -> FlaskResponse:
    """Answer a body whose chunks or trailers are found malformed while it is read."""
    detail = f"the body cannot be read: {error}"
    return _flask_problem(ProblemDocument(Code.MALFORMED, detail))


def _on_http_error(error: Exception) -> FlaskResponse:
    assert isinstance(error, HTTPException)
    status = error.code or 500
    code = CODE_OF_STATUS.get(status, Code.MALFORMED if status < 500 else "internal")
    detail = f"{request.method} {request.path}: {error.name.lower()}"
    headers = {}
    allowed = getattr(error, "valid_methods", None)
    if allowed:
        headers["Allow"] = ", ".join(sorted(allowed))
        detail = f"{request.path} takes {headers['Allow']}, not {request.method}"
    return _flask_problem(ProblemDocument(code, detail, headers=headers))


def _on_failure(error: Exception) -> FlaskResponse:
    logger.exception("%s %s failed", request.method, request.path, exc_info=error)
    return _flask_problem(FAULT)


def compress_response(response: Response, accepted: str) -> Response:
    """Return a response for a client that accepts these encodings.

    Compression makes its ETag a weak one, because the bytes differ; If-Match and If-None-Match
    accept weak tags.

    Parameters
    ----------
    accepted
        The request's Accept-Encoding; empty if there is none.
    """
    if isinstance(response.body, Iterator):
        return response
    payload = response.payload()
    least = _LEAST_ASSET_BYTES if response.media.startswith(_ASSETS) else LEAST_BYTES
    if len(payload) < least:
        return replace(response, body=payload)
    headers = {**response.headers, "Vary": "Accept-Encoding"}
    if not accepts_gzip(accepted):
        return replace(response, body=payload, headers=headers)
    packer = zlib.compressobj(_LEVEL, wbits=_GZIP)
    headers["Content-Encoding"] = "gzip"
    if "ETag" in headers:
        headers["ETag"] = f"W/{headers['ETag'].removeprefix('W/')}"
    return replace(response, body=packer.compress(payload) + packer.flush(), headers=headers)


def accepts_gzip(accepted: str) -> bool:
    """Return whether an Accept-Encoding accepts gzip; ``q=0`` rejects it."""
    weights: dict[str, float] = {}
    for entry in accepted.lower().split(","):
        name, *parameters = (part.strip() for part in entry.split(";"))
        weights[name] = _weight(parameters)
    return weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0))) > 0


def _weight(parameters: list[str]) -> float:
    for one in parameters:
        if one.startswith("q="):
            try:
                return float(one[2:])
            except ValueError:
                return 0.0
    return 1.0


class RequestIds:
    """Sets the id of each request while the rest of the application answers it."""

    def __init__(self, rest: Wsgi) -> None:
        self._rest = rest
        self._ids = RandomIds(8)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one WSGI request."""
        given = environ.get("HTTP_X_REQUEST_ID", "")
        id_ = given if _GIVEN.fullmatch(given) else self._ids.new()

        def start(status: str, headers: list[tuple[str, str]], *failure: Any) -> Any:
            return start_response(status, [*headers, (HEADER, id_)], *failure)

        token = REQUEST_ID.set(id_)
        try:
            return self._rest(environ, start)
        finally:
            REQUEST_ID.reset(token)
