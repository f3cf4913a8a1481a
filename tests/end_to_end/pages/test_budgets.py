"""What the Plan's page may cost at 10,000 reservations: bytes over the wire, and work of a pan."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from service.web.shell import PAGES, packaged_assets, shell
from tests.end_to_end.pages.browser import visiting
from tests.end_to_end.pages.site import Site, served_site

pytestmark = pytest.mark.browser

#: Bytes, packed: of the page with its modules and styles, and of the data it shows first.
PAGE_BYTES = 60_200
DATA_BYTES = 300_000

#: Elements and texts of the page with all lanes, and calls that draw for a move of the pointer.
NODES = 1_000
DRAWN_BY_A_MOVE = 40_000

CLUSTER = """
step = "60s"
horizon = "29d"

[[machines]]
name = "standard"
count = 400
resources = { cpu = 32, memory = "128 GiB" }

[promises]
level = "pooled"
"""
COUNT = 10_000
MOVES = 30


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return 10,000 reservations of eight tenants over two weeks, three rows or so each."""
    with served_site(tmp_path_factory.mktemp("large"), CLUSTER, agent="earliest") as site:
        for first in range(0, COUNT, 1000):
            site.ask([_request(number) for number in range(first, first + 1000)])
        yield site


def _request(number: int) -> dict[str, str]:
    begin = number * 120
    part = "atom(<1 cpu, 2 GiB memory>, {0}, {0}, {1}, {2})"
    parts = [
        part.format(width, length, width * length)
        for width, length in ((3 + number % 7, 1200), (10 + number % 11, 600), (1, 1800))
    ]
    rdl = f"window(order({', '.join(parts)}), {begin}, {begin + 7200})"
    return {"id": f"t{number % 8}-{number:05d}", "tenant": f"tenant-{number % 8}", "rdl": rdl}


def _packed(body: bytes) -> int:
    packer = zlib.compressobj(1, wbits=31)
    return len(packer.compress(body) + packer.flush())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_with_all_that_it_loads_is_small(page: object) -> None:
    """HTML, styles and modules of each page stay within 60 KB, packed as the server packs them."""
    html = shell(page)  # type: ignore[arg-type]
    assets = packaged_assets()
    names = re.findall(rf"/ui/static/{assets.digest}/([\w-]+/[\w.-]+)", html.decode())
    bodies = [assets.find(*name.split("/")) for name in dict.fromkeys(names)]
    sizes = [_packed(one.body) for one in bodies if one is not None]
    assert len(sizes) >= 10
    assert _packed(html) + sum(sizes) < PAGE_BYTES


def test_data_of_ten_thousand_are_small_and_all_are_there(browser: Browser, large: Site) -> None:
    """Skyline and bars of 10,000 reservations stay within 300 KB on the wire; all are listed."""
    with visiting(browser, large) as it:
        page = it.context.new_page()
        wire = it.context.new_cdp_session(page)
        wire.send("Network.enable")
        sizes: dict[str, float] = {}
        urls: dict[str, str] = {}
        wire.on(
            "Network.responseReceived",
            lambda one: urls.update({one["requestId"]: one["response"]["url"]}),
        )
        wire.on(
            "Network.loadingFinished",
            lambda one: sizes.update({one["requestId"]: one["encodedDataLength"]}),
        )
        page.goto(f"{it.site.url}/ui/?from=0&to=1300000&view=fit")
        page.wait_for_selector("[data-ready]", state="attached", timeout=90_000)
        expect(page.locator("#list-count")).to_have_text("10,000 in this time")
        data = sum(n for id_, n in sizes.items() if "/v1/" in urls.get(id_, ""))
        assert 50_000 < data < DATA_BYTES


def test_of_too_many_a_part_is_shown_and_said(browser: Browser, large: Site) -> None:
    """Where the server sends a part, the page says of how many; closer, or by a word, all."""
    with visiting(browser, large) as it:

        def narrow(route: Route) -> None:
            route.continue_(url=route.request.url.replace("most=10000", "most=300"))

        it.context.route("**/v1/plan/bars?*", narrow)
        page = it.open("/ui/?from=0&to=1300000&view=fit")
        said = page.locator("#list-count")
        expect(said).to_contain_text("300 of 10,000 in this time: come closer, or find")
        assert "spread=true" in page.evaluate(
            "performance.getEntriesByType('resource').map(one => one.name).join()"
        )
        page.locator("#find").fill("t3-0001")
        expect(said).to_have_text("2 in this time")
        page.locator("#find").fill("")
        expect(said).to_contain_text("300 of 10,000")
        page.goto(f"{it.site.url}/ui/?from=0&to=7200")
        expect(said).to_have_text(re.compile(r"^\d\d in this time$"))


#: Counts what is drawn on canvases.
_COUNT_DRAWING = """() => {
  const drawing = CanvasRenderingContext2D.prototype;
  for (const name of ["fillRect", "strokeRect", "fill", "stroke", "fillText", "lineTo", "rect"]) {
    const plain = drawing[name];
    drawing[name] = function (...given) { window.drawn += 1; return plain.apply(this, given); };
  }
}"""


def _drag(page: Page, by: int) -> None:
    """Drag over the middle of the page, a frame a move."""
    page.mouse.move(900, 700)
    page.mouse.down()
    for move in range(MOVES):
        page.mouse.move(900 + by * move, 700)
        page.evaluate("() => new Promise(requestAnimationFrame)")
    page.mouse.up()


def test_a_pan_over_all_lanes_draws_them_and_lays_nothing_out(
    browser: Browser, large: Site
) -> None:
    """Skyline and 10,000 lanes are drawn anew for each frame; the document stays as it is."""
    with visiting(browser, large) as it:
        page = it.open("/ui/?from=0&to=1300000&view=fit")
        expect(page.locator("#list-count")).to_have_text("10,000 in this time")
        before = page.url
        session = it.context.new_cdp_session(page)
        session.send("Performance.enable")
        page.evaluate(_COUNT_DRAWING)

        def work() -> dict[str, float]:
            found = session.send("Performance.getMetrics")["metrics"]
            return {one["name"]: one["value"] for one in found}

        _drag(page, -8)
        first = work()
        page.evaluate("window.drawn = 0")
        _drag(page, -8)
        second = work()
        drawn = page.evaluate("window.drawn")
        page.wait_for_url(lambda url: url != before)
        assert second["LayoutCount"] - first["LayoutCount"] < MOVES / 2
        assert second["Nodes"] < NODES
        assert drawn < DRAWN_BY_A_MOVE * MOVES
