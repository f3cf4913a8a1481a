"""The page that `agenda compare --html` writes: a pointer and arrow keys show values."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.end_to_end.pages.browser import axe_faults
from tests.service.cli.command_line import agenda, write_day

pytestmark = pytest.mark.browser

CLUSTER = """
step = "60s"
horizon = "2h"
origin = "2026-11-23T05:00:00Z"
zone = "Europe/Berlin"
[[machines]]
name = "m"
count = 10
resources = { cpu = 2, memory = "4 GiB" }
"""
LINES = [
    {"id": "a", "tenant": "ads", "rdl": "window(atom(<1 cpu>, 4, 4, 7200, 28800), 0, 7200)"},
    {"id": "b", "tenant": "<b>", "rdl": "window(atom(<1 cpu>, 3, 3, 3600, 10800), 0, 3600)"},
]


@pytest.mark.parametrize(("width", "scheme"), [(1400, "light"), (400, "dark")])
def test_values_are_shown_at_the_pointer_and_by_arrows(
    browser: Browser, tmp_path: Path, width: int, scheme: str
) -> None:
    """Time, total, capacity and each tenant, names as they are; nothing where there is no panel."""
    page_file = tmp_path / "page.html"
    day = write_day(tmp_path, CLUSTER, LINES)
    done = agenda("compare", *day, "--agents", "gree,gree-l", "--html", page_file)
    assert done.exit_code == 0
    context = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=scheme,  # type: ignore[arg-type]
    )
    page = context.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(page_file.as_uri())
    values = page.locator("#values")
    expect(values).to_be_hidden()
    picture = page.locator("figure svg").first
    picture.scroll_into_view_if_needed()
    box = picture.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 0.35 * box["width"], box["y"] + 0.35 * box["height"])
    expect(values).to_be_visible()
    when, *lines = values.inner_text().splitlines()
    assert when.startswith("Mon 23 Nov 06:")
    assert lines == ["7 of 20 cores", "<b>: 3", "ads: 4"]
    page.mouse.move(box["x"] + 2, box["y"] + 2)
    expect(values).to_be_hidden()
    figure = page.locator("figure").first
    figure.focus()
    page.keyboard.press("ArrowRight")
    expect(values).to_contain_text("7 of 20 cores")
    page.keyboard.press("Escape")
    expect(values).to_be_hidden()
    assert axe_faults(page) == []
    wide, inside = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= inside
    assert faults == []
    context.close()
