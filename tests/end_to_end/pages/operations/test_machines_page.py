"""Machines: a cell each, promised and running apart, one opened, and what is left out."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.end_to_end.pages.browser import axe_faults, picture, visiting
from tests.end_to_end.pages.operations.conftest import Visiting
from tests.end_to_end.pages.site import Site, served_site
from tests.patience import eventually

pytestmark = pytest.mark.browser

_MANY = """
step = "60s"
horizon = "4h"

[[machines]]
name = "m"
count = 2500
resources = { cpu = 8 }
"""

#: How many pixels of the first group's cells have (nearly) the colour of a token.
_PIXELS = """(name) => {
  const probe = document.createElement("i");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const wanted = getComputedStyle(probe).color.match(/[0-9.]+/g).slice(0, 3).map(Number);
  probe.remove();
  const canvas = document.querySelector("#map canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let at = 0; at < data.length; at += 4) {
    if (wanted.every((value, part) => Math.abs(value - data[at + part]) < 9)) count += 1;
  }
  return count;
}"""


def _pixels(page: Page, token: str) -> int:
    found: int = page.evaluate(_PIXELS, token)
    return found


def test_promised_and_running_are_apart(look: Visiting) -> None:
    """Each has its colour and its half of the cell; one alone shows nothing of the other."""
    with look() as it:
        page = it.open("/ui/machines")
        expect(page.locator("#summary")).to_contain_text("28 machines, 3 down")
        both = [_pixels(page, name) for name in ("accent", "good", "bad")]
        assert min(both) > 50
        page.get_by_label("running", exact=True).check()
        expect(page).to_have_url(f"{it.site.url}/ui/machines?by=running")
        eventually(lambda: _pixels(page, "accent"), lambda count: count == 0)
        page.get_by_label("promised", exact=True).check()
        eventually(lambda: _pixels(page, "good"), lambda count: count == 0)
        assert _pixels(page, "accent") > both[0]


def test_keys_choose_and_open_a_machine(look: Visiting) -> None:
    """What is chosen is said; Enter opens it, with slots and components apart; Escape closes."""
    with look() as it:
        page = it.open("/ui/machines")
        page.locator("#map").focus()
        page.keyboard.press("Home")
        expect(page.locator("#said")).to_contain_text("standard-0: up, 100 % promised")
        for key in ("ArrowRight", "ArrowRight", "ArrowRight"):
            page.keyboard.press(key)
        expect(page.locator("#said")).to_contain_text("standard-3: down (loss)")
        page.keyboard.press("ArrowDown")
        expect(page.locator("#said")).to_contain_text("gpu-3")
        page.keyboard.press("ArrowUp")
        page.keyboard.press("End")
        page.keyboard.press("ArrowLeft")
        expect(page.locator("#said")).to_contain_text("gpu-2")
        page.keyboard.press("Home")
        page.keyboard.press("Enter")
        expect(page.locator("#pane-title")).to_be_focused()
        expect(page.locator("#pane")).to_contain_text("Promised: 1 slot")
        expect(page.get_by_role("region", name="Slots on standard-0")).to_contain_text("ml-wide")
        components = page.get_by_role("region", name="Components on standard-0")
        expect(components).to_contain_text("train")
        picture(page, "machines")
        page.keyboard.press("Escape")
        expect(page.locator("#pane")).to_be_hidden()
        expect(page.locator("#map")).to_be_focused()
        assert "sel=" not in page.url


def test_a_click_opens_a_machine_and_the_address_keeps_it(look: Visiting) -> None:
    """The cell under the pointer; a machine that is down says until when."""
    with look() as it:
        page = it.open("/ui/machines")
        page.locator("#map canvas").first.click(position={"x": 3 * 37 + 10, "y": 10})
        expect(page.locator("#pane-title")).to_have_text("standard-3")
        expect(page.locator("#pane")).to_contain_text("down: loss, back at Mon 5 Jan 10:01")
        again = it.open(page.url.removeprefix(it.site.url))
        expect(again.locator("#pane-title")).to_have_text("standard-3")


def test_a_time_to_come_shows_promises_only(look: Visiting) -> None:
    """What runs is known for now; in twelve hours nothing is promised."""
    with look() as it:
        page = it.open("/ui/machines?at=%2B12h")
        expect(page.locator("#note")).to_contain_text("What runs is known for now only")
        expect(page.locator("#note")).to_contain_text("Nothing is promised")
        assert _pixels(page, "good") == 0


def test_lanes_show_each_machine_over_time(look: Visiting) -> None:
    """Arrow keys choose a lane, Enter opens its machine; a group folds at a press."""
    with look(width=1400) as it:
        page = it.open("/ui/machines?view=lanes")
        lanes = page.locator("#lanes")
        expect(lanes).to_be_visible()
        whole = lanes.bounding_box()
        assert whole is not None
        assert whole["height"] > 20 * 28
        assert page.locator("#tenants > span").all_inner_texts() == ["ml", "web"]
        expect(page.locator("#legend")).to_be_hidden()
        lanes.focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        expect(page.locator("#said")).to_contain_text("standard-1: up")
        page.keyboard.press("Enter")
        expect(page.locator("#pane-title")).to_have_text("standard-1")
        page.keyboard.press("Escape")
        expect(lanes).to_be_focused()
        lanes.click(position={"x": 30, "y": 10})
        eventually(lambda: lanes.evaluate("one => one.clientHeight") < 200)
        assert axe_faults(page) == []


def test_the_table_says_the_same(look: Visiting) -> None:
    """The key b; a machine opens out of it too."""
    with look() as it:
        page = it.open("/ui/machines?group=gpu")
        page.keyboard.press("b")
        expect(page).to_have_url(f"{it.site.url}/ui/machines?group=gpu&view=lanes")
        page.keyboard.press("b")
        table = page.get_by_role("region", name="Machines", exact=True)
        expect(table.locator("tbody tr")).to_have_count(4)
        assert "view=table" in page.url
        table.get_by_role("button", name="gpu-1").click()
        expect(page.locator("#pane-title")).to_have_text("gpu-1")


def test_other_tenants_are_amounts_only(look: Visiting) -> None:
    """A user of another tenant sees how much is promised and runs, and no name."""
    with look("other") as it:
        page = it.open("/ui/machines?sel=standard-0")
        expect(page.locator("#pane")).to_contain_text("another tenant’s")
        text = page.locator("#pane").inner_text()
        assert "ml" not in text.split()
        assert "train" not in text


def test_what_is_left_out_is_told(browser: Browser, tmp_path: Path) -> None:
    """Of 2,500 machines 2,000 are shown; the others are a button away."""
    with served_site(tmp_path, _MANY) as site, visiting(browser, site) as it:
        page = it.open("/ui/machines")
        expect(page.locator("#left-out")).to_contain_text("1 to 2,000; 500 are left out")
        page.get_by_role("button", name="Next").click()
        expect(page.locator("#left-out")).to_contain_text("2,001 to 2,500; 2,000 are left out")
        assert "first=2000" in page.url
        page.keyboard.press("Home")
        expect(page.locator("#said")).to_contain_text("m-2000: up")


#: Drags a finger over an element by so many pixels; whether the page scrolls as well.
_DRAG = """(host, by) => {
  const at = (y) => ({ bubbles: true, cancelable: true, touches: [
    new Touch({ identifier: 1, target: host, clientX: 200, clientY: y })] });
  host.dispatchEvent(new TouchEvent("touchstart", at(400)));
  return host.dispatchEvent(new TouchEvent("touchmove", at(400 + by)));
}"""


def test_a_finger_scrolls_lanes_that_are_taller_than_their_picture(
    browser: Browser, tmp_path: Path
) -> None:
    """Up, away from the first lane; at the first one a finger that goes down scrolls the page."""
    with (
        served_site(tmp_path, _MANY) as site,
        visiting(browser, site, width=400, has_touch=True) as it,
    ):
        page = it.open("/ui/machines?view=lanes")
        lanes = page.locator("#lanes")
        assert lanes.evaluate(_DRAG, -100), "a folded group is not tall"
        lanes.tap(position={"x": 30, "y": 10})
        eventually(lambda: lanes.evaluate("one => one.clientHeight") > 1000)
        assert lanes.evaluate(_DRAG, 100), "it is at its first lane"
        assert not lanes.evaluate(_DRAG, -100)
        assert not lanes.evaluate(_DRAG, 100)
        assert lanes.evaluate(_DRAG, 100), "it is at its first lane again"


def test_operators_see_the_dispatch_table(browser: Browser, grown: Site) -> None:
    """A row for each class, with its share of each group; a user has neither it nor the call."""
    with visiting(browser, grown, walker="operator") as it:
        page = it.open("/ui/machines")
        expect(page.locator("#dispatched")).to_contain_text("Table 1, made Mon 5 Jan 01:00")
        table = page.get_by_role("region", name="Classes of jobs by groups of machines")
        expect(table.get_by_role("columnheader", name="plain (10)")).to_be_visible()
        row = table.locator("tbody tr")
        expect(row).to_have_text("class-1100 % cpu100 % · 6 of 10")
        assert axe_faults(page) == []
    with visiting(browser, grown, walker="user") as it:
        page = it.open("/ui/machines")
        expect(page.locator("#summary")).to_contain_text("10 machines")
        expect(page.locator("#dispatched")).to_be_hidden()
        calls = page.evaluate("performance.getEntriesByType('resource').map(one => one.name)")
        assert not any("dispatch/table" in call for call in calls)
