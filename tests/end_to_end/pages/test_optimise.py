"""The page Optimise: start, watch, look at the diff, apply it or what still fits of it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.end_to_end.pages.browser import axe_faults, picture, visiting
from tests.end_to_end.pages.site import Site, served_site
from tests.end_to_end.pages.small_cluster import TEN_MACHINES
from tests.patience import eventually

pytestmark = pytest.mark.browser

_ASKED: Final = {
    "work": 60,
    "time_limit": 20,
    "admit_refused": True,
    "frozen_until": "+0",
    "solver": "none",
}


_LONG: Final = {**{key: _ASKED[key] for key in _ASKED if key != "work"}, "time_limit": 300}


@pytest.fixture
def pairs(tmp_path: Any) -> Iterator[Site]:
    """Return a Plan in which two reservations stand in the way of two refused requests."""
    with served_site(tmp_path, TEN_MACHINES, agent="earliest") as site:
        wide = "window(atom(<1 cpu>, 8, 8, 1800, 14400), {}, {})"
        spans = {
            "a": ("30m", "100m"),
            "b": ("40m", "80m"),
            "c": ("150m", "220m"),
            "d": ("160m", "200m"),
        }
        asked = [
            {"id": id_, "tenant": "web" if id_ in "ac" else "ads", "rdl": wide.format(*span)}
            for id_, span in spans.items()
        ]
        assert [site.ask([one])[0] for one in asked] == [201, 409, 201, 409]
        yield site


def _found(site: Site) -> str:
    """Have a better Plan looked for to its end; return its id."""
    id_: str = site.call("POST", "/v1/optimizations", _ASKED)["id"]
    eventually(
        lambda: site.call("GET", f"/v1/optimizations/{id_}")["state"],
        lambda state: state == "finished",
    )
    return id_


def _states(site: Site) -> list[str]:
    return [site.call("GET", f"/v1/reservations/{one}")["state"] for one in "abcd"]


def _confirm(page: Page, button: str) -> None:
    page.get_by_role("button", name=button, exact=True).first.click()
    page.locator("dialog[open] button[value=yes]").click()


def test_a_better_plan_is_started_watched_looked_at_and_applied(
    browser: Browser, pairs: Site
) -> None:
    """From the form to the Plan: nothing changes before Apply, and then what was shown."""
    with visiting(browser, pairs) as it:
        page = it.open("/ui/optimizations")
        assert axe_faults(page) == []
        page.locator("summary", has_text="More").click()
        page.get_by_label("Time", exact=True).fill("6s")
        page.get_by_label("Solver").select_option("none")
        page.get_by_label("Frozen until").fill("+0")
        page.get_by_role("button", name="Look for a better Plan").click()
        expect(page).to_have_url(re.compile("/ui/optimizations/p-"))
        expect(page.locator(".state.running")).to_be_visible()
        expect(page.locator(".trace svg .value")).to_be_attached()
        expect(page.locator(".state.finished").first).to_be_visible()
        expect(page.locator("#said")).to_contain_text("The optimisation is finished.")
        expect(page.locator(".diff li")).to_have_count(4)
        expect(page.locator(".diff li", has_text="b").first).to_contain_text("no place (capacity)")
        assert _states(pairs) == ["accepted", "refused", "accepted", "refused"]
        assert axe_faults(page) == []
        picture(page, "optimise")
        _confirm(page, "Apply")
        expect(page.locator(".note")).to_contain_text("Applied: 4 reservations changed")
        expect(page.locator("#said")).to_contain_text(re.compile("applied", re.IGNORECASE))
        expect(page.locator(".state.applied").first).to_be_visible()
        expect(page.get_by_role("button", name="Apply", exact=True)).to_have_count(0)
        assert _states(pairs) == ["accepted"] * 4
        _confirm(page, "Undo")
        expect(page.locator(".note")).to_contain_text("Undone: 4 reservations undone")
        expect(page.locator(".state.undone").first).to_be_visible()
        expect(page.get_by_role("button", name="Undo", exact=True)).to_have_count(0)
        assert _states(pairs) == ["accepted", "cancelled", "accepted", "cancelled"]
        assert axe_faults(page) == []
        page.get_by_role("link", name="All optimisations").click()
        expect(page.locator("table tbody tr")).to_have_count(1)


def test_what_no_longer_fits_is_listed_in_place(browser: Browser, pairs: Site) -> None:
    """Somebody takes a place of the diff: 409 marks who does not fit; the rest is applied."""
    id_ = _found(pairs)
    with visiting(browser, pairs) as it:
        page = it.open(f"/ui/optimizations/{id_}")
        expect(page.locator(".diff li")).to_have_count(4)
        changes = pairs.call("GET", f"/v1/optimizations/{id_}")["result"]["diff"]["requests"]
        begin = next(one["start"][1] for one in changes if one["id"] == "a")
        late = f"window(atom(<1 cpu>, 3, 3, 10m, 30m), {begin}, {begin + 600})"
        assert pairs.ask([{"id": "late", "tenant": "ml", "rdl": late}]) == [201]
        before = _states(pairs)
        _confirm(page, "Apply")
        expect(page.locator(".trouble")).to_contain_text("Nothing has changed.")
        expect(page.locator(".diff .misfit").first).to_be_attached()
        first = page.locator(".diff li").first
        expect(first).to_have_class("misfit")
        expect(first).to_contain_text("No longer fits:")
        assert _states(pairs) == before
        assert axe_faults(page) == []
        picture(page, "optimise-conflict")
        _confirm(page, "Apply what still fits")
        expect(page.get_by_role("list", name="Left out")).to_be_visible()
        expect(page.locator(".state.applied").first).to_be_visible()
        assert _states(pairs)[2:] == ["accepted", "accepted"]


def test_the_diff_is_filtered_by_keys_and_kept_in_the_address(
    browser: Browser, pairs: Site
) -> None:
    """By the outcome of them, by a text, as a table; a link brings the same back."""
    id_ = _found(pairs)
    with visiting(browser, pairs, theme="dark") as it:
        page = it.open(f"/ui/optimizations/{id_}")
        page.get_by_role("button", name="2 gained").click()
        expect(page.locator(".diff li")).to_have_count(2)
        page.locator("h1").click()
        page.keyboard.press("/")
        page.keyboard.type("web")
        expect(page.locator(".diff li")).to_have_count(0)
        page.locator("input[type=search]").fill("")
        page.locator("h1").click()
        page.keyboard.press("b")
        expect(page.get_by_role("table", name="What becomes of each request")).to_be_visible()
        assert "fate=gained" in page.url
        assert "table=1" in page.url
        assert axe_faults(page) == []
        page.reload()
        page.wait_for_selector("[data-ready]", state="attached")
        expect(page.get_by_role("button", name="2 gained")).to_have_attribute(
            "aria-pressed", "true"
        )
        expect(page.locator(".diff")).to_have_count(0)


def test_one_that_runs_is_stopped_and_forgotten(browser: Browser, pairs: Site) -> None:
    """Stop keeps the best so far; Forget asks first, and leads back to the list."""
    id_ = pairs.call("POST", "/v1/optimizations", _LONG)["id"]
    with visiting(browser, pairs, width=400) as it:
        page = it.open(f"/ui/optimizations/{id_}")
        expect(page.locator(".figures")).to_contain_text("value")
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        page.get_by_role("button", name="Stop").click()
        expect(page.locator(".state.stopped").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        _confirm(page, "Forget")
        expect(page).to_have_url(f"{pairs.url}/ui/optimizations")
        expect(page.get_by_text("None yet.")).to_be_visible()


def test_a_form_that_is_wrong_says_where(browser: Browser, pairs: Site) -> None:
    """The server's problems are at the form, and nothing is started."""
    with visiting(browser, pairs) as it:
        page = it.open("/ui/optimizations")
        page.get_by_label("Time", exact=True).fill("soon")
        page.get_by_role("button", name="Look for a better Plan").click()
        expect(page.locator("form .trouble")).to_contain_text("time_limit: 'soon' is not")


def test_optimisations_are_not_offered_to_users(browser: Browser, guarded_day: Site) -> None:
    """No link leads there, and the page says for whom it is."""
    with visiting(browser, guarded_day, walker="user") as it:
        page = it.open("/ui/optimizations")
        expect(page.locator("#content")).to_contain_text("for operators")
        expect(page.locator("nav a", has_text="Optimise")).to_have_count(0)
        expect(page.locator("nav a", has_text="Compare")).to_have_count(0)
