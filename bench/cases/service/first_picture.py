"""`first_picture`: how long a browser takes until the Plan's page has drawn what it shows first.

From the address on, over HTTP on loopback, until skyline and lanes are drawn: 400 reservations of a
day, 10,000 of two weeks with all lanes in view, and 100,000, of which the page draws a part and
says of how many. First with nothing kept by the browser, then with the page's own files kept, as
on the second day. Needs Debian's Chromium and playwright (extra `dev`). Target: 1 s at 10,000.
"""

from __future__ import annotations

import json
import shutil
import socket
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.cases.service.load.posting import message, read_answer
from bench.cases.service.load.processes import served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext

NAME = "first_picture"

#: Reservations, and the days over which they begin.
_SIZES: Final = ((400, 1), (10_000, 14), (100_000, 14))
_SMALL: Final = ((100, 1),)
_RUNS: Final = 7
_BATCH: Final = 10_000

_CLUSTER: Final = """
step = "60s"
horizon = "29d"

[promises]
level = "pooled"

[[machines]]
name = "plain"
count = 2000
resources = { cpu = 32, memory = "128 GiB" }
"""

#: Notes when the page is ready and the frame after that is drawn, ms since the address.
_LISTEN: Final = """
new MutationObserver((_, watch) => {
  if (document.body?.dataset.ready === undefined) return;
  watch.disconnect();
  requestAnimationFrame(() => setTimeout(() => { window.drawn = performance.now(); }));
}).observe(document, { attributes: true, childList: true, subtree: true });
"""

_DRAWN: Final = """async () => {
  while (window.drawn === undefined) await new Promise(requestAnimationFrame);
  return window.drawn;
}"""

#: Bytes over the wire of what was loaded: data, and the page itself.
_BYTES: Final = """() => {
  const sums = { data: 0, page: performance.getEntriesByType("navigation")[0].transferSize };
  for (const one of performance.getEntriesByType("resource"))
    sums[one.name.includes("/v1/") ? "data" : "page"] += one.transferSize;
  return sums;
}"""


def run(small: bool) -> dict[str, Any]:
    """Return median and most ms until the first picture by size, and KB over the wire."""
    sizes, runs = (_SMALL, 1) if small else (_SIZES, _RUNS)
    params = {"reservations": [size for size, _ in sizes], "runs": runs, "target_ms": 1000}
    program = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        return {"params": params, "figures": {"skipped": "playwright is not installed"}}
    if program is None:
        return {"params": params, "figures": {"skipped": "Debian's chromium is not here"}}
    figures: dict[str, Any] = {}
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        for size, days in sizes:
            figures[str(size)] = _measured(browser, size, days, runs)
        browser.close()
    return {"params": params, "figures": figures}


def _measured(browser: Browser, size: int, days: int, runs: int) -> dict[str, Any]:
    """Serve so many reservations and look at them again and again."""
    with tempfile.TemporaryDirectory(prefix="agenda-bench-") as name:
        cluster = Path(name) / "cluster.toml"
        cluster.write_text(_CLUSTER)
        database = f"sqlite:///{cluster.with_name('picture')}.db"
        with served("service", database, cluster, workers=1, threads=8) as server:
            for batch in _batches(size, days):
                _post(server.port, batch)
            address = f"http://127.0.0.1:{server.port}/ui/?from=0&to={days * 86_400}&view=fit"
            _looked(browser, address, 1)  # windows of requests are read at the first answer
            new = [one for _ in range(runs) for one in _looked(browser, address, 1)]
            kept = _looked(browser, address, runs + 1)[1:]
    return {"new": _summary(new), "kept": _summary(kept), "list": new[-1]["list"]}


def _looked(browser: Browser, address: str, times: int) -> list[dict[str, Any]]:
    """Open an address so many times in one fresh profile."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    context.add_init_script(_LISTEN)
    seen = [_opened(context, address) for _ in range(times)]
    context.close()
    return seen


def _opened(context: BrowserContext, address: str) -> dict[str, Any]:
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector("[data-ready]", state="attached", timeout=120_000)
    drawn = page.evaluate(_DRAWN)
    seen: dict[str, Any] = page.evaluate(_BYTES)
    seen["ms"] = drawn
    seen["list"] = page.locator("#list-count").inner_text()
    page.close()
    return seen


def _summary(seen: list[dict[str, Any]]) -> dict[str, float]:
    times = [one["ms"] for one in seen]
    return {
        "median_ms": round(statistics.median(times)),
        "most_ms": round(max(times)),
        "data_kb": round(seen[-1]["data"] / 1000, 1),
        "page_kb": round(seen[-1]["page"] / 1000, 1),
    }


def _batches(size: int, days: int) -> Iterator[list[str]]:
    """Yield requests of eight tenants, three rows or so each, that begin evenly over the days."""
    every = days * 86_400 / size
    for first in range(0, size, _BATCH):
        yield [_request(number, every) for number in range(first, min(first + _BATCH, size))]


def _request(number: int, every: float) -> str:
    begin = round(number * every / 60) * 60
    parts = ", ".join(
        f"atom(<1 cpu, 2 GiB memory>, {width}, {width}, {length}, {width * length})"
        for width, length in ((3 + number % 7, 1200), (10 + number % 11, 600), (1, 1800))
    )
    rdl = f"window(order({parts}), {begin}, {begin + 7200})"
    return json.dumps({"id": f"r-{number:06d}", "tenant": f"tenant-{number % 8}", "rdl": rdl})


def _post(port: int, lines: list[str]) -> None:
    body = "\n".join(lines).encode()
    sent = message(body, "application/x-ndjson", "/v1/reservations:batch")
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(sent)
        results = json.loads(read_answer(connection)[1])["results"]
    granted = sum(one["status"] == 201 for one in results)
    if granted < len(lines):
        raise RuntimeError(f"granted {granted} of {len(lines)}")
