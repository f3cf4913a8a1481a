"""The page Ask: writing a request, what it means, trying it, asking for it, taking an offer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, Locator, Page, Request, Route, expect

from tests.end_to_end.pages.browser import Visit, axe_faults, picture, visiting
from tests.end_to_end.pages.site import Site, served_site
from tests.end_to_end.pages.small_cluster import TEN_MACHINES
from tests.patience import eventually

pytestmark = pytest.mark.browser

#: With a queue.
CLUSTER: Final = TEN_MACHINES + '\n[[queues]]\nname = "batch"\n'

FITS: Final = (
    "window(\n  order(\n    a: atom(<1 cpu>, 1, 2, 10m, 20m),\n"
    "    atom(<1 cpu>, 3, 3, 10m, 30m)\n  ),\n  +5m, +3h\n)"
)
#: Much of the example cluster, in the late morning.
BROAD: Final = (
    "# first the extraction, then the training\nwindow(\n  order(\n"
    "    extract: atom(<1 cpu, 1 GiB memory>, 1, 200, 10m, 60h),\n"
    "    train: atom(<4 cpu>, 30, 30, 40m, 20h)\n  ),\n  +5m, +6h\n)"
)
WRONG: Final = (
    "window(\n  order(\n    atom(<1 cpu>, min=1, max=10, lease=240, work=2400),\n"
    "    atm(<1 cpu>, min=30, max=20, lease=120, work=2400)\n  ), 0, 800)"
)
#: All of the cluster for an hour, within an hour and twenty minutes.
WIDE: Final = "window(atom(<1 cpu>, 10, 10, 1h, 10h), +10m, +95m)"


@pytest.fixture
def small(tmp_path: Any) -> Iterator[Site]:
    """Return a small cluster whose Plan a test may change."""
    with served_site(tmp_path, CLUSTER) as site:
        yield site


def _write(page: Page, rdl: str) -> None:
    """Write a request and wait until the server has judged it."""
    with page.expect_response("**/v1/rdl/check"):
        page.locator("#rdl").fill(rdl)


def _selected(page: Page) -> str:
    chosen: str = page.evaluate(
        "document.activeElement.value?.slice("
        "document.activeElement.selectionStart, document.activeElement.selectionEnd)"
    )
    return chosen


def _outcome(page: Page) -> Locator:
    return page.locator("#outcome h2")


def test_problems_stand_at_their_places_and_are_gone_to_by_keys(
    visit: Callable[..., Any],
) -> None:
    """Two problems are underlined; Alt+Down goes to one after the other; a fix is one press."""
    with visit() as it:
        page = it.open("/ui/ask")
        _write(page, f"# \U0001f600\n{WRONG}")
        expect(page.locator("#problems li")).to_have_count(2)
        expect(page.locator("#rdl")).to_have_attribute("aria-invalid", "true")
        wrong = "".join(page.locator("#copy .wrong").all_text_contents())
        assert wrong == "atm(<1 cpu>, min=30, max=20, lease=120, work=2400)"
        page.locator("#rdl").evaluate("area => area.setSelectionRange(0, 0)")
        page.locator("#rdl").press("Alt+ArrowDown")
        assert _selected(page) == "atm"
        expect(page.locator("#said")).to_contain_text("unknown operator 'atm'")
        page.get_by_role("button", name="Write atom").click()
        expect(page.locator("#problems")).not_to_contain_text("unknown operator")
        copied = page.locator("#copy")
        assert eventually(lambda: copied.inner_text().count("atom("), lambda count: count == 2)
        page.locator("#problems button", has_text="min 30").first.click()
        assert _selected(page).startswith("atom(<1 cpu>, min=30")


def test_the_meaning_and_the_parts_lead_to_the_text(visit: Callable[..., Any]) -> None:
    """What it means is said in words; a part that is pressed is selected in the text."""
    with visit() as it:
        page = it.open("/ui/ask")
        _write(page, FITS)
        expect(page.locator("#outline")).to_contain_text("at least 20m")
        page.locator(".outline li[data-path='0.0'] button").click()
        assert _selected(page) == "atom(<1 cpu>, 1, 2, 10m, 20m)"
        _write(page, WRONG)
        expect(page.get_by_text("This is what was read before")).to_be_visible()


def test_what_is_written_is_text_and_never_html(visit: Callable[..., Any]) -> None:
    """A request that looks like HTML stays what it is, in the copy and in messages."""
    with visit() as it:
        page = it.open("/ui/ask")
        evil = '<img src=x onerror="window.hit=1">'
        _write(page, evil)
        expect(page.locator("#problems li").first).to_be_visible()
        expect(page.locator("#copy")).to_have_text(evil)
        assert page.locator("main img").count() == 0
        assert page.evaluate("window.hit") is None


def test_a_preview_asks_for_nothing(visit: Callable[..., Any], day: Site) -> None:
    """Ctrl+Enter tries the request: a ghost, a sentence, and the Plan as it was."""
    with visit(height=1180) as it:
        page = it.open("/ui/ask")
        before = day.call("GET", "/v1/plan/export")["version"]
        _write(page, BROAD)
        page.locator("#rdl").press("Control+Enter")
        expect(_outcome(page)).to_have_text("It would be accepted")
        expect(page.locator("#said")).to_contain_text("It would be accepted")
        expect(page.locator("#ghost-says")).to_contain_text("what the request would take")
        assert page.evaluate("document.activeElement.id") == "rdl", "one goes on writing"
        assert day.call("GET", "/v1/plan/export")["version"] == before
        picture(page, "ask")
        page.locator("#skyline-table").click()
        expect(page.locator("#skyline-rows table")).to_be_visible()
        page.locator("#rdl").press("End")
        page.locator("#rdl").type(" ")
        expect(_outcome(page)).to_have_count(0)


def test_asking_takes_the_button_and_a_key(browser: Browser, small: Site) -> None:
    """Only Ask asks. Where no answer comes, the same request goes again under the same key."""
    keys: list[str] = []

    def lose(route: Route, request: Request) -> None:
        if request.method == "POST" and "dry_run" not in request.url:
            keys.append(request.headers["idempotency-key"])
            if len(keys) == 1:
                route.fetch()  # the server has it, and its answer is lost
                route.abort()
                return
        route.continue_()

    with visiting(browser, small) as it:
        page = it.open("/ui/ask?tenant=ads&queue=batch")
        _write(page, FITS)
        page.locator("#fields input").last.press("Enter")  # a form sent by Enter is a preview
        expect(_outcome(page)).to_have_text("It would be accepted")
        page.route("**/v1/reservations", lose)
        page.locator("#ask").click()
        expect(page.locator("#outcome .trouble")).to_contain_text("granted once")
        page.locator("#ask").click()
        expect(_outcome(page)).to_contain_text("Accepted: ")
        assert len(keys) == 2
        assert keys[0] == keys[1]
        listed = small.call("GET", "/v1/reservations")["reservations"]
        assert [one["tenant"] for one in listed] == ["ads"], "asked for twice, granted once"
        page.locator("#outcome a").click()
        expect(page).to_have_url(f"{small.url}/ui/reservations/{listed[0]['id']}")


def _refused(it: Visit) -> Page:
    page = it.open("/ui/ask?tenant=ads&queue=batch&id=wide")
    _write(page, WIDE)
    page.locator("#ask").click()
    expect(_outcome(page)).to_have_text("Refused: wide")
    return page


def _fill(small: Site, *, begin: str = "40m", end: str = "50m", id_: str = "early") -> None:
    rdl = f"window(atom(<1 cpu>, 5, 5, 10m, 50m), {begin}, {end})"
    body = {"id": id_, "tenant": "web", "queue": "batch", "rdl": rdl}
    small.call("POST", "/v1/reservations", body)


def test_a_no_shows_why_and_an_offer_is_taken(browser: Browser, small: Site) -> None:
    """The part that has no room is marked; an offer is drawn, then accepted, under the same id."""
    _fill(small)
    with visiting(browser, small) as it:
        page = _refused(it)
        expect(page.locator("#copy .bound").first).to_be_attached()
        offer = page.locator(".offer").first
        offer.get_by_role("button", name="Preview").click()
        expect(offer.locator(".preview")).to_contain_text("It would hold")
        expect(page.locator("#ghost-says")).to_contain_text("what the request would take")
        assert axe_faults(page) == []
        offer.get_by_role("button", name="Accept").click()
        expect(_outcome(page)).to_have_text("Accepted: wide")
        expect(page.locator("#said")).to_contain_text("Accepted as wide")
    assert small.call("GET", "/v1/reservations/wide")["state"] == "accepted"


def test_an_offer_that_is_gone_becomes_new_offers(browser: Browser, small: Site) -> None:
    """Another user takes the room: a new refusal and new offers, said aloud; one is accepted."""
    _fill(small)
    with visiting(browser, small) as it:
        page = _refused(it)
        accept = page.locator(".offer", has_text="later deadline").get_by_role(
            "button", name="Accept"
        )
        expect(accept).to_be_visible()
        _fill(small, begin="90m", end="100m", id_="second")
        _fill(small, begin="130m", end="140m", id_="third")
        accept.click()
        expect(page.locator("#said")).to_contain_text("The offer is gone.")
        expect(page.locator("#said")).to_contain_text("new offer")
        expect(_outcome(page)).to_contain_text("Refused")
        page.locator(".offer").first.get_by_role("button", name="Accept").click()
        expect(_outcome(page)).to_contain_text("Accepted")


def test_what_no_plan_could_hold_has_offers_too(browser: Browser, small: Site) -> None:
    """A window that is too short is refused by the compiler; a later deadline is offered."""
    with visiting(browser, small) as it:
        page = it.open("/ui/ask?tenant=ads")
        _write(page, "window(atom(<1 cpu>, 2, 2, 1h, 2h), +10m, +50m)")
        expect(page.locator("#problems li")).to_have_count(1)
        page.locator("#preview").click()
        expect(_outcome(page)).to_have_text("It would be refused")
        expect(page.locator(".offer").first).to_be_visible()


def test_a_preview_follows_the_plan(browser: Browser, small: Site) -> None:
    """Where others take the capacity meanwhile, the preview says so by itself."""
    with visiting(browser, small) as it:
        page = it.open("/ui/ask?tenant=ads")
        page.wait_for_selector("#live[data-state=live]")
        _write(page, WIDE)
        page.locator("#rdl").press("Control+Enter")
        expect(_outcome(page)).to_have_text("It would be accepted")
        _fill(small)
        expect(_outcome(page)).to_have_text("It would be refused")
        expect(page.locator("#said")).to_contain_text("The Plan has changed.")


def test_the_address_brings_back_what_was_written(visit: Callable[..., Any]) -> None:
    """A link holds the request and whose it is."""
    with visit() as it:
        page = it.open("/ui/ask")
        _write(page, FITS)
        page.locator("#fields input").nth(1).fill("2.5")
        page.wait_for_function("location.search.includes('weight=2.5')")
        page.reload()
        page.wait_for_selector("[data-ready]", state="attached")
        expect(page.locator("#rdl")).to_have_value(FITS)
        expect(page.locator("#fields input").nth(1)).to_have_value("2.5")


def test_a_picture_shows_what_is_written(visit: Callable[..., Any]) -> None:
    """The picture that is saved holds the values of fields, and the request once."""
    with visit(accept_downloads=True) as it:
        page = it.open("/ui/ask")
        _write(page, FITS)
        page.locator("#fields input").nth(1).fill("2.5")
        with page.expect_download() as saved:
            page.locator("#save-svg").click()
        text = saved.value.path().read_text(encoding="utf-8")
        assert ">2.5</text>" in text
        assert text.count("30m") == 1


def test_a_user_asks_for_its_own_tenants_only(browser: Browser, guarded_day: Site) -> None:
    """The tenants of others are not offered."""
    with visiting(browser, guarded_day, walker="user") as it:
        page = it.open("/ui/ask")
        tenant = page.locator("#fields select").first
        expect(tenant.locator("option")).to_have_text(["ads"])
        _write(page, FITS)
        page.locator("#rdl").press("Control+Enter")
        expect(_outcome(page)).to_have_text("It would be accepted")


def _said(page: Page, key: str) -> str:
    page.keyboard.press(key)
    return page.locator("#said").inner_text()


def test_the_picture_is_moved_by_keys(visit: Callable[..., Any]) -> None:
    """Time, zoom, now, one layer alone: each key does what the list says, and says it."""
    with visit() as it:
        page = it.open("/ui/ask")
        page.locator("#skyline").focus()
        words = [_said(page, key) for key in ("0", "+", "ArrowRight", "ArrowLeft", "-", "n")]
        assert all(now != before for before, now in pairwise(words))
        assert _said(page, "2").endswith("alone")
        expect(page.locator("#legend button").nth(1)).to_have_attribute("aria-pressed", "true")
        assert _said(page, "2") == "all layers"
        page.keyboard.press("e")
        expect(page.locator("#rdl")).to_be_focused()
        page.keyboard.type("2")
        assert "all layers" in page.locator("#said").inner_text(), "a digit that is written"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nothing_is_wrong_for_those_who_hear_the_page(
    visit: Callable[..., Any], theme: str
) -> None:
    """axe-core finds nothing, with problems and with a refusal, in both themes."""
    with visit(theme=theme) as it:
        page = it.open("/ui/ask")
        _write(page, WRONG)
        expect(page.locator("#problems li")).to_have_count(2)
        assert axe_faults(page) == []
        _write(page, "window(all(big: atom(<32 cpu>, 32, 32, 1h, 32h)), +1h, +3h)")
        page.locator("#rdl").press("Control+Enter")
        expect(_outcome(page)).to_have_text("It would be refused")
        assert axe_faults(page) == []
        if theme == "dark":
            page.locator("h1").scroll_into_view_if_needed()
            picture(page, "ask-refused-dark")


def test_it_is_usable_on_a_narrow_screen(visit: Callable[..., Any]) -> None:
    """Nothing is cut off at 400 px, and the keys are listed."""
    with visit(width=400) as it:
        page = it.open("/ui/ask")
        _write(page, WRONG)
        expect(page.locator("#problems li")).to_have_count(2)
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        page.locator("h1").click()
        page.keyboard.press("?")
        expect(page.locator("#keys")).to_contain_text("The next problem")
