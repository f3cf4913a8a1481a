"""Shells: the HTML of a page, without any data, and the headers of everything for browsers."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from service.sentences import AGENTS
from service.web.assets import Assets, packaged_assets
from service.web.pages import PAGES, Page

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
