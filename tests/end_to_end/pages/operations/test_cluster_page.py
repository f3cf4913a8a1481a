"""Cluster: outages in a picture and in words, what one would do, and what it did."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.end_to_end.pages.browser import picture
from tests.end_to_end.pages.operations.conftest import Visiting
from tests.end_to_end.pages.site import Site

pytestmark = pytest.mark.browser


def _rows(page: Page, label: str) -> list[list[str]]:
    table = page.get_by_role("region", name=label)
    rows = table.locator("tbody tr").all()
    return [[cell.strip() for cell in row.locator("td").all_inner_texts()] for row in rows]


def test_groups_and_outages_stand_in_words(look: Visiting) -> None:
    """Both tables say what the picture shows; times are the viewer's."""
    with look() as it:
        page = it.open("/ui/cluster")
        expect(page.locator(".attention a[href='/ui/']")).to_contain_text("3 machines lost")
        groups = _rows(page, "Groups of machines")
        assert [row[:3] for row in groups] == [["standard", "24", "3"], ["gpu", "4", "0"]]
        first, second = _rows(page, "Outages that are not over")
        assert first[:4] == ["3 of standard", "loss", "Mon 5 Jan 06:01", "Mon 5 Jan 10:01"]
        assert first[4:6] == ["–", "by otto"]
        assert second[:2] == ["1 of gpu", "maintenance"]
        page.get_by_text("3 of standard").click()
        expect(page.get_by_text("standard-3, standard-4, standard-5")).to_be_visible()
        box = page.get_by_role("button", name="End the loss").bounding_box()
        assert box is not None
        assert box["x"] + box["width"] < 1280
        page.keyboard.press("z")
        assert _rows(page, "Outages that are not over")[0][2] == "Mon 5 Jan 05:01"


def test_keys_move_the_time_and_choose_an_outage(look: Visiting) -> None:
    """The address holds both; what is chosen is said; Escape lets go of it."""
    with look() as it:
        page = it.open("/ui/cluster")
        before = page.locator("#shown").inner_text()
        for key in ("ArrowRight", "+", "-", "0", "n", "ArrowLeft"):
            page.keyboard.press(key)
        assert "from=" in page.url
        expect(page.locator("#shown")).not_to_have_text(before)
        page.keyboard.press("ArrowDown")
        expect(page.locator("#said")).to_contain_text("1 of 2: loss, 3 of standard")
        page.keyboard.press("ArrowDown")
        expect(page.locator("tr.chosen")).to_contain_text("1 of gpu")
        assert "sel=o-" in page.url
        again = it.open(page.url.removeprefix(it.site.url))
        expect(again.locator("tr.chosen")).to_contain_text("1 of gpu")
        expect(again.locator("#shown")).to_have_text(page.locator("#shown").inner_text())
        page.keyboard.press("Escape")
        expect(page.locator("tr.chosen")).to_have_count(0)


def test_what_if_changes_nothing(look: Visiting) -> None:
    """Ctrl+Enter in the form shows who would be degraded; a changed form takes the offer back."""
    with look() as it:
        version = it.site.call("GET", "/v1/cluster/outages")["version"]
        page = it.open("/ui/cluster?count=12&kind=loss&end=%2B1h")
        page.locator("#count").focus()
        page.keyboard.press("Control+Enter")
        expect(page.locator("#answer")).to_contain_text("Without 12 of standard")
        expect(page.locator("#answer .state").first).to_have_text("degraded")
        expect(page.locator("#said")).to_contain_text("would be affected")
        expect(page.locator("#ghost-kind")).to_be_visible()
        picture(page, "cluster-what-if")
        assert it.site.call("GET", "/v1/cluster/outages")["version"] == version
        page.locator("#count").fill("2")
        expect(page.locator("#post")).to_have_count(0)
        expect(page.locator("#ghost-kind")).to_be_hidden()
        assert "count=2" in page.url


def test_a_time_that_cannot_be_is_told_in_place(look: Visiting) -> None:
    """The server's words are at the form, with what would be right."""
    with look() as it:
        page = it.open("/ui/cluster?start=%2B2h&end=%2B1h")
        page.get_by_role("button", name="What if?").click()
        expect(page.locator("#answer .trouble")).to_contain_text("must end after it begins")


def test_an_outage_is_posted_and_ended(change: Visiting, changing: Site) -> None:
    """After a question each time; the machines of the dry run go, and come back."""
    with change(walker="operator") as it:
        page = it.open("/ui/cluster?machines=gpu&which=names&names=gpu-1&start=%2B9h&end=%2B10h")
        page.get_by_role("button", name="What if?").click()
        page.get_by_role("button", name="Post this outage").click()
        page.get_by_role("button", name="Leave it").click()
        assert len(changing.call("GET", "/v1/cluster/outages")["outages"]) == 2
        page.get_by_role("button", name="Post this outage").click()
        page.get_by_role("dialog").get_by_role("button", name="Post", exact=True).click()
        expect(page.locator("#posted")).to_be_focused()
        posted = changing.call("GET", "/v1/cluster/outages")["outages"]
        assert [one["names"] for one in posted if one["names"] == ["gpu-1"]] == [["gpu-1"]]
        row = page.locator("#outages tbody tr").filter(has_text="gpu-1")
        row.get_by_role("button").click()
        page.get_by_role("button", name="End it", exact=True).last.click()
        expect(page.locator("#ended-note")).to_be_focused()
        expect(row).to_have_count(0)
        assert len(changing.call("GET", "/v1/cluster/outages")["outages"]) == 2


def test_an_outage_by_somebody_else_comes_in_live(change: Visiting, changing: Site) -> None:
    """It stands in table and picture without a reload."""
    with change(walker="operator") as it:
        page = it.open("/ui/cluster", "#live[data-state=live]")
        expect(page.locator("#outages tbody tr")).to_have_count(2)
        asked = {"machines": "gpu", "names": ["gpu-2"], "start": "+11h", "end": "+12h"}
        made = changing.call("POST", "/v1/cluster/outages", asked)["outage"]["id"]
        expect(page.locator("#outages tbody tr")).to_have_count(3)
        changing.call("DELETE", f"/v1/cluster/outages/{made}")
        expect(page.locator("#outages tbody tr")).to_have_count(2)


def test_a_user_is_offered_no_change(look: Visiting) -> None:
    """Neither the form nor the end of an outage; the tables are there."""
    with look("user") as it:
        page = it.open("/ui/cluster")
        expect(page.locator("#change")).to_be_hidden()
        expect(page.locator("#outages tbody tr")).to_have_count(2)
        expect(page.get_by_role("button", name="End")).to_have_count(0)


def test_the_picture_is_saved_as_shown(look: Visiting) -> None:
    """As SVG, with the groups in it."""
    with look() as it:
        page = it.open("/ui/cluster")
        with page.expect_download() as saved:
            page.get_by_role("button", name="SVG").click()
        text = saved.value.path().read_text(encoding="utf-8")
        assert saved.value.suggested_filename == "outages.svg"
        assert "standard" in text
