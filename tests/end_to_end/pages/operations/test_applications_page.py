"""Applications: what each wants and has, why it waits, and its end."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.end_to_end.pages.browser import axe_faults, picture, visiting
from tests.end_to_end.pages.operations.conftest import Visiting
from tests.end_to_end.pages.site import Site

pytestmark = pytest.mark.browser


def test_the_list_has_a_bar_and_the_counts_of_each(look: Visiting) -> None:
    """Wanted, assigned, running and covered, in the bar's name and in columns, with the reason."""
    with look() as it:
        page = it.open("/ui/applications")
        train = page.locator("#table tr").filter(has_text="train")
        words = "70 wanted, 70 assigned, 70 running, 70 covered"
        expect(train.get_by_role("img", name=words)).to_be_visible()
        expect(train.locator("td.number")).to_have_text(["70"] * 4)
        queued = page.locator("#table tr").filter(has_text="queued").last
        expect(queued).to_contain_text("it waits in the line for capacity")
        picture(page, "applications")


def test_it_is_narrowed_by_state_tenant_and_words(look: Visiting) -> None:
    """Each stands in the address; the key / goes to the words."""
    with look() as it:
        page = it.open("/ui/applications")
        rows = page.locator("#table tbody tr")
        page.get_by_label("Show").select_option("queued")
        expect(rows).to_have_count(1)
        page.get_by_label("Show").select_option("all")
        page.get_by_label("Tenant").fill("ads")
        expect(rows).to_have_count(2)
        page.locator("h1").click()
        page.keyboard.press("/")
        page.keyboard.type("stray")
        expect(rows).to_have_count(1)
        assert {"view=all", "tenant=ads", "find=stray"} <= set(
            page.url.partition("?")[2].split("&")
        )
        again = it.open(page.url.removeprefix(it.site.url))
        expect(again.locator("#table tbody tr")).to_have_count(1)


def test_one_shows_components_machines_and_when_it_may_start(look: Visiting) -> None:
    """Four bars a component; where each part is; an estimate for what waits; Escape goes back."""
    with look() as it:
        page = it.open("/ui/applications/train")
        bars = "40 wanted, 40 assigned, 40 running, 40 covered"
        expect(page.get_by_role("img", name=bars)).to_be_visible()
        places = page.get_by_role("region", name="Components and their machines")
        expect(places.locator("tbody tr").first).to_contain_text("by its reservation")
        picture(page, "application")
        waiting = it.open("/ui/applications/queued")
        expect(waiting.locator("#why")).to_have_text("it waits in the line for capacity")
        expect(waiting.locator("#facts")).to_contain_text("May start")
        waiting.keyboard.press("Escape")
        expect(waiting).to_have_url(f"{it.site.url}/ui/applications")


def test_a_list_that_changes_keeps_the_focus(change: Visiting, changing: Site) -> None:
    """A row comes in before it by another client; the link that had the focus has it again."""
    part = {"name": "m", "count": 1, "core": True, "resources": {"cpu": 1}}
    with change(walker="operator") as it:
        page = it.open("/ui/applications?tenant=ml")
        page.get_by_role("link", name="train").focus()
        body = {
            "id": "a-new-one",
            "tenant": "ml",
            "application": {"name": "n", "components": [part]},
        }
        changing.call("POST", "/v1/applications", body)
        changing.runtime.dispatcher.tick()
        expect(page.locator("#table tbody tr")).to_have_count(2)
        expect(page.get_by_role("link", name="train")).to_be_focused()
        changing.call("DELETE", "/v1/applications/a-new-one")
        changing.runtime.dispatcher.tick()


def test_a_user_sees_its_own(look: Visiting) -> None:
    """Others are neither in the list nor under their address."""
    with look("user") as it:
        page = it.open("/ui/applications?view=all")
        expect(page.locator("#table tbody tr")).to_have_count(2)
        foreign = it.open("/ui/applications/train")
        expect(foreign.locator("#trouble")).to_contain_text("there is no application 'train'")


def test_an_owner_ends_its_application(change: Visiting, changing: Site) -> None:
    """After a question; the button is gone once it is ended."""
    with change(walker="user") as it:
        page = it.open("/ui/applications/stray")
        page.get_by_role("button", name="End it").click()
        page.get_by_role("button", name="Leave it").click()
        assert changing.call("GET", "/v1/applications/stray")["state"] == "running"
        page.get_by_role("button", name="End it").click()
        page.get_by_role("dialog").get_by_role("button", name="End it").click()
        expect(page.locator("#state")).to_have_text("ending")
        expect(page.locator("#end")).to_be_hidden()
        changing.runtime.dispatcher.tick()
        expect(page.locator("#state")).to_have_text("killed")


def test_what_has_grown_stands_beside_what_is_wanted(browser: Browser, grown: Site) -> None:
    """Of three workers that may be five the list says 3 + 2, and one page shows it as a bar."""
    with visiting(browser, grown, walker="operator") as it:
        page = it.open("/ui/applications")
        row = page.locator("#table tr").filter(has_text="crawl")
        expect(row.locator("td.number").first).to_have_text("4 + 2 grown")
        words = "4 wanted + 2 grown, 6 assigned, 6 running, 0 covered"
        expect(row.get_by_role("img", name=words).locator(".grown")).to_be_visible()
        expect(page.locator("#summary")).to_contain_text("6 of 4 + 2 grown components running")
        one = it.open("/ui/applications/crawl")
        worker = one.get_by_role("img", name="3 wanted + 2 grown, 5 assigned")
        expect(worker.locator(".four")).to_have_count(5)
        expect(worker.locator(".bar-of.grown")).to_be_visible()
        assert axe_faults(one) == []
