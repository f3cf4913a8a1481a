"""Report: rows by tenant, queue or user, and the same as CSV; policies over time; /docs tried."""

from __future__ import annotations

import csv

import pytest
from playwright.sync_api import expect

from tests.end_to_end.pages.browser import axe_faults
from tests.end_to_end.pages.operations.conftest import Visiting

pytestmark = pytest.mark.browser


def test_rows_are_those_of_the_call_and_are_saved(look: Visiting) -> None:
    """By tenant and by queue; the file has a line for each row, the total last."""
    with look() as it:
        told = it.site.call("GET", "/v1/report")
        page = it.open("/ui/report")
        rows = page.get_by_role("region", name="The report").locator("tbody tr")
        expect(rows).to_have_count(len(told["rows"]))
        assert [rows.nth(n).locator("td").first.inner_text() for n in range(rows.count())] == [
            one["name"] for one in told["rows"]
        ]
        with page.expect_download() as saved:
            page.get_by_role("button", name="Save as CSV").click()
        written = list(csv.DictReader(saved.value.path().read_text().splitlines()))
        assert [one["name"] for one in written] == [
            *(one["name"] for one in told["rows"]),
            "total",
        ]
        total = float(written[-1]["promised_core_hours"])
        assert total == pytest.approx(told["total"]["promised_core_hours"], rel=0.01)
        page.get_by_label("By").select_option("queue")
        expect(page).to_have_url(f"{it.site.url}/ui/report?by=queue")
        queues = it.site.call("GET", "/v1/report?by=queue")["rows"]
        expect(rows).to_have_count(len(queues))
        assert axe_faults(page) == []


def test_a_call_of_the_reference_can_be_tried(look: Visiting) -> None:
    """The token of the tab is used; a problem is shown as any answer; nothing is loaded."""
    with look(width=400, height=800) as it:
        page = it.open("/docs", "#token")
        wide, inside = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide <= inside
        call = page.locator("details", has=page.locator("code", has_text="GET /v1/machines/lanes"))
        call.locator("summary").click()
        call.get_by_label("most (query)").fill("2")
        call.get_by_role("button", name="Send").click()
        expect(call.locator("pre")).to_contain_text("GET /v1/machines/lanes?most=2: 200")
        expect(call.locator("pre")).to_contain_text("standard-1")
        call.get_by_label("group (query)").fill("nosuch")
        call.get_by_role("button", name="Send").click()
        expect(call.locator("pre")).to_contain_text("/v1/machines/lanes?group=nosuch&most=2: 400")
