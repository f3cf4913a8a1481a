"""GET /openapi.json and /docs: the description of the API."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from service.http.call import Call
from service.http.docs_page import docs_page, docs_policy
from service.http.route import Documented, Route
from service.http.specification import document
from service.response import Response
from service.web.shell import PAGE_HEADERS

if TYPE_CHECKING:
    from service.runtime import Runtime

_HTML: Final = "text/html; charset=utf-8"


def description_routes(routes: Sequence[Route]) -> tuple[Route, ...]:
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
