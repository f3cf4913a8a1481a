"""The Plan: pictures, keys, lists, the address, and what is saved of them."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from PIL import Image
from playwright.sync_api import Page, expect

from tests.end_to_end.pages.browser import picture
from tests.end_to_end.pages.site import Site
from tests.patience import eventually

pytestmark = pytest.mark.browser


def _colours(page: Page, selector: str) -> set[tuple[int, ...]]:
    """Return the colours of a canvas that cover more than a few pixels."""
    shot = page.locator(selector).screenshot()
    with Image.open(io.BytesIO(shot)) as image:
        found = image.convert("RGB").getcolors(1 << 24)
    assert found is not None
    return {colour for n, colour in found if n > 60}


def _token(page: Page, name: str) -> tuple[int, ...]:
    """Return the colour that a token has now."""
    text = page.evaluate(
        """name => { const one = document.createElement("i"); document.body.append(one);
        one.style.color = `var(--${name})`; const found = getComputedStyle(one).color;
        one.remove(); return found; }""",
        name,
    )
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])


def _span(page: Page) -> tuple[float, float]:
    """Return the time in the address, which follows what is shown."""
    return _times(page.url)


def _times(url: str) -> tuple[float, float]:
    found = dict(re.findall(r"(from|to)=([\d.]+)", url))
    return float(found["from"]), float(found["to"])


def _length(url: str) -> float:
    start, end = _times(url)
    return end - start


@pytest.fixture(scope="module")
def shown(day: Site) -> int:
    """Return how many hold something in what the Plan shows first: 8:00 to the day's horizon."""
    start, end = 8 * 3600, 33 * 3600
    return sum(
        any(
            start < to and since < end
            for atom in one["atoms"]
            for since, to, _ in atom["allocation"]
        )
        for one in day.reservations()
        if one["state"] != "refused"
    )


def _refused(day: Site) -> int:
    return sum(one["state"] == "refused" for one in day.reservations())


def _moved(page: Page, key: str) -> tuple[float, float]:
    """Press a key that moves the time; return what is shown then."""
    before = page.url
    page.keyboard.press(key)
    page.wait_for_url(lambda url: url != before)
    return _span(page)


def test_it_shows_the_scarcest_resource_by_tenant(visit: Any, day: Site, shown: int) -> None:
    """Skyline and lanes have every tenant's colour; counts and the present are there."""
    with visit() as it:
        page = it.open("/ui/")
        picture(page, "plan-light")
        expect(page.locator("input[name=resource]:checked")).to_have_value("cpu")
        tenants = {_token(page, f"t{slot}") for slot in range(6)}
        assert tenants <= _colours(page, "#skyline")
        assert _token(page, "now") in _colours(page, "#skyline")
        refused = _refused(day)
        expect(page.locator("#counts")).to_contain_text(f"{400 - refused}accepted")
        expect(page.locator("#counts")).to_contain_text(f"{refused}refused")
        expect(page.locator("#list-count")).to_have_text(f"{shown} in this time")
        expect(page.locator(".status")).to_contain_text(re.compile(r"Machines\s*\d+ of \d+ up"))


def test_keys_move_time_and_the_address_follows(visit: Any) -> None:
    """Arrows pan, signs zoom, 0 shows all, n the present; a reload shows the same."""
    with visit() as it:
        page = it.open("/ui/?from=36000&to=72000")
        assert _moved(page, "ArrowRight") == (39600, 75600)
        assert _moved(page, "ArrowLeft") == (36000, 72000)
        assert _moved(page, "+") == (41400, 66600)
        assert _moved(page, "-") == (36000, 72000)
        start, end = _moved(page, "n")
        assert abs((start + end) / 2 - 9 * 3600) < 120
        assert _moved(page, "0") == (0, 33 * 3600)
        page.reload()
        page.wait_for_selector("[data-ready]", state="attached")
        assert _span(page) == (0, 33 * 3600)


def test_a_reservation_is_chosen_opened_and_left_by_keys(visit: Any, shown: int) -> None:
    """What is chosen is said; Enter opens it beside, Escape closes it and the focus comes back."""
    with visit() as it:
        page = it.open("/ui/?order=begin")
        page.locator("#gantt").focus()
        for key in ("ArrowDown", "ArrowDown", "End", "Home", "PageDown", "PageUp"):
            page.keyboard.press(key)
        expect(page.locator("#said")).to_contain_text(
            re.compile(rf"^1 of {shown}: .* tenant .* window")
        )
        page.keyboard.press("Enter")
        expect(page.locator("#pane .sentence")).to_be_visible()
        expect(page.locator("#pane-title")).to_be_focused()
        assert "sel=" in page.url
        picture(page, "plan-pane")
        page.keyboard.press("Escape")
        expect(page.locator("#pane")).to_be_hidden()
        expect(page.locator("#gantt")).to_be_focused()


def test_lists_are_found_ordered_and_shown_as_tables(visit: Any, day: Site, shown: int) -> None:
    """Words, an order, a tenant alone, all lanes, tables of pages, and what was refused."""
    with visit() as it:
        page = it.open("/ui/")
        page.keyboard.press("/")
        page.keyboard.type("ml-1")
        expect(page.locator("#list-count")).to_have_text("9 in this time")
        page.keyboard.press("Escape")
        expect(page.locator("#gantt")).to_be_focused()
        page.locator("#order").select_option("begin")
        page.keyboard.press("b")
        expect(page.locator("#list-rows tbody tr")).to_have_count(9)
        page.locator("#find").fill("")
        page.keyboard.press("Escape")
        page.keyboard.press("2")
        expect(page.locator("#said")).to_have_text("search alone")
        tenants = page.locator("#list-rows tbody tr td:nth-child(2)")
        assert eventually(lambda: set(tenants.all_inner_texts()), lambda seen: seen == {"search"})
        page.keyboard.press("2")
        page.get_by_role("button", name="Next").click()
        expect(page.locator(".pager")).to_contain_text(f"51–100 of {shown}")
        page.keyboard.press("f")
        expect(page.locator("#gantt")).to_be_visible()
        page.keyboard.press("x")
        expect(page.locator("#list-rows tbody tr")).to_have_count(_refused(day))


