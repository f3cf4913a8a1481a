"""The tour of docs/page.md: the demo plays its day while a browser looks on."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.end_to_end.pages.browser import Visit, picture, visiting

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        not os.environ.get("AGENDA_PICTURES"),
        reason="plays the whole demo: AGENDA_PICTURES=1 draws the tour of docs/page.md",
    ),
]

#: Pages that are open all the while, and follow by themselves.
_OPEN: Final = {"plan": "/ui/", "machines": "/ui/machines", "promises": "/ui/promises"}

#: Machines that are down with the rack, or with it and those that the day loses itself.
_LOST: Final = re.compile(r"\b(8|12) down")


@contextmanager
def _demo(folder: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "service.cli.main", "demo", "--directory", str(folder)]
    command += ["--port", "0"]
    environment = {**os.environ, "STAY": "1", "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(300)


def _line(process: subprocess.Popen[str], pattern: str) -> str:
    """Wait until the demo tells something."""
    assert process.stdout is not None
    told = []
    for line in process.stdout:
        told.append(line)
        if re.search(pattern, line):
            return line
    raise AssertionError(f"the demo never told {pattern!r}: {told}")


def _shot(page: Page, name: str) -> None:
    page.bring_to_front()
    page.evaluate("() => new Promise(requestAnimationFrame)")
    picture(page, f"tour-{name}")


def _opened(it: Visit, path: str, name: str) -> None:
    page = it.open(path)
    _shot(page, name)
    page.close()


def test_the_demo_is_seen_in_the_browser(browser: Browser, tmp_path: Path) -> None:
    """A day is promised, an offer taken, a rack lost and repaired, a better Plan applied."""
    with _demo(tmp_path / "demo") as demo:
        found = re.search(r"(http://\S+)/ui/", _line(demo, "page "))
        assert found is not None
        site: Any = SimpleNamespace(url=found[1], secrets={})
        began = time.monotonic()
        with visiting(browser, site) as it:
            _line(demo, "the day passes")
            tabs = {name: it.open(path) for name, path in _OPEN.items()}
            _line(demo, "taken: campaign")
            _shot(tabs["plan"], "day")
            _opened(it, "/ui/reservations/campaign", "taken")
            _line(demo, "is lost: ")
            expect(tabs["machines"].locator("#summary")).to_contain_text(_LOST)
            _shot(tabs["machines"], "lost")
            _line(demo, "begins again")
            _opened(it, "/ui/applications/primes-again", "anew")
            _line(demo, "is repaired")
            expect(tabs["machines"].locator("#summary")).not_to_contain_text(_LOST)
            _line(demo, "found and applied")
            page = it.open("/ui/optimizations")
            page.locator("main a[href*='/ui/optimizations/p-']").first.click()
            expect(page.locator(".state.applied").first).to_be_visible()
            _shot(page, "applied")
            _line(demo, "what they wrote")
            _opened(it, "/ui/pipelines/nightly?run=1&stage=build", "nights")
            _shot(tabs["promises"], "kept")
            print(f"the demo took {time.monotonic() - began:.0f} s")
