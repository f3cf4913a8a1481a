"""GET / and /ui/...: the pages for browsers, with their modules and styles."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from service.http.call import Call
from service.http.kinds import ID_SCHEMA
from service.http.route import Documented, Route
from service.problems import problem
from service.response import Response
from service.runtime import Runtime
from service.web.shell import ASSET_HEADERS, PAGE_HEADERS, PAGES, Page, packaged_assets, shell

_HTML: Final = "text/html; charset=utf-8"
_ID: Final = re.compile(ID_SCHEMA["pattern"])
_TEXT: Final = {"type": "string"}


def _start(_runtime: Runtime, _call: Call) -> Response:
    return Response(302, b"", {"Location": "/ui/", "Cache-Control": "no-cache"}, _HTML)


def _asset(_runtime: Runtime, call: Call) -> Response:
    assets = packaged_assets()
    found = assets.find(call.path["folder"], call.path["name"])
    if found is None:
        raise problem("not_found", "there is no such file of the page")
    # A page of another version requests files of its version: it gets those of this one, uncached.
    is_own = call.path["digest"] == assets.digest
    headers = ASSET_HEADERS if is_own else {**ASSET_HEADERS, "Cache-Control": "no-cache"}
    return Response(200, found.body, headers, found.media)


def _view_of(page: Page) -> Callable[[Runtime, Call], Response]:
    def view(_runtime: Runtime, call: Call) -> Response:
        # The calls of the page report whether its object exists.
        if not all(_ID.fullmatch(one) for one in call.path.values()):
            raise problem("not_found", "nothing here can have such an id")
        return Response(200, shell(page), PAGE_HEADERS, _HTML)

    return view


def _page_route(page: Page, path: str) -> Route:
    word = page.name.title().replace("-", "")
    return Route(
        "GET",
        path,
        f"showOne{word}Page" if path != page.paths[0] else f"show{word}Page",
        f"The page for browsers: {page.title}.",
        _view_of(page),
        {200: Documented("The page, without data.", (_TEXT,), media="text/html")},
        problems=("not_found",) if "{" in path else (),
        live=True,
        role=None,
        open_query=True,
    )


calls: Final = (
    Route(
        "GET",
        "/",
        "start",
        "Redirect a browser to the page.",
        _start,
        {302: Documented("The page is there.", headers={"Location": "Path of the page."})},
        live=True,
        role=None,
        open_query=True,
    ),
    *(_page_route(page, path) for page in PAGES for path in page.paths),
    Route(
        "GET",
        "/ui/static/{digest}/{folder}/{name}",
        "getAsset",
        "A module or style of the page; the content of an address never changes.",
        _asset,
        {200: Documented("The file.", (_TEXT,), media="text/javascript", others=("text/css",))},
        problems=("not_found",),
        live=True,
        role=None,
    ),
)
