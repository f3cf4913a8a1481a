"""Pipelines: runs by stage, one run on its time line, its logs, and a run again."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Browser, expect

from tests.end_to_end.pages.browser import Theme, axe_faults, visiting
from tests.end_to_end.pages.site import Site, served_site
from tests.end_to_end.pages.small_cluster import TEN_MACHINES

pytestmark = pytest.mark.browser

_RDL: Final = (
    "every(30m, window(order(extract: atom(<1 cpu>, 1, 1, 10m, 10m), "
    "publish: atom(<1 cpu>, 1, 1, 10m, 10m)), 0, 20m), times=4)"
)
_JOB: Final = {
    "id": "nightly",
    "rdl": _RDL,
    "stages": {"extract": {"command": "x"}, "publish": {"command": "y"}},
    "overlap": "skip",
}


@contextmanager
def pipeline_site(folder: Path) -> Iterator[Site]:
    """Serve a pipeline whose first run succeeded, and whose second one failed."""
    with served_site(folder, TEN_MACHINES, executors=True, lease_s=3600.0) as site:
        machines = [one["name"] for one in site.call("GET", "/v1/machines")["machines"]]
        site.call("PUT", "/v1/executors/e", {"instance": "i", "machines": machines})
        site.call("POST", "/v1/pipelines", _JOB)
        for code in (0, 0, 3):
            site.runtime.dispatcher.tick()
            end(site, code)
            site.runtime.dispatcher.tick()
            site.clock.advance(15 * 60)
        yield site


def end(site: Site, code: int) -> None:
    """End what is wanted with a code, as its executor, after it wrote a line."""
    path = "/v1/executors/e"
    wanted = site.call("POST", f"{path}/sync", {"instance": "i", "runs": []})["wanted"]
    text = b64encode(f"it ends with {code}\n".encode()).decode()
    pieces = [{"run": one["id"], "stream": "stdout", "start": 0, "body": text} for one in wanted]
    site.call("POST", f"{path}/logs", {"instance": "i", "pieces": pieces})
    state = "failed" if code else "exited"
    runs = [{"id": one["id"], "state": state, "code": code} for one in wanted]
    site.call("POST", f"{path}/sync", {"instance": "i", "runs": runs})


@pytest.mark.parametrize(("width", "theme"), [(1400, "dark"), (400, "light")])
def test_runs_by_stage_lead_to_their_logs(
    browser: Browser, tmp_path: Path, width: int, theme: Theme
) -> None:
    """A cell shows its run and what its stage wrote; the address keeps it; all of it fits."""
    with pipeline_site(tmp_path) as site, visiting(browser, site, width=width, theme=theme) as it:
        page = it.open("/ui/pipelines")
        page.get_by_role("link", name="nightly").click()
        expect(page.get_by_role("button", name="Run 0, extract: done")).to_be_visible()
        expect(page.get_by_role("button", name="Run 1, publish: failed")).to_be_visible()
        expect(page.locator("#run")).to_contain_text("Run 1: failed; deadline ")
        expect(page.locator(".log")).to_have_text("it ends with 3\n")
        page.get_by_role("button", name="Run 0, extract: done").click()
        expect(page.locator("#run")).to_contain_text("Run 0: succeeded")
        expect(page.locator(".log")).to_have_text("it ends with 0\n")
        expect(page.locator(".track .promise")).to_have_count(2)
        expect(page.locator(".track .ran")).to_have_count(2)
        assert page.url.endswith("?run=0&stage=extract")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert axe_faults(page) == []


def test_a_run_is_run_again_and_a_pipeline_cancelled(browser: Browser, tmp_path: Path) -> None:
    """Only a run that failed offers it; a cancelled pipeline says why none follows."""
    with pipeline_site(tmp_path) as site, visiting(browser, site) as it:
        page = it.open("/ui/pipelines/nightly?run=0")
        again = page.get_by_role("button", name="Run again")
        expect(again).to_be_hidden()
        page.get_by_role("button", name="Run 1, extract: failed").click()
        again.click()
        expect(page.locator("#run")).to_contain_text("Run 1: running")
        (run, _) = site.call("GET", "/v1/pipelines/nightly/runs")["runs"]
        assert [one["attempt"] for one in run["stages"]] == [2, 2]
        page.get_by_role("button", name="Cancel").click()
        page.get_by_role("button", name="Cancel it").click()
        expect(page.locator("#said")).to_contain_text("nightly is cancelled.")
        site.runtime.dispatcher.tick()
        site.runtime.dispatcher.tick()
        page.reload()
        expect(page.locator("#why")).to_contain_text("its reservation is cancelled")
        (run, _) = site.call("GET", "/v1/pipelines/nightly/runs")["runs"]
        assert {one["state"] for one in run["stages"]} <= {"killed", "failed"}
