"""The frame of every page: links, live state, theme, keys, roles."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from service.web.shell import PAGES
from tests.end_to_end.pages.browser import axe_faults, visiting
from tests.end_to_end.pages.site import Site
from tests.patience import eventually

pytestmark = pytest.mark.browser

#: Every page, with an id of the example day where its path takes one.
PATHS = {page.name: page.paths[0].replace("{id}", "ads-104") for page in PAGES}


@pytest.mark.parametrize("page", PATHS)
def test_each_page_is_clean_in_both_themes_and_on_a_telephone(visit: Any, page: str) -> None:
    """axe-core finds nothing, light or dark; at 400 pixels nothing makes the page scroll aside."""
    with visit(height=800) as it:
        shown = it.open(PATHS[page], "body[data-ready], #live[data-state=live]")
        expect(shown.locator("h1")).to_be_visible()
        assert axe_faults(shown) == []
        shown.emulate_media(color_scheme="dark")
        shown.set_viewport_size({"width": 400, "height": 800})
        assert axe_faults(shown) == []
        wide, inside = shown.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide <= inside


def test_links_lead_to_every_page_and_keys_do_too(visit: Any) -> None:
    """The page that is shown is marked; `g` and a letter go to another."""
    with visit() as it:
        page = it.open("/")
        expect(page).to_have_url(it.site.url + "/ui/")
        names = page.locator("nav a").all_inner_texts()
        assert names == [one.title for one in PAGES if one.listed]
        expect(page.locator("nav a[aria-current=page]")).to_have_text("Plan")
        page.keyboard.press("g")
        page.keyboard.press("c")
        expect(page).to_have_url(it.site.url + "/ui/cluster")


def test_the_theme_is_worn_and_kept(visit: Any) -> None:
    """`d` goes from the system's theme to light and dark; it is kept; pictures follow."""
    with visit() as it:
        page = it.open("/ui/")
        corner = (
            "document.querySelector('canvas').getContext('2d').getImageData(3, 3, 1, 1).data[0]"
        )
        assert page.evaluate(corner) == 255
        page.keyboard.press("d")
        page.keyboard.press("d")
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        eventually(lambda: page.evaluate(corner) < 60)
        page.reload()
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        expect(page.locator("#theme")).to_have_text("Theme: dark")


def test_letters_can_be_switched_off(visit: Any) -> None:
    """The list of keys has a switch; without letters `d` does nothing, arrows still move."""
    with visit() as it:
        page = it.open("/ui/")
        page.keyboard.press("?")
        expect(page.locator("#keys")).to_be_visible()
        assert "Theme" not in page.locator("#keys dt").all_inner_texts()
        page.locator("#letters").uncheck()
        page.keyboard.press("Escape")
        expect(page.locator("#keys")).to_be_hidden()
        page.keyboard.press("d")
        expect(page.locator("html")).to_have_attribute("data-theme", "system")
        before = page.url
        page.locator("#skyline").focus()

        def is_moved() -> bool:
            page.keyboard.press("ArrowRight")
            return page.url != before

        assert eventually(is_moved, bool)


def test_times_are_the_viewers_or_the_clusters_and_said_which(visit: Any) -> None:
    """The button says the zone; the other one is one press away, and everything follows."""
    with visit() as it:
        page = it.open("/ui/reservations/ads-104")
        zone, sentence = page.locator("#zone"), page.locator(".sentence")
        expect(zone).to_have_text("Europe/Paris")
        expect(sentence).to_contain_text("10:")
        page.keyboard.press("z")
        expect(zone).to_have_text("UTC")
        expect(sentence).to_contain_text("09:")
        expect(page.locator("#said")).to_have_text("Times are cluster’s time, UTC.")


def test_a_page_without_a_token_asks_for_one(browser: Browser, guarded_day: Site) -> None:
    """Who has no token is led to the page that asks for it, which knows the way back."""
    with visiting(browser, guarded_day) as it:
        page = it.context.new_page()
        page.goto(it.site.url + "/ui/?by=queue")
        page.wait_for_url("**/ui/sign-in?back=%2Fui%2F%3Fby%3Dqueue")


@pytest.mark.parametrize(("walker", "hidden"), [("user", True), ("operator", False)])
def test_what_one_may_not_do_is_not_offered(
    browser: Browser, guarded_day: Site, walker: str, hidden: bool
) -> None:
    """A user has no link to pages of operators, and sees the bars of its own tenants only."""
    operators = [one.title for one in PAGES if one.listed and one.role and one.role.word != "user"]
    with visiting(browser, guarded_day, walker=walker) as it:
        page = it.open("/ui/")
        names = page.locator("nav a").all_inner_texts()
        assert [one in names for one in operators] == [not hidden] * len(operators)
        expect(page.locator("#who")).to_contain_text("Sign out")
        layers = page.locator("#legend button").all_inner_texts()
        assert ("others" in layers) == hidden
        page.keyboard.press("b")
        tenants = set(page.locator("#list-rows tbody tr td:nth-child(2)").all_inner_texts())
        assert tenants == {"ads"} if hidden else len(tenants) >= 1


def test_signing_out_forgets_the_token(browser: Browser, guarded_day: Site) -> None:
    """After it the tab has no token, and the page asks for one."""
    with visiting(browser, guarded_day) as it:
        page = it.context.new_page()
        page.goto(it.site.url + "/docs")
        page.evaluate(f"sessionStorage.setItem('agenda.token', '{it.site.secrets['user']}')")
        page.goto(it.site.url + "/ui/")
        page.locator("#who").click()
        page.wait_for_url("**/ui/sign-in?**")
        assert page.evaluate("sessionStorage.getItem('agenda.token')") is None
