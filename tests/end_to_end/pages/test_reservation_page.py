"""A reservation's page: what it holds, and what its owner may do with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.end_to_end.pages.browser import axe_faults, picture, visiting
from tests.end_to_end.pages.site import Site, served_site
from tests.service.conftest import CLUSTER

pytestmark = pytest.mark.browser

RDL = "window(order(atom(<1 cpu>, 2, 4, 10m, 40m), atom(<1 cpu>, 1, 2, 10m, 20m)), 0, 2h)"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Site]:
    """Return ten machines on which `a`, of tenant ads, holds something soon."""
    with served_site(tmp_path, CLUSTER, auth="token") as site:
        site.call("POST", "/v1/reservations", {"id": "a", "rdl": RDL, "tenant": "ads"})
        yield site


def _open(browser: Browser, site: Site, walker: str) -> Any:
    return visiting(browser, site, walker=walker)


def test_it_says_what_is_held_and_why(visit: Any) -> None:
    """A sentence, a strip with its table, the request laid out, facts, reasons and history."""
    with visit() as it:
        page = it.open("/ui/reservations/ads-108")
        picture(page, "reservation")
        expect(page.locator(".sentence")).to_contain_text("It begins in 1")
        expect(page.locator(".strip canvas")).to_be_visible()
        rows = page.locator("details tbody tr")
        held = it.site.call("GET", "/v1/reservations/ads-108")
        expect(rows).to_have_count(min(12, sum(len(atom["allocation"]) for atom in held["atoms"])))
        expect(page.locator("pre")).to_contain_text("every(")
        for heading in ("Facts", "Why there", "History"):
            expect(page.get_by_role("heading", name=heading)).to_be_visible()


def test_an_unknown_one_is_told_in_place(visit: Any) -> None:
    """An id that there is not shows the server's problem, not an empty page."""
    with visit() as it:
        page = it.open("/ui/reservations/nothing")
        expect(page.get_by_role("alert")).to_contain_text("there is no reservation 'nothing'")


@pytest.mark.parametrize(("walker", "buttons"), [("user", 2), ("operator", 2)])
def test_who_acts_for_a_tenant_may_change(
    browser: Browser, small: Site, walker: str, buttons: int
) -> None:
    """Owner and operator are offered to renegotiate and to cancel; nothing to close yet."""
    with _open(browser, small, walker) as it:
        page = it.open("/ui/reservations/a")
        names = page.locator("#view > .row button").all_inner_texts()
        assert names == ["Renegotiate", "Cancel"]
        assert len(names) == buttons


def test_another_tenant_is_told_nothing(browser: Browser, small: Site) -> None:
    """To who does not act for its tenant it is as if it were not there."""
    with _open(browser, small, "other") as it:
        page = it.open("/ui/reservations/a")
        expect(page.get_by_role("alert")).to_contain_text("there is no reservation 'a'")


def _renegotiation(page: Page, rdl: str) -> None:
    page.get_by_role("button", name="Renegotiate").click()
    page.locator("textarea").fill(rdl)


def test_it_is_renegotiated_after_a_try(browser: Browser, small: Site) -> None:
    """A try shows what it would hold and changes nothing; then it is changed, and said."""
    with _open(browser, small, "user") as it:
        page = it.open("/ui/reservations/a")
        _renegotiation(page, "window(atom(<1 cpu>, 2, 4, 10m, 60m), 0, 1h)")
        assert axe_faults(page) == []
        page.get_by_role("button", name="Try").click()
        expect(page.locator("dialog[open]")).to_contain_text("It would hold")
        assert small.call("GET", "/v1/reservations/a")["revision"] == 1
        page.get_by_role("button", name="Change it").click()
        expect(page.locator("dialog[open]")).to_have_count(0)
        expect(page.locator("#said")).to_contain_text("It holds")
        assert small.call("GET", "/v1/reservations/a")["revision"] == 2
        expect(page.locator(".facts").first).to_contain_text("revision2")


def test_a_change_that_is_late_is_told(browser: Browser, small: Site) -> None:
    """Where it was changed meanwhile, the dialog shows the problem and keeps what was written."""
    with _open(browser, small, "user") as it:
        page = it.open("/ui/reservations/a")
        rdl = "window(atom(<1 cpu>, 1, 1, 10m, 10m), 0, 1h)"
        _renegotiation(page, rdl)
        small.call("PUT", "/v1/reservations/a", {"rdl": RDL}, If_Match="*")
        page.get_by_role("button", name="Change it").click()
        expect(page.locator("dialog[open]").get_by_role("alert")).to_contain_text("412")
        expect(page.locator("textarea")).to_have_value(rdl)


def test_it_is_cancelled_only_after_a_question(browser: Browser, small: Site) -> None:
    """Escape leaves it as it is; the button cancels it, and the page says so."""
    with _open(browser, small, "user") as it:
        page = it.open("/ui/reservations/a")
        page.get_by_role("button", name="Cancel", exact=True).click()
        page.keyboard.press("Escape")
        assert small.call("GET", "/v1/reservations/a")["state"] == "accepted"
        page.get_by_role("button", name="Cancel", exact=True).click()
        page.get_by_role("button", name="Cancel it").click()
        expect(page.locator(".state")).to_have_text("cancelled")
        expect(page.get_by_role("button", name="Cancel", exact=True)).to_have_count(0)


def test_one_that_runs_is_closed(browser: Browser, small: Site) -> None:
    """What runs can be closed: it counts as completed."""
    small.clock.advance(small.call("GET", "/v1/reservations/a")["begin"] + 60)
    small.call("POST", "/v1/reservations", {"id": "b", "rdl": "atom(<1 cpu>, 1, 1, 60, 60)"})
    assert small.call("GET", "/v1/reservations/a")["state"] == "active"
    with _open(browser, small, "user") as it:
        page = it.open("/ui/reservations/a")
        page.get_by_role("button", name="Close").click()
        page.get_by_role("button", name="Close it").click()
        expect(page.locator(".state")).to_have_text("completed")


def test_a_degraded_one_has_offers(browser: Browser, small: Site) -> None:
    """Under an outage it says that it is degraded, and what would be accepted in its place."""
    rdl = "window(atom(<1 cpu>, 8, 8, 30m, 240m), 0, 40m)"
    small.call("POST", "/v1/reservations", {"id": "d", "rdl": rdl, "tenant": "ads"})
    lost = {"machines": "plain", "count": 6, "end": "+50m"}
    small.call("POST", "/v1/cluster/outages", lost)
    assert small.call("GET", "/v1/reservations/d")["state"] == "degraded"
    with _open(browser, small, "user") as it:
        page = it.open("/ui/reservations/d")
        expect(page.locator(".sentence")).to_contain_text("Degraded")
        expect(page.get_by_role("heading", name="Offers")).to_be_visible()
        expect(page.locator(".offer").first).to_be_visible()
        page.locator(".offer").first.get_by_role("button", name="Preview").click()
        expect(page.locator(".offer .preview").first).to_contain_text("It would hold")
