"""OpenAPI 3.1 from the route table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from planner.placement import Code
from service.access.user import Role
from service.http.call import HEADERS
from service.http.fields import Field
from service.http.kinds import ID_SCHEMA
from service.http.kit import answer_schema, components
from service.http.route import Body, Documented, Header, Route, json_of
from service.problems import CODES, CONTENT_TYPE
from service.response import JSON

#: Codes with which any call may fail.
_ANYWHERE = ("malformed", "foreign_host", "internal", "request_timeout", "too_many")
_WITH_PLAN = ("unavailable",)
_CHANGING = ("foreign_origin",)
_WITH_USER = ("unauthenticated", "forbidden")
_WITH_BODY = ("too_large", "unsupported_media_type")

_ABOUT = (
    "Request machines by a deadline with POST /v1/reservations: the answer is a durable promise, "
    "or a refusal with its reason and offers. GET /v1/plan shows the Plan with all promises. Times "
    "are seconds from the Plan's origin, alongside RFC 3339; errors are problems (RFC 9457)."
)

_WHO = {Role.USER: "users", Role.OPERATOR: "operators and admins", Role.ADMIN: "admins"}


_TEXT: Final = {"type": "string"}
_MAYBE_TEXT: Final = {"type": ["string", "null"]}
_CODE: Final = {"type": "string", "enum": sorted(map(str, CODES))}

_ERROR: Final = {
    "type": "object",
    "properties": {
        "pointer": _MAYBE_TEXT,
        "span": {"type": ["array", "null"], "items": {"type": "integer"}},
        "code": _CODE,
        "message": _TEXT,
        "fix": _MAYBE_TEXT,
    },
    "required": ["pointer", "span", "code", "message", "fix"],
    "additionalProperties": False,
}

_PROBLEM: Final = {
    "type": "object",
    "properties": {
        "type": {"type": "string", "format": "uri-reference"},
        "code": _CODE,
        "title": _TEXT,
        "detail": _TEXT,
        "errors": {"type": "array", "items": json_of("Error")},
        "refusal": json_of("Refusal"),
        "plan_bound": {
            "anyOf": [json_of("PlanBound"), {"type": "null"}],
            "description": "With `bound`: an upper bound on the value of any plan of these "
            "requests.",
        },
    },
    "required": ["type", "code", "title", "detail", "errors"],
    "additionalProperties": False,
    "description": "Every error has this shape (RFC 9457).",
}


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """Return the description of the whole API."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    _, kinds = components(kind for route in routes for kind in route.kinds)
    elsewhere = {name: one for route in routes for name, one in route.schemas.items()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Agenda",
            "version": "1",
            "summary": "Plans the future of a shared cluster.",
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": {
                **elsewhere,
                **kinds,
                "Error": _ERROR,
                "Problem": _PROBLEM,
            },
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A token, if the server requires one.",
                }
            },
        },
    }


def codes_of(route: Route) -> tuple[str, ...]:
    """Return every code with which a call of `route` may fail."""
    codes = [*_ANYWHERE, *route.problems]
    if route.body is not None:
        codes += _WITH_BODY
    if route.method != "GET":
        codes += _CHANGING
    if "{" in route.path:
        codes.append("not_found")
    if route.role is not None:
        codes += _WITH_USER
    return tuple(code for code in CODES if code in codes)


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "parameters": _parameters(route),
        "responses": {
            **{str(status): _answer(answer) for status, answer in route.answers.items()},
            **_failures(route),
        },
    }
    if route.role is not None:
        # Or none: a server on loopback that requires no tokens.
        operation["security"] = [{}, {"token": []}]
        operation["description"] = f"For {_WHO[route.role]}."
    if route.body is not None:
        content = {media: _content(route.body, media) for media in route.body.media}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _content(body: Body, media: str) -> dict[str, Any]:
    if media != JSON:
        return {"schema": {"type": "string"}}
    examples = {name: {"value": value} for name, value in body.examples.items()}
    return {"schema": body.schema} | ({"examples": examples} if examples else {})


def _parameters(route: Route) -> list[dict[str, Any]]:
    path = [
        {"name": name, "in": "path", "required": True, "schema": ID_SCHEMA}
        for name in re.findall(r"\{(\w+)\}", route.path)
    ]
    return [*path, *map(_query_parameter, route.query), *map(_header_parameter, route.headers)]


def _query_parameter(field: Field) -> dict[str, Any]:
    return {
        "name": field.name,
        "in": "query",
        "required": field.required,
        "description": field.description,
        "schema": dict(field.schema),
    }


def _header_parameter(header: Header) -> dict[str, Any]:
    return {
        "name": header.name,
        "in": "header",
        "required": header.required,
        "description": header.description,
        "schema": HEADERS[header.name],
    }


def _answer(answer: Documented) -> dict[str, Any]:
    described: dict[str, Any] = {"description": answer.description}
    if answer.body:
        described["content"] = {
            answer.media: {"schema": answer_schema(answer.body)},
            **_texts(answer),
        }
    if answer.headers:
        described["headers"] = {
            name: {"description": text, "schema": {"type": "string"}}
            for name, text in answer.headers.items()
        }
    if answer.links:
        described["links"] = {name: dict(link) for name, link in answer.links.items()}
    return described


def _texts(form: Documented) -> dict[str, Any]:
    """Return the content types that return the same data as text."""
    return {media: {"schema": {"type": "string"}} for media in form.others}


def _failures(route: Route) -> dict[str, Any]:
    """Return the failure answers of a route, by status."""
    found = _problems(codes_of(route))
    form = route.failure
    if form is None:
        return found
    for status, text in form.statuses.items():
        found.setdefault(str(status), {"content": _problems((Code.MALFORMED,))["400"]["content"]})
        found[str(status)]["description"] = text
    content = {JSON: {"schema": dict(form.schema)}}
    return {
        status: {**answer, "content": {**answer["content"], **content}}
        for status, answer in sorted(found.items())
    }


def _problems(codes: tuple[str, ...]) -> dict[str, Any]:
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(CODES[code][0], []).append(code)
    content = {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        str(status): {"description": ", ".join(map(str, names)), "content": content}
        for status, names in sorted(by_status.items())
    }
