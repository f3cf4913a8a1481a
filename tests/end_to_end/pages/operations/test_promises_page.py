"""Promises: the outcome of them by tenant and over time, and what is left of the budget."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.end_to_end.pages.browser import picture
from tests.end_to_end.pages.operations.conftest import Visiting

pytestmark = pytest.mark.browser


def test_figures_bars_and_table_agree(look: Visiting) -> None:
    """One of eight promises was broken: it stands in the figures, a bar and a row of the table."""
    with look() as it:
        page = it.open("/ui/promises?days=1")
        expect(page.locator("#budget")).to_contain_text("87.5 % kept")
        expect(page.locator("#budget")).to_contain_text("The budget is overdrawn: 1 broken")
        bar = page.get_by_role("img", name="5 promised, 4 kept, 1 failed", exact=True)
        expect(bar).to_be_visible()
        row = page.locator("#tenants tbody tr").filter(has_text="ads")
        cells = ["5", "4", "0", "1", "0", "1", "0", "0", "0", "–", "80 %", "1 over"]
        expect(row.locator("td.number")).to_have_text(cells)
        picture(page, "promises")


def test_keys_change_the_time_and_show_a_table(look: Visiting) -> None:
    """The address holds both; the table has the parts of time that the picture has."""
    with look() as it:
        page = it.open("/ui/promises")
        page.keyboard.press("+")
        expect(page.get_by_label("7 days")).to_be_checked()
        page.keyboard.press("+")
        expect(page.locator("#each")).to_contain_text("each 1 h")
        towers = page.locator(".tower").count()
        page.keyboard.press("b")
        expect(page.locator("#times tbody tr")).to_have_count(towers)
        assert {"days=1", "view=table"} == set(page.url.partition("?")[2].split("&"))
        page.keyboard.press("-")
        expect(page.get_by_label("7 days")).to_be_checked()


def test_an_aim_is_kept_or_not(look: Visiting) -> None:
    """At 80 % one of eight may be broken, and a bit is left; the address holds the aim."""
    with look() as it:
        page = it.open("/ui/promises?days=1")
        page.get_by_label("Aim").fill("80")
        page.get_by_label("Aim").press("Enter")
        expect(page.locator("#budget")).to_contain_text("1 broken, where 1.6 may be")
        assert "aim=80" in page.url


def test_other_tenants_are_one_total(look: Visiting) -> None:
    """A user reads its own tenant, and all others together."""
    with look("user") as it:
        page = it.open("/ui/promises?days=1")
        names = page.locator("#tenants tbody tr td:first-child")
        expect(names).to_have_text(["ads", "all others"])
        expect(page.locator("#shown")).to_contain_text("other tenants as totals")
