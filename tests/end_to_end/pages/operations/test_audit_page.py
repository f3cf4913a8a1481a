"""Audit: who did what, narrowed and taken along; for operators only."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from tests.end_to_end.pages.browser import picture
from tests.end_to_end.pages.operations.conftest import Visiting
from tests.end_to_end.pages.site import Site

pytestmark = pytest.mark.browser


def test_it_tells_who_did_what(look: Visiting) -> None:
    """Newest first: when, who, from where, what, about what."""
    with look() as it:
        page = it.open("/ui/audit")
        lost = page.locator("#table tr").filter(has_text="DELETE /v1/reservations/web-2")
        expect(lost).to_contain_text("otto")
        expect(lost).to_contain_text("127.0.0.1")
        expect(lost).to_contain_text("cancelled")
        picture(page, "audit")


def test_it_is_narrowed(look: Visiting) -> None:
    """By a kind, by pressing what a row says, by time; the address holds it; All takes it back."""
    with look() as it:
        page = it.open("/ui/audit")
        rows = page.locator("#table tbody tr")
        whole = rows.count()
        page.get_by_label("Kind").select_option("submit_application")
        expect(rows).to_have_count(5)
        page.get_by_role("button", name="web").first.click()
        expect(rows).to_have_count(2)
        assert {"kind=submit_application", "tenant=web"} == set(
            page.url.partition("?")[2].split("&")
        )
        again = it.open(page.url.removeprefix(it.site.url))
        expect(again.locator("#table tbody tr")).to_have_count(2)
        page.get_by_role("button", name="All", exact=True).click()
        expect(rows).to_have_count(whole)
        page.get_by_label("From").fill("2026-01-05 06:30")
        page.get_by_label("From").press("Enter")
        expect(rows).not_to_have_count(whole)
        page.locator("h1").click()
        page.keyboard.press("/")
        expect(page.get_by_label("Who")).to_be_focused()


def test_it_is_exported(look: Visiting) -> None:
    """As CSV and JSON, narrowed as the table is."""
    with look() as it:
        page = it.open("/ui/audit?kind=submit_application")
        with page.expect_download() as saved:
            page.get_by_role("button", name="Export CSV").click()
        lines = saved.value.path().read_text(encoding="utf-8").splitlines()
        assert lines[0].startswith("number,at,user,address,call,kind")
        assert len(lines) == 6
        with page.expect_download() as saved:
            page.get_by_role("button", name="Export JSON").click()
        rows = json.loads(saved.value.path().read_text(encoding="utf-8"))
        assert {one["about"] for one in rows} == {"crawl", "train", "report", "stray", "queued"}
        expect(page.locator("#exported")).to_have_text("5 changes in audit.json.")


def test_a_cell_that_looks_like_a_formula_is_none(look: Visiting) -> None:
    """A spreadsheet shows it as a text; quotes and lines stay in their cell."""
    with look() as it:
        page = it.open("/ui/audit")
        written = page.evaluate(
            """async () => {
              const address = document.querySelector("link[href*='/core/csv.js']").href;
              const { csvOf } = await import(address);
              const names = ["number", "about", "detail"];
              return csvOf(names, [{ number: -1, about: '=1+1', detail: 'a "b",\\nc' }]);
            }"""
        )
        row = written.partition("\r\n")[2]
        assert row == '-1,\'=1+1,"a ""b"",\nc"\r\n'


def test_what_the_server_tells_is_text(change: Visiting, changing: Site) -> None:
    """A tenant that is called like a script is a name on every page, and runs nowhere."""
    tenant = "<img src=x onerror=fail()>"
    rdl = "window(atom(<1 cpu>, 1, 1, 10m, 10m), +0, +10m)"
    assert changing.ask([{"id": "strange", "tenant": tenant, "rdl": rdl}]) == [201]
    with change(walker="operator") as it:
        page = it.open("/ui/audit?about=strange")
        expect(page.get_by_role("button", name=tenant)).to_be_visible()
        page = it.open("/ui/promises?days=1")
        changing.clock.advance(60)
        page.reload()
        expect(page.locator("#tenants")).to_contain_text(tenant)
        assert page.locator("#main img").count() == 0


def test_a_user_is_told_that_it_is_not_for_it(look: Visiting) -> None:
    """No link leads there, and the page itself asks for nothing."""
    with look("user") as it:
        page = it.open("/ui/audit")
        expect(page.locator("#main")).to_contain_text("The audit is for operators; ann is user")
        expect(page.locator("#book")).to_be_hidden()
        expect(page.locator("nav").get_by_role("link", name="Audit")).to_have_count(0)
