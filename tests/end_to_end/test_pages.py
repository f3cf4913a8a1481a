"""Pages as Debian's Chromium lays them out: nothing sticks out, everything drawn has a size."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from PIL import Image

from service.cli.main import main
from tests.end_to_end.server_process import Client, serving

pytestmark = pytest.mark.browser

CLUSTER = """
step = "60s"
horizon = "1h"

[[machines]]
name = "m"
count = 4
resources = { cpu = 4 }
"""

#: Asked of the page once it is laid out; the answer is left in the title, which a dump shows.
_MEASURE = """<script>addEventListener("load", () => {
  const sizes = (what) => [...document.querySelectorAll(what)].map((one) => {
    const box = one.getBoundingClientRect(); return [box.width, box.height]; });
  document.title = JSON.stringify({
    inside: innerWidth, wide: document.documentElement.scrollWidth,
    headings: [...document.querySelectorAll("h1, h2")].map((one) => one.textContent),
    calls: document.querySelectorAll("details[id] > summary").length,
    pictures: sizes("svg"), tables: sizes("table") }); });</script>"""


def _chromium(page: str, folder: Path, width: int, *more: str) -> str:
    """Run Chromium on a page; return what it prints."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("no chromium: apt-get install chromium")
    arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
    arguments += [f"--user-data-dir={folder / 'profile'}", f"--window-size={width},1600"]
    done = subprocess.run(
        [program, *arguments, *more, page], capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout


def _laid_out(html: str, folder: Path, width: int) -> dict[str, Any]:
    """Return what a page measures in a window of that many pixels."""
    file = folder / "measured.html"
    file.write_text(html.replace("</head>", f"{_MEASURE}</head>", 1), encoding="utf-8")
    found = re.search(
        r"<title>(.*?)</title>", _chromium(file.as_uri(), folder, width, "--dump-dom")
    )
    assert found is not None
    measured: dict[str, Any] = json.loads(unescape(found[1]))
    return measured


def _colours(page: str, folder: Path) -> int:
    """Return how many colours a screenshot of a page has; it stays in the folder."""
    shot = folder / "page.png"
    _chromium(page, folder, 1280, f"--screenshot={shot}")
    with Image.open(shot) as image:
        found = image.convert("RGB").getcolors(1 << 24)
    assert found is not None
    return len(found)


def _is_drawn(measured: dict[str, Any]) -> bool:
    sizes = measured["pictures"] + measured["tables"]
    return all(width > 100 and height > 20 for width, height in sizes)


@pytest.mark.parametrize("width", [1280, 500])
def test_a_comparison_fits_its_window_and_draws_every_plan(tmp_path: Path, width: int) -> None:
    """A skyline of each agent and every table have a size; nothing makes the page scroll aside."""
    cluster, workload, report = (tmp_path / name for name in ("c.toml", "w.jsonl", "r.html"))
    cluster.write_text(CLUSTER)
    window = "window(atom(<1 cpu>, 8, 8, 5m, 2400), 0, {}m)"
    lines = [{"id": f"r{n}", "tenant": "ab"[n % 2], "rdl": window.format(6 + n)} for n in range(5)]
    workload.write_text("".join(json.dumps(line) + "\n" for line in lines))
    given = [cluster, workload, "--agents", "gree,gree-l,earliest", "--html", report]
    done = CliRunner().invoke(main, ["compare", *map(str, given)])
    assert done.exit_code == 0, done.output

    measured = _laid_out(report.read_text(encoding="utf-8"), tmp_path, width)
    assert measured["wide"] <= measured["inside"]
    assert len(measured["pictures"]) == 3
    assert _is_drawn(measured)
    assert "Skylines" in measured["headings"]
    assert _colours(report.as_uri(), tmp_path) > 20


def test_the_description_of_a_server_is_a_page(tmp_path: Path) -> None:
    """`/docs` of a running server lists every call of its `/openapi.json`, inside the window."""
    cluster = tmp_path / "c.toml"
    cluster.write_text(CLUSTER)
    with serving(tmp_path / "agenda.db", cluster) as server:
        described = Client(server.port).call("GET", "/openapi.json")[1]
        html = Client(server.port).text("/docs")
        page = f"http://127.0.0.1:{server.port}/docs"
        shown = unescape(_chromium(page, tmp_path, 1280, "--dump-dom"))
        assert _colours(page, tmp_path) > 20
    assert [path for path in described["paths"] if path not in shown] == []
    measured = _laid_out(html, tmp_path, 1280)
    assert measured["wide"] <= measured["inside"]
    assert _is_drawn(measured)
    assert measured["calls"] == sum(len(calls) for calls in described["paths"].values())
