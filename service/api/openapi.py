"""OpenAPI 3.1 from the route table, and the page that shows it."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from planner.files.schema import load_schema
from service.api.call import HEADERS, JSON, Body, Call, Documented, Reply, Route
from service.api.fields import ID_SCHEMA, Field
from service.api.schemas import SCHEMAS
from service.api.views import applications, assignments, optimizations
from service.problems import CODES, CONTENT_TYPE

if TYPE_CHECKING:
    from service.runtime import Runtime

_HTML: Final = "text/html; charset=utf-8"

#: Codes that any call may fail with, whatever it does.
_ANYWHERE = ("malformed", "foreign_host", "internal", "request_timeout", "too_many")
_WITH_PLAN = ("unavailable",)
_CHANGING = ("foreign_origin",)
_WITH_BODY = ("too_large", "unsupported_media_type")


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """Return the description of the whole API."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Agenda",
            "version": "1",
            "summary": "Plans the future of a shared cluster.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": {
                **SCHEMAS,
                **applications.SCHEMAS,
                **assignments.SCHEMAS,
                **optimizations.SCHEMAS,
                "Cluster": _cluster_schema(),
            }
        },
    }


def codes_of(route: Route) -> tuple[str, ...]:
    """Return every code that a call of `route` may fail with."""
    codes = [*_ANYWHERE, *route.problems]
    if route.body is not None:
        codes += _WITH_BODY
    if route.method != "GET":
        codes += _CHANGING
    if "{" in route.path:
        codes.append("not_found")
    return tuple(code for code in CODES if code in codes)


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "parameters": _parameters(route),
        "responses": {
            **{str(status): _answer(answer) for status, answer in route.answers.items()},
            **_problems(codes_of(route)),
        },
    }
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
    headers = [
        {
            "name": name.rstrip("!"),
            "in": "header",
            "required": name.endswith("!"),
            "description": description,
            "schema": HEADERS[name.rstrip("!")],
        }
        for name, description in route.headers.items()
    ]
    return [*path, *map(_query_parameter, route.query), *headers]


def _query_parameter(field: Field) -> dict[str, Any]:
    return {
        "name": field.name,
        "in": "query",
        "required": field.required,
        "description": field.description,
        "schema": dict(field.schema),
    }


def _answer(answer: Documented) -> dict[str, Any]:
    described: dict[str, Any] = {"description": answer.description}
    if answer.schema is not None:
        described["content"] = {answer.media: {"schema": dict(answer.schema)}}
    if answer.headers:
        described["headers"] = {
            name: {"description": text, "schema": {"type": "string"}}
            for name, text in answer.headers.items()
        }
    if answer.links:
        described["links"] = {name: dict(link) for name, link in answer.links.items()}
    return described


def _problems(codes: tuple[str, ...]) -> dict[str, Any]:
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(CODES[code][0], []).append(code)
    content = {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {
        str(status): {"description": ", ".join(map(str, names)), "content": content}
        for status, names in sorted(by_status.items())
    }


def _cluster_schema() -> dict[str, Any]:
    """Return the cluster file's schema with its references turned to where it stands here."""
    schema = load_schema("cluster")
    moved = _moved(schema)
    assert isinstance(moved, dict)
    return {key: value for key, value in moved.items() if key not in ("$schema", "$id")}


def _moved(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: inner.replace("#/$defs/", "#/components/schemas/Cluster/$defs/")
            if key == "$ref"
            else _moved(inner)
            for key, inner in value.items()
        }
    return [_moved(inner) for inner in value] if isinstance(value, list) else value


def page(routes: Sequence[Route]) -> str:
    """Return the calls and the problem codes as one page of HTML."""
    calls = "\n".join(_call_row(route) for route in routes)
    codes = "\n".join(
        f'<tr id="problem-{code}"><td><code>{code}</code></td><td>{status}</td>'
        f"<td>{html.escape(title)}</td></tr>"
        for code, (status, title) in CODES.items()
    )
    return _PAGE.format(calls=calls, codes=codes)


def _call_row(route: Route) -> str:
    query = ", ".join(f"<code>{field.name}</code>" for field in route.query)
    return (
        f"<tr><td><code>{route.method} {html.escape(route.path)}</code></td>"
        f"<td>{html.escape(route.summary)}</td><td>{query}</td>"
        f"<td>{', '.join(map(str, route.answers))}</td></tr>"
    )


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Agenda: the API</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto;
  padding: 0 1rem; }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0;
  border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent); }}
tr:target {{ outline: 2px solid; }}
</style></head><body>
<h1>Agenda: the API</h1>
<p>Bodies are JSON. The full description is <a href="/openapi.json">/openapi.json</a>
(OpenAPI 3.1).</p>
<h2>Calls</h2>
<table><thead><tr><th>Call</th><th>What it does</th><th>Query</th><th>Answers</th></tr></thead>
<tbody>
{calls}
</tbody></table>
<h2>Problems</h2>
<p>Every failure is <code>application/problem+json</code>:
<code>{{type, code, title, detail, errors}}</code>, and <code>refusal</code> where planning said
no.</p>
<table><thead><tr><th>Code</th><th>Status</th><th>Meaning</th></tr></thead><tbody>
{codes}
</tbody></table>
</body></html>
"""


def description(routes: Sequence[Route]) -> tuple[Route, ...]:
    """Return the calls that describe `routes` and themselves, as JSON and as a page."""

    @cache
    def described() -> dict[str, Any]:
        return document((*routes, *calls))

    @cache
    def shown() -> bytes:
        return page((*routes, *calls)).encode()

    def _openapi(_runtime: Runtime, _call: Call) -> Reply:
        return Reply(200, described())

    def _docs(_runtime: Runtime, _call: Call) -> Reply:
        return Reply(200, shown(), media=_HTML)

    calls = (
        Route(
            "GET",
            "/openapi.json",
            "openapi",
            "This description, OpenAPI 3.1.",
            _openapi,
            {200: Documented("The description.", {"type": "object"})},
            live=True,
        ),
        Route(
            "GET",
            "/docs",
            "docs",
            "The calls and problem codes as a page.",
            _docs,
            {200: Documented("The page.", {"type": "string"}, media="text/html")},
            live=True,
        ),
    )
    return calls
