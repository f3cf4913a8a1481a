"""What happens shows by itself: one stream for all tabs, dropped connections, proxies that hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.end_to_end.pages.browser import visiting
from tests.end_to_end.pages.site import Site, served_site
from tests.service.conftest import CLUSTER

pytestmark = pytest.mark.browser

ATOM = "window(atom(<1 cpu>, 1, 2, 10m, 20m), +0, +3h)"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Site]:
    """Return a small cluster with nothing planned."""
    with served_site(tmp_path, CLUSTER) as site:
        yield site


def _reserve(site: Site, id_: str) -> None:
    site.call("POST", "/v1/reservations", {"id": id_, "rdl": ATOM, "tenant": "ads"})


def test_tabs_share_one_stream(browser: Browser, small: Site) -> None:
    """One tab listens for all; when it is closed, another takes over and misses nothing."""
    with visiting(browser, small) as it:
        streams: list[str] = []
        it.context.on(
            "request", lambda one: streams.append(one.url) if "/v1/events" in one.url else None
        )
        first, second = it.open("/ui/"), it.open("/ui/")
        for page in (first, second):
            expect(page.locator("#live")).to_have_attribute("data-state", "live")
        _reserve(small, "a")
        for page in (first, second):
            expect(page.locator("#list-count")).to_contain_text("1 in this time")
        assert len(streams) == 1
        first.close()
        _reserve(small, "b")
        expect(second.locator("#list-count")).to_contain_text("2 in this time")
        assert len(streams) == 2


def test_a_dropped_connection_is_said_and_made_up_for(browser: Browser, small: Site) -> None:
    """Offline the page says since when it is behind; online it catches up by itself."""
    with visiting(browser, small) as it:
        page = it.open("/ui/", "#live[data-state=live]")
        it.context.set_offline(True)
        expect(page.locator("#live-text")).to_contain_text("behind since")
        _reserve(small, "a")
        it.context.set_offline(False)
        expect(page.locator("#live")).to_have_attribute("data-state", "live")
        expect(page.locator("#list-count")).to_contain_text("1 in this time")


def test_where_streams_break_the_page_asks(browser: Browser, small: Site) -> None:
    """A proxy that breaks streams off leaves the page up to date, by asking for changes."""
    with visiting(browser, small) as it:
        it.context.route("**/v1/events*", lambda route: route.abort())
        page = it.open("/ui/")
        expect(page.locator("#live-text")).to_have_text("live, by asking")
        _reserve(small, "a")
        expect(page.locator("#list-count")).to_contain_text("1 in this time")


def test_what_happens_to_a_reservation_is_said(browser: Browser, small: Site) -> None:
    """A page that shows a reservation follows it, and says its new state aloud."""
    _reserve(small, "a")
    with visiting(browser, small) as it:
        page = it.open("/ui/reservations/a", "[data-ready] #live[data-state=live]")
        small.call("DELETE", "/v1/reservations/a")
        expect(page.locator("#said")).to_contain_text("a is cancelled now")
        expect(page.locator(".state")).to_have_text("cancelled")


def test_the_plan_goes_on_with_the_present(browser: Browser, small: Site) -> None:
    """Until someone moves it, the time shown begins an hour ago; then it stays where it is."""
    with visiting(browser, small) as it:
        page = it.open("/ui/")
        small.clock.advance(3 * 3600)
        _reserve(small, "a")
        # Midnight of the Plan is one o'clock in Paris: it is four now, and three an hour ago.
        expect(page.locator("#skyline-says")).to_contain_text("5 Jan 03:00")
        assert "from=" not in page.url
        page.keyboard.press("+")
        page.wait_for_url("**/ui/?from=**")
        small.clock.advance(3600)
        before = page.url
        _reserve(small, "b")
        expect(page.locator("#version")).to_have_text("v 4")
        assert page.url == before
