"""Signing in by token, staying, and leaving; every page by every role."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from service.store import tokens as token_book
from service.web.shell import PAGES
from tests.end_to_end.pages.browser import axe_faults, picture
from tests.end_to_end.pages.operations.conftest import Visiting
from tests.end_to_end.pages.site import Site

pytestmark = pytest.mark.browser


#: How many colours the cells of the first group of machines have, edges aside.
_COLOURS = """() => {
  const canvas = document.querySelector("#map canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const counts = new Map();
  for (let at = 0; at < data.length; at += 4) {
    const colour = data.slice(at, at + 4).join();
    counts.set(colour, (counts.get(colour) ?? 0) + 1);
  }
  return [...counts.values()].filter((count) => count > 100).length;
}"""


def _enter(page: Page, secret: str) -> None:
    page.get_by_label("Token").fill(secret)
    page.get_by_role("button", name="Sign in").click()


def test_a_page_asks_for_a_token_and_goes_on(look: Visiting, busy: Site) -> None:
    """A wrong token is reported; a good one leads back to where one was; signing out ends it."""
    with look(None) as it:
        page = it.open("/ui/cluster?count=3", "#token")
        expect(page.locator("#token")).to_be_focused()
        picture(page, "sign-in")
        assert axe_faults(page) == []
        _enter(page, "agenda_wrong")
        expect(page.locator("#trouble")).to_contain_text("is unknown to this server")
        _enter(page, "two words")
        expect(page.locator("#trouble")).to_contain_text("one word")
        _enter(page, busy.secrets["user"])
        page.wait_for_url("**/ui/cluster?count=3")
        page.get_by_role("button", name="Sign out ann").click()
        page.wait_for_url("**/ui/sign-in?back=*")
        assert page.evaluate("sessionStorage.length + Number('agenda.token' in localStorage)") == 0


@pytest.mark.parametrize("stays", [True, False])
def test_another_tab_is_signed_in_where_that_is_wanted(
    look: Visiting, busy: Site, *, stays: bool
) -> None:
    """With `Stay signed in` it is; else it asks for a token of its own."""
    with look(None) as it:
        page = it.open("/ui/sign-in")
        page.get_by_label("Stay signed in on this machine").set_checked(stays)
        _enter(page, busy.secrets["operator"])
        page.wait_for_url("**/ui/")
        other = it.open("/ui/promises", "#budget .figures" if stays else "#token")
        assert ("sign-in" in other.url) is not stays


def test_signing_in_leads_to_pages_of_this_server_only(look: Visiting, busy: Site) -> None:
    """An address elsewhere, or a script, is not followed."""
    with look(None) as it:
        for back in ("https://example.org/ui/", "//example.org/ui/", "javascript:alert(1)", "/v1/"):
            page = it.open(f"/ui/sign-in?back={back}")
            _enter(page, busy.secrets["user"])
            page.wait_for_url(f"{busy.url}/ui/")
            page.evaluate("sessionStorage.clear()")
            page.close()


def test_a_token_that_is_revoked_is_asked_for_anew(
    change: Visiting, changing: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next call of the page leads to the form; nothing is remembered here."""
    monkeypatch.setattr(token_book, "FRESH_S", 0.0)
    asked = {"name": "guest", "role": "operator"}
    made = changing.client.post(
        "/v1/tokens", json=asked, headers={"Authorization": f"Bearer {changing.secrets['admin']}"}
    ).get_json()
    with change() as it:
        page = it.open("/ui/sign-in")
        _enter(page, made["token"])
        page.wait_for_url("**/ui/")
        changing.client.delete(
            f"/v1/tokens/{made['id']}",
            headers={"Authorization": f"Bearer {changing.secrets['admin']}"},
        )
        it.open("/ui/audit", "#token").wait_for_url("**/ui/sign-in?back=%2Fui%2Faudit")


def test_without_tokens_nobody_signs_in(visit: Any) -> None:
    """The page says so, and leads on."""
    with visit() as it:
        page = it.open("/ui/sign-in")
        expect(page.locator("#main")).to_contain_text("asks for no token")
        expect(page.locator("#form")).to_be_hidden()


@pytest.mark.parametrize("walker", ["user", "operator", "admin"])
def test_links_are_those_of_the_role(look: Visiting, walker: str) -> None:
    """What a role may not do is not offered."""
    ranks = {"user": 1, "operator": 2, "admin": 3}
    with look(walker) as it:
        page = it.open("/ui/promises")
        offered = page.locator("nav a").all_inner_texts()
    assert offered == [
        one.title for one in PAGES if one.listed and (one.role or 0) <= ranks[walker]
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pages_can_be_read_by_everybody(look: Visiting, theme: Any) -> None:
    """axe-core finds nothing, with a machine, an answer and an application open."""
    with look("operator", theme=theme) as it:
        for path in (
            "/ui/cluster?count=12",
            "/ui/machines?sel=standard-0",
            "/ui/machines?view=table",
            "/ui/applications",
            "/ui/applications/train",
            "/ui/promises?days=1",
            "/ui/promises?days=1&view=table",
            "/ui/audit",
        ):
            page = it.open(path)
            if "cluster" in path:
                page.get_by_role("button", name="What if?").click()
                page.wait_for_selector("#post")
            assert axe_faults(page) == [], path
            page.close()


def test_pages_fit_a_narrow_window(look: Visiting) -> None:
    """At 400 pixels nothing makes the page scroll aside."""
    with look("operator", width=400) as it:
        for path in ("cluster", "machines?sel=standard-0", "applications", "applications/train"):
            _holds_width(it.open(f"/ui/{path}"), path)
        for path in ("promises?days=1", "audit", "sign-in"):
            _holds_width(it.open(f"/ui/{path}"), path)


def _holds_width(page: Page, path: str) -> None:
    """Hold a page against the width of its window."""
    wide, inside = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= inside, path
    page.close()


def test_pages_print_in_ink_on_paper(look: Visiting) -> None:
    """A dark page prints dark on white; tables keep their heads, and what is pressed is gone."""
    with look("operator", theme="dark") as it:
        page = it.open("/ui/promises?days=1")
        page.emulate_media(media="print")
        expect(page.get_by_role("button", name="Budget left")).to_be_visible()
        expect(page.locator("#as-table")).to_be_hidden()
        ink = page.evaluate("getComputedStyle(document.querySelector('h1')).color")
        assert ink == "rgb(27, 31, 36)"


def test_forced_colours_keep_shapes(look: Visiting) -> None:
    """Where the system chooses the colours, bars and cells are still there."""
    with look("operator", forced_colors="active") as it:
        page = it.open("/ui/promises?days=1")
        parts = page.locator(".stack .outcome")
        expect(parts).to_have_count(4)
        assert all(part.bounding_box() for part in parts.all())
        page = it.open("/ui/machines")
        assert page.evaluate(_COLOURS) > 4
