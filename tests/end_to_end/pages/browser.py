"""Browser: Debian's Chromium, and pages of which every test asserts what all must keep."""

from __future__ import annotations

import io
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

import pytest
from axe_playwright_python.base import AXE_FILE_PATH
from PIL import Image
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Route,
    expect,
    sync_playwright,
)

from service.web.shell import packaged_assets
from tests.end_to_end.pages.site import Site

Theme = Literal["light", "dark"]

_ARGUMENTS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

_LISTEN: Final = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(`${event.violatedDirective} ${event.blockedURI}`));
"""

#: Where the pictures of docs/page.md are written, if they are requested.
PICTURES: Final = Path(__file__).parents[3] / "docs" / "pictures" / "page"


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start Debian's Chromium; skip where there is none."""
    expect.set_options(timeout=90_000)  # a busy machine is slow, not wrong
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("no chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(_ARGUMENTS))
        yield browser
        browser.close()


@dataclass(slots=True)
class Visit:
    """One visit of a browser to a site: pages that must keep the policy and stay on the site.

    Attributes
    ----------
    faults
        What no page may do: violations of its policy, foreign hosts, errors of scripts.
    """

    site: Site
    context: BrowserContext
    faults: list[str] = field(default_factory=list)
    pages: list[Page] = field(default_factory=list)

    def open(self, path: str, ready: str = "[data-ready]") -> Page:
        """Open a page and wait until it has drawn what it shows first."""
        page = self.context.new_page()
        page.on("pageerror", lambda error: self.faults.append(f"script: {error}"))
        page.on("console", lambda message: self._hear(message))
        page.goto(self.site.url + path)
        page.wait_for_selector(ready, state="attached", timeout=90_000)
        self.pages.append(page)
        return page

    def _hear(self, message: ConsoleMessage) -> None:
        # A call that is refused is no fault of the page: it shows the problem.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.faults.append(f"console: {message.text}")

    def close(self) -> None:
        """End the visit; show what went wrong in it."""
        for page in self.pages:
            if not page.is_closed():
                self.faults += [f"policy: {one}" for one in page.evaluate("window.violations")]
        self.context.close()
        assert self.faults == []


@contextmanager
def visiting(
    browser: Browser,
    site: Site,
    *,
    width: int = 1280,
    height: int = 900,
    theme: Theme = "light",
    walker: str | None = None,
    **more: Any,
) -> Iterator[Visit]:
    """Visit a site with a window of that size; as `walker`, with its token."""
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=theme,
        timezone_id="Europe/Paris",
        locale="en-GB",
        reduced_motion="reduce",
        **more,
    )
    visit = Visit(site, context)

    def guard(route: Route) -> None:
        if route.request.url.startswith((site.url, "data:", "blob:")):
            route.continue_()
        else:
            visit.faults.append(f"foreign: {route.request.url}")
            route.abort()

    context.route(re.compile(f"^(?!{re.escape(site.url)})"), guard)
    context.add_init_script(_LISTEN)
    if walker is not None:
        secret = site.secrets[walker]
        context.add_init_script(f"sessionStorage.setItem('agenda.token', {secret!r})")
    yield visit
    visit.close()


def axe_faults(page: Page) -> list[str]:
    """Return what axe-core finds wrong with a page, each with where."""
    page.evaluate(AXE_FILE_PATH.read_text(encoding="utf-8") + "\n;undefined")
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['id']}: {one['help']}: {node['html'][:160]}: {node.get('failureSummary', '')[:300]}"
        for one in found["violations"]
        for node in one["nodes"]
    ]


def picture(page: Page, name: str) -> None:
    """Keep a screenshot for docs/page.md where AGENDA_PICTURES asks for it, in 128 colours."""
    if not os.environ.get("AGENDA_PICTURES"):
        return
    PICTURES.mkdir(parents=True, exist_ok=True)
    with Image.open(io.BytesIO(page.screenshot())) as shot:
        small = shot.convert("RGB").quantize(128, dither=Image.Dither.NONE)
        small.save(PICTURES / f"{name}.png", optimize=True)


def on_modules(page: Page) -> Callable[..., Any]:
    """Return a function that imports a module into a page and evaluates an expression on `m`."""

    def asked(module: str, expression: str, given: Any = None) -> Any:
        address = packaged_assets().address(module)
        code = f"async given => {{ const m = await import({address!r}); return {expression}; }}"
        return page.evaluate(code, given)

    return asked
