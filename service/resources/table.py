"""The table of all routes that the app serves, and their description: /openapi.json, /docs."""

from __future__ import annotations

import pkgutil
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import service.resources
from service.http.call import Call
from service.http.docs_page import docs_page, docs_policy
from service.http.route import Documented, Route
from service.http.specification import document
from service.response import Response
from service.web.shell import PAGE_HEADERS

if TYPE_CHECKING:
    from service.runtime import Runtime


_NO_RESOURCES: Final = ("table",)


def _resources() -> list[Route]:
    """Return the calls of all modules of this package, by module name."""
    found: list[Route] = []
    for one in pkgutil.iter_modules(service.resources.__path__):
        if one.name not in _NO_RESOURCES:
            found += import_module(f"service.resources.{one.name}").calls
    return found


_CALLS: Final = tuple(_resources())


_HTML: Final = "text/html; charset=utf-8"


def _description_routes(routes: Sequence[Route]) -> tuple[Route, ...]:
    """Return the calls that describe `routes` and themselves, as JSON and as a page."""

    @cache
    def described() -> dict[str, Any]:
        return document((*routes, *calls))

    @cache
    def shown() -> bytes:
        return docs_page((*routes, *calls)).encode()

    def _openapi(_runtime: Runtime, _call: Call) -> Response:
        return Response(200, described())

    def _docs(_runtime: Runtime, _call: Call) -> Response:
        headers = PAGE_HEADERS | {"Content-Security-Policy": docs_policy()}
        return Response(200, shown(), headers, media=_HTML)

    calls = (
        Route(
            "GET",
            "/openapi.json",
            "openapi",
            "This description, OpenAPI 3.1.",
            _openapi,
            {200: Documented("The description.", ({"type": "object"},))},
            live=True,
            role=None,
        ),
        Route(
            "GET",
            "/docs",
            "docs",
            "The calls and problem codes as a page.",
            _docs,
            {200: Documented("The page.", ({"type": "string"},), media="text/html")},
            live=True,
            role=None,
        ),
    )
    return calls


ROUTES: Final = (*_CALLS, *_description_routes(_CALLS))
