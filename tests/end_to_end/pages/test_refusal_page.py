"""A refusal: the limit that was binding, and offers that are looked at and taken."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect

from tests.end_to_end.pages.browser import axe_faults, picture, visiting
from tests.end_to_end.pages.site import Site, served_site
from tests.service.conftest import CLUSTER

pytestmark = pytest.mark.browser

WHOLE = "window(atom(<1 cpu>, 10, 10, 30m, 300m), 0, {})"


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Site]:
    """Return ten machines that `a` holds for half an hour; `b` wanted them too."""
    with served_site(tmp_path, CLUSTER, auth="token", offer_s=20.0) as site:
        site.call("POST", "/v1/reservations", _wish("a", "30m"))
        assert site.ask([_wish("b", "45m")]) == [409]
        yield site


def _wish(id_: str, until: str) -> dict[str, str]:
    return {"id": id_, "rdl": WHOLE.format(until), "tenant": "ads"}


def _red(page: Page) -> int:
    """Return how many pixels of the skyline have the colour of what was lacking."""
    with Image.open(io.BytesIO(page.locator(".skyline").screenshot())) as image:
        found = image.convert("RGB").getcolors(1 << 24)
    assert found is not None
    return sum(n for n, colour in found if colour == (0xB3, 0x26, 0x1E))


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("capacity", "cpu is left at"),
        ("lease", "without a break"),
        ("work", "of work"),
        ("machines", "machines hold only"),
    ],
)
def test_what_stood_in_the_way_is_drawn(visit: Any, day: Site, kind: str, said: str) -> None:
    """Capacity, lease, work and machines: the sentence, a mark on the skyline, and its figures."""
    of_kind = (one for one in day.reservations() if one.get("binding", {}).get("kind") == kind)
    id_ = next(of_kind)["id"]
    with visit() as it:
        page = it.open(f"/ui/reservations/{id_}")
        without = page.get_by_text(re.compile("Nothing was found|There is room"))
        expect(page.locator(".offer").first.or_(without)).to_be_visible()
        if kind == "capacity":
            picture(page, "refusal")
        expect(page.locator(".sentence")).to_contain_text(said)
        assert "Z" not in page.locator(".sentence").inner_text()
        assert _red(page) > 100
        expect(page.get_by_text("held there now by")).to_be_visible()


def test_an_offer_is_looked_at_and_taken(browser: Browser, full: Site) -> None:
    """A preview draws a ghost and changes nothing; Accept makes the reservation, once."""
    with visiting(browser, full, walker="user") as it:
        posts: list[str | None] = []
        it.context.on(
            "request",
            lambda one: (
                posts.append(one.headers.get("idempotency-key"))
                if one.method == "POST" and one.url.endswith("/v1/reservations")
                else None
            ),
        )
        page = it.open("/ui/reservations/b")
        assert axe_faults(page) == []
        card = page.locator(".offer", has_text="A later deadline")
        card.get_by_role("button", name="Preview").click()
        expect(card.locator(".preview")).to_contain_text("It would hold")
        expect(page.locator("#said")).to_contain_text("tenant ads, at version")
        assert full.call("GET", "/v1/reservations/b")["state"] == "refused"
        card.get_by_role("button", name="Accept").click()
        expect(page.locator(".state")).to_have_text("accepted")
        expect(page.locator("#said")).to_contain_text("A later deadline: accepted.")
        assert len(posts) == 1
        assert posts[0] is not None


def test_an_offer_that_is_gone_brings_new_ones(browser: Browser, full: Site) -> None:
    """Another user takes the capacity first: the new refusal and its offers are shown, and said."""
    with visiting(browser, full, walker="user") as it:
        page = it.open("/ui/reservations/b")
        card = page.locator(".offer", has_text="A later deadline")
        expect(card).to_contain_text("02:00")
        full.call("POST", "/v1/reservations", _wish("c", "60m"))
        card.get_by_role("button", name="Accept").click()
        expect(page.get_by_role("alert")).to_contain_text("The room is gone meanwhile.")
        expect(page.locator("#said")).to_contain_text("1 new offer.")
        expect(card).to_contain_text("02:30")
        card.get_by_role("button", name="Accept").click()
        expect(page.locator(".state")).to_have_text("accepted")


def test_where_there_is_room_again_the_request_is_asked_again(browser: Browser, full: Site) -> None:
    """When the capacity was released, the page offers the request as it is."""
    full.call("DELETE", "/v1/reservations/a")
    with visiting(browser, full, walker="user") as it:
        page = it.open("/ui/reservations/b")
        page.get_by_role("button", name="Request again").click()
        expect(page.locator(".state")).to_have_text("accepted")
