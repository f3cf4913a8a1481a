"""create_app: the Flask application of one server process."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from typing import Any

import msgspec
from flask import Flask, Response, request
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge

from planner.placement import Code
from service.api.call import NDJSON, Body, Call, Reply, Route
from service.api.fields import parse_json, read_object, read_query
from service.api.routes import ROUTES
from service.config import ServiceConfig
from service.problems import (
    CODE_OF_STATUS,
    CONTENT_TYPE,
    ApiError,
    ApiProblemError,
    ProblemDocument,
    problem,
)
from service.runtime import Runtime, open_runtime

logger = logging.getLogger("agenda.service")


def create_app(config: ServiceConfig, runtime: Runtime | None = None) -> Flask:
    """Return the application, its Plan replayed and its planner running.

    Parameters
    ----------
    config
        Settings.
    runtime
        One that is already open (tests pass one with a clock of their own); it stays the
        caller's to close.
    """
    app = Flask("agenda", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = config.max_body
    app.url_map.merge_slashes = False
    app.extensions["agenda"] = runtime if runtime is not None else open_runtime(config)
    for route in ROUTES:
        app.add_url_rule(
            route.path.replace("{", "<").replace("}", ">"),
            route.name,
            _view_of(app, route),
            methods=[route.method],
            provide_automatic_options=False,
        )
    app.register_error_handler(ApiProblemError, _on_problem)
    app.register_error_handler(HTTPException, _on_http_error)
    app.register_error_handler(Exception, _on_failure)
    return app


def runtime_of(app: Flask) -> Runtime:
    """Return the runtime behind an application."""
    runtime = app.extensions["agenda"]
    assert isinstance(runtime, Runtime)
    return runtime


def _view_of(app: Flask, route: Route) -> Callable[..., Response]:
    runtime = runtime_of(app)
    observe = runtime.telemetry.observer(route.method, route.path)

    def view(**path: str) -> Response:
        with observe() as outcome:
            try:
                if not route.live:
                    # Another worker of this port may have said that it is ready.
                    runtime.require_ready(runtime.config.replay_wait_s)
                reply = route.view(runtime, _read_call(route, path))
            except ApiProblemError as error:
                outcome.status = error.document.status
                return _render_problem(error.document)
            outcome.status = reply.status
            return _render(reply)

    return view


def _read_call(route: Route, path: dict[str, str]) -> Call:
    raw = b"" if route.body is None else _read_raw()
    media = request.mimetype
    query = read_query(route.query, request.args.to_dict(flat=False))
    body = None if route.body is None else _read_body(route.body, media, raw)
    target = f"{request.method} {request.full_path}\n".encode()
    return Call(
        path=path,
        query=query,
        headers={name.lower(): value for name, value in request.headers.items()},
        body=body,
        media=media,
        fingerprint=hashlib.sha256(target + raw).digest(),
    )


def _read_raw() -> bytes:
    """Return the body, whole or not at all.

    A body without a length (chunked) is read up to the limit and no further, without a word; a
    batch cut there would be taken in part.
    """
    raw = request.get_data(cache=False)
    if request.content_length is None and request.environ["wsgi.input"].read(1):
        raise RequestEntityTooLarge
    return raw


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


def _render(reply: Reply) -> Response:
    body = reply.body if isinstance(reply.body, bytes) else msgspec.json.encode(reply.body)
    if reply.status in (204, 304):
        body = b""
    response = Response(body, reply.status, content_type=reply.media)
    response.headers.extend(dict(reply.headers))
    return response


def _render_problem(document: ProblemDocument) -> Response:
    body = msgspec.json.encode(document.to_json())
    response = Response(body, document.status, content_type=CONTENT_TYPE)
    response.headers.extend(dict(document.headers))
    return response


def _on_problem(error: Exception) -> Response:
    assert isinstance(error, ApiProblemError)
    return _render_problem(error.document)


def _on_http_error(error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    status = error.code or 500
    code = CODE_OF_STATUS.get(status, Code.MALFORMED if status < 500 else "internal")
    detail = f"{request.method} {request.path}: {error.name.lower()}"
    headers = {}
    allowed = getattr(error, "valid_methods", None)
    if allowed:
        headers["Allow"] = ", ".join(sorted(allowed))
        detail = f"{request.path} takes {headers['Allow']}, not {request.method}"
    return _render_problem(ProblemDocument(code, detail, headers=headers))


def _on_failure(error: Exception) -> Response:
    logger.exception("%s %s failed", request.method, request.path, exc_info=error)
    return _render_problem(ProblemDocument("internal", "the server's log says more"))