def test_the_skyline_has_words_and_a_table(visit: Any) -> None:
    """A pointer or arrows on it say what is held; its table has the layers of two dozen times."""
    with visit() as it:
        page = it.open("/ui/?from=36000&to=72000")
        page.locator("#skyline").hover(position={"x": 300, "y": 100})
        expect(page.locator("#skyline-says")).to_contain_text(
            re.compile(r"Mon,? 5 Jan \d\d:\d\d · [\d,]+ of 1,024 cores")
        )
        page.locator("#skyline").focus()
        page.keyboard.press("ArrowRight")
        expect(page.locator("#said")).to_contain_text("of 1,024 cores")
        page.locator("#skyline-table").click()
        expect(page.locator("#skyline-rows tbody tr").nth(14)).to_be_attached()
        head = page.locator("#skyline-rows th").all_inner_texts()
        assert head[:3] == ["time", "capacity", "held"]
        assert set(head[3:]) == {"ads", "search", "ml", "insights", "feed", "platform"}
        assert page.locator("#skyline-rows tbody tr").count() <= 30


def test_an_address_that_makes_no_sense_is_told_or_left_out(visit: Any, shown: int) -> None:
    """A time that is none shows the present; a resource or id that there is not is reported."""
    with visit() as it:
        page = it.open("/ui/?from=then&to=5&order=no&view=no&sel=nothing")
        expect(page.locator("#list-count")).to_have_text(f"{shown} in this time")
        expect(page.locator("#pane")).to_contain_text("there is no reservation 'nothing'")
        page = it.open("/ui/?resource=cpus")
        expect(page.locator("#trouble")).to_contain_text("there is no resource 'cpus'")


def test_another_resource_and_division(visit: Any) -> None:
    """Memory has its unit; layers may stand for queues, and the address says so."""
    with visit() as it:
        page = it.open("/ui/")
        page.get_by_label("memory").check()
        expect(page.locator("#skyline-says")).to_contain_text("TiB memory reserved")
        page.locator("#by").select_option("queue")
        expect(page.locator("#legend button")).to_have_text(["batch", "interactive"])
        assert "resource=memory" in page.url
        assert "by=queue" in page.url


def test_the_pointer_moves_time(visit: Any) -> None:
    """A drag pans; Ctrl and the wheel zoom at the pointer; a press opens a reservation."""
    with visit() as it:
        page = it.open("/ui/?from=36000&to=72000")
        box = page.locator("#gantt").bounding_box()
        assert box is not None
        x, y = box["x"] + 400, box["y"] + 100
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x - 100, y, steps=4)
        page.mouse.up()
        page.wait_for_url(lambda url: "from=36000&" not in url)
        start, end = _span(page)
        assert start > 36000
        assert end - start == 36000
        page.keyboard.down("Control")
        page.mouse.wheel(0, -200)
        page.keyboard.up("Control")
        page.wait_for_url(lambda url: "&to=" in url and _length(url) < 36000)
        page.mouse.click(box["x"] + 200, box["y"] + 12)
        expect(page.locator("#pane")).to_be_visible()


def test_what_is_seen_can_be_saved(visit: Any) -> None:
    """PNG has the size of the pictures; SVG has every tenant's colour, and text as text."""
    with visit(accept_downloads=True) as it:
        page = it.open("/ui/")
        with page.expect_download() as saved:
            page.locator("#save-png").click()
        assert re.fullmatch(r"plan-2026-01-05T\d{4}\.png", saved.value.suggested_filename)
        with Image.open(saved.value.path()) as image:
            assert image.width > 1000
            assert image.height > 600
        with page.expect_download() as saved:
            page.locator("#save-svg").click()
        text = saved.value.path().read_text(encoding="utf-8")
        assert all(f"rgb{_token(page, f't{n}')}" in text for n in range(6))
        assert ">now</text>" in text


def test_it_is_printed_without_its_buttons(visit: Any) -> None:
    """On paper there are pictures and no tools."""
    with visit() as it:
        page = it.open("/ui/")
        page.emulate_media(media="print")
        expect(page.locator("#skyline")).to_be_visible()
        for tool in ("#theme", "#save-png", "#fit"):
            expect(page.locator(tool)).to_be_hidden()


def test_a_telephone_shows_it(visit: Any) -> None:
    """At 400 pixels both pictures are as wide as the page, and a pane opens over them."""
    with visit(width=400, height=800, theme="dark") as it:
        page = it.open("/ui/")
        box = page.locator("#skyline").bounding_box()
        assert box is not None
        assert box["width"] > 330
        picture(page, "plan-narrow-dark")
        page.locator("#gantt").focus()
        page.keyboard.press("Home")
        page.keyboard.press("Enter")
        expect(page.locator("#pane .sentence")).to_be_in_viewport()


def test_forced_colours_keep_it_readable(visit: Any) -> None:
    """In forced colours the pictures are drawn in the system's colours."""
    with visit(forced_colors="active") as it:
        page = it.open("/ui/")
        assert _token(page, "panel") in _colours(page, "#skyline")


def test_dark(visit: Any) -> None:
    """In the dark theme the skyline has the dark tenants' colours."""
    with visit(theme="dark") as it:
        page = it.open("/ui/")
        picture(page, "plan-dark")
        assert (0x11, 0x84, 0xE2) in _colours(page, "#skyline")
