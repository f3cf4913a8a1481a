"""What has no end: best-effort sessions and recurrences, on Ask and on their own pages."""

from __future__ import annotations

from typing import Any, Final

import pytest
from playwright.sync_api import Browser, expect

from tests.end_to_end.pages.browser import visiting
from tests.end_to_end.pages.site import served_site
from tests.end_to_end.pages.small_cluster import TEN_MACHINES

pytestmark = pytest.mark.browser

SESSION: Final = "void(<1 cpu>, 3)"
EVERY_HOUR: Final = "every(1h, atom(<1 cpu>, 2, 2, 10m, 20m))"


def test_what_has_no_end_is_told_in_words(browser: Browser, tmp_path: Any) -> None:
    """A session holds nothing, a recurrence has no end; nowhere is there a date that is none."""
    told = {
        "lounge": (SESSION, "It would hold nothing of its own", "It holds nothing of its own"),
        "hourly": (EVERY_HOUR, "without an end", "without an end"),
    }
    with served_site(tmp_path, TEN_MACHINES) as site, visiting(browser, site) as it:
        for id_, (rdl, tried, held) in told.items():
            page = it.open(f"/ui/ask?tenant=ads&id={id_}")
            with page.expect_response("**/v1/rdl/check"):
                page.locator("#rdl").fill(rdl)
            page.locator("#rdl").press("Control+Enter")
            expect(page.locator("#outcome .sentence")).to_contain_text(tried)
            page.locator("#ask").click()
            expect(page.locator("#outcome h2")).to_have_text(f"Accepted: {id_}")
            assert "Invalid" not in page.locator("body").inner_text()
            page = it.open(f"/ui/reservations/{id_}")
            expect(page.locator(".sentence")).to_contain_text(held)
            assert "Invalid" not in page.locator("body").inner_text()
        page = it.open("/ui/?view=table")
        expect(page.locator("#list-rows tbody")).to_contain_text("no end")
