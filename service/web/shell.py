"""The pages for browsers: their shells without data, modules and styles, and headers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from service.access.user import Role
from service.sentences import AGENTS

#: Content policy of pages: load only from this server, and nothing inline.
CONTENT_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data: blob:",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)

_GUARDS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}

#: Headers of a page: it is requested again each time, because it refers to the newest assets.
PAGE_HEADERS: Final = {
    **_GUARDS,
    "Content-Security-Policy": CONTENT_POLICY,
    "Cache-Control": "no-cache",
}

#: Headers of an asset: its address changes with its content, so that it is cached for a year.
ASSET_HEADERS: Final = {**_GUARDS, "Cache-Control": "public, max-age=31536000, immutable"}

#: Module that is run before anything is drawn.
_FIRST: Final = "core/first.js"

#: Module of the buttons that save a page's data.
_SAVE: Final = "core/save-page.js"

#: Content types by file extension.
MEDIA: Final = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_IMPORT: Final = re.compile(r'^(?:import|export)\b[^;"]*?"(\.{1,2}/[^"]+)"', re.MULTILINE)


@cache
def shell(page: Page) -> bytes:
    """Return the HTML of a page, which is the same for all users."""
    assets = packaged_assets()
    template = _environment().get_template(f"{page.name}.html")
    return template.render(page=page, **_frame_of(assets, page)).encode()


def _frame_of(assets: Assets, page: Page) -> dict[str, Any]:
    """Return the values for the template of a page."""
    module = f"pages/{page.name}.js"
    styles = ["style/tokens.css", "style/base.css", "style/parts.css", f"style/{page.name}.css"]
    if page.saves:
        styles.append("style/save.css")
    return {
        "agents": AGENTS,
        "pages": [one for one in PAGES if one.listed],
        "first": assets.address(_FIRST),
        "styles": [assets.address(one) for one in styles if assets.has(one)],
        "module": assets.address(module),
        "save": assets.address(_SAVE) if page.saves else None,
        "preloads": [assets.address(one) for one in assets.modules_of(module)[1:]],
        "icon": assets.address("style/icon.svg"),
    }


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("service.web"),
        autoescape=select_autoescape(["html"], default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


@dataclass(frozen=True, slots=True)
class Asset:
    """One file loaded by a page."""

    body: bytes
    media: str


class Assets:
    """All files of the pages, by folder and name.

    Parameters
    ----------
    found
        The files by ``folder/name``.

    Attributes
    ----------
    digest
        Part of every address; it changes whenever any file changes.
    """

    def __init__(self, found: Mapping[str, Asset]) -> None:
        self._found = found
        text = hashlib.sha256()
        for name in sorted(found):
            text.update(f"{name}\n{len(found[name].body)}\n".encode())
            text.update(found[name].body)
        self.digest = text.hexdigest()[:12]

    def find(self, folder: str, name: str) -> Asset | None:
        """Return a file, or None."""
        return self._found.get(f"{folder}/{name}")

    def has(self, name: str) -> bool:
        """Return whether there is a file of that name (``folder/name``)."""
        return name in self._found

    def address(self, name: str) -> str:
        """Return the URL path of a file.

        Raises
        ------
        KeyError
            If there is no such file.
        """
        self._found[name]
        return f"/ui/static/{self.digest}/{name}"

    def modules_of(self, name: str) -> list[str]:
        """Return a module and all that it imports, each once, the module first."""
        known: list[str] = []
        waiting = [name]
        while waiting:
            one = waiting.pop(0)
            if one not in known:
                known.append(one)
                waiting += self._imports_of(one)
        return known

    def _imports_of(self, name: str) -> list[str]:
        folder = PurePosixPath(name).parent
        named = _IMPORT.findall(self._found[name].body.decode())
        return [_joined(folder, one) for one in named]


def _joined(folder: PurePosixPath, relative: str) -> str:
    parts = list(folder.parts)
    for part in PurePosixPath(relative).parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return "/".join(parts)


@cache
def packaged_assets() -> Assets:
    """Return the files of this distribution."""
    found: dict[str, Asset] = {}
    for folder in (files("service.web") / "static").iterdir():
        for file in folder.iterdir():
            media = MEDIA.get(PurePosixPath(file.name).suffix)
            if media is not None:
                found[f"{folder.name}/{file.name}"] = Asset(file.read_bytes(), media)
    return Assets(found)


@dataclass(frozen=True, slots=True)
class Page:
    """One page of the browser.

    Attributes
    ----------
    name
        Name of its template (``templates/NAME.html``), its module (``static/pages/NAME.js``) and,
        if any, its style (``static/style/NAME.css``).
    paths
        Paths under which it is served, parts in braces; links use the first.
    title
        Title in links and the window.
    key
        Shortcut key after ``g``; empty for none.
    role
        Least role that sees its link; None for everyone. Its data is protected by the calls it
        makes.
    listed
        Whether it is in the links of every page.
    saves
        Whether it has the common buttons to save its data; some pages have their own.
    """

    name: str
    paths: tuple[str, ...]
    title: str
    key: str = ""
    role: Role | None = Role.USER
    listed: bool = True
    saves: bool = False


#: In the order of the links.
PAGES: Final = (
    Page("plan", ("/ui/",), "Plan", "p"),
    Page("reservation", ("/ui/reservations/{id}",), "Reservation", listed=False, saves=True),
    Page("ask", ("/ui/ask",), "New request", "a", saves=True),
    Page(
        "optimise",
        ("/ui/optimizations", "/ui/optimizations/{id}"),
        "Optimise",
        "o",
        Role.OPERATOR,
        saves=True,
    ),
    Page("compare", ("/ui/compare",), "Compare", "v", Role.OPERATOR, saves=True),
    Page("cluster", ("/ui/cluster",), "Cluster", "c"),
    Page("machines", ("/ui/machines",), "Machines", "m", saves=True),
    Page(
        "applications",
        ("/ui/applications", "/ui/applications/{id}"),
        "Applications",
        "w",
        saves=True,
    ),
    Page("pipelines", ("/ui/pipelines", "/ui/pipelines/{id}"), "Pipelines", "j", saves=True),
    Page("promises", ("/ui/promises",), "Promises", "k", saves=True),
    Page("report", ("/ui/report",), "Report", "r", saves=True),
    Page("audit", ("/ui/audit",), "Audit", "u", Role.OPERATOR),
    Page("sign-in", ("/ui/sign-in",), "Sign in", role=None, listed=False),
)
