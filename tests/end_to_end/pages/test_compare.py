"""The page Compare: agents side by side on the live Plan or on a file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, expect

from planner.agents import AGENT_NAMES
from tests.end_to_end.pages.browser import axe_faults, picture, visiting
from tests.end_to_end.pages.site import Site, served_site
from tests.end_to_end.pages.small_cluster import TEN_MACHINES

pytestmark = pytest.mark.browser

_LINES: Final = [
    {
        "id": f"{tenant}-{n}",
        "tenant": tenant,
        "rdl": f"window(atom(<1 cpu>, {k}, {k}, 30m, {30 * k}m), {n * 20}m, {n * 20 + 40}m)",
    }
    for n in range(8)
    for tenant, k in (("web", 6), ("ads", 5))
]


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return a small cluster with more requests than it has capacity for."""
    with served_site(tmp_path_factory.mktemp("busy"), TEN_MACHINES) as site:
        site.ask(_LINES)
        yield site


def test_agents_are_set_side_by_side_on_the_plan(browser: Browser, busy: Site) -> None:
    """Figures, bound and gap, a skyline each, who differs; the address brings it back."""
    with visiting(browser, busy, height=1100) as it:
        page = it.open("/ui/compare")
        expect(page.locator("input[name=agent]")).to_have_count(len(AGENT_NAMES))
        page.locator("input[value=exact]").check()
        page.get_by_label("Time for each agent").fill("2m")  # a proof ends it sooner
        page.get_by_role("button", name="Compare", exact=True).click()
        expect(page.locator(".state.running")).to_be_visible()
        expect(page.locator(".state.finished")).to_be_visible()
        expect(page.locator("#said")).to_contain_text("The comparison is finished.")
        table = page.get_by_role("table", name="Agents side by side")
        # As it is; three agents by arrival and with hindsight.
        expect(table.locator("tbody tr")).to_have_count(7)
        expect(page.locator("main")).to_contain_text("exact proves it")
        expect(page.locator("figure.skyline")).to_have_count(6)
        expect(page.locator("figure.skyline path.tenant")).to_have_count(12)
        assert axe_faults(page) == []
        page.locator("h1").scroll_into_view_if_needed()
        picture(page, "compare")
        page.get_by_label("Find an id or tenant").fill("web-")
        page.wait_for_function("location.search.includes('find=web-')")
        address = page.url
        assert re.search("id=c-", address)
        page.goto(address)
        page.wait_for_selector("[data-ready]", state="attached")
        expect(page.locator("figure.skyline")).to_have_count(6)
        expect(page.get_by_label("Find an id or tenant")).to_have_value("web-")


def test_a_file_is_compared_and_its_faults_are_told(
    browser: Browser, busy: Site, tmp_path: Path
) -> None:
    """Faults name their lines before anything is sent; a good file is planned on this cluster."""
    wrong = tmp_path / "wrong.jsonl"
    wrong.write_text('{"id": "a"}\nno json\n[1]\n')
    good = tmp_path / "good.jsonl"
    good.write_text("\n".join(json.dumps({**one, "id": f"new-{one['id']}"}) for one in _LINES))
    with visiting(browser, busy, theme="dark", width=400) as it:
        page = it.open("/ui/compare")
        page.get_by_label("of a workload file").check()
        page.get_by_role("button", name="Compare", exact=True).click()
        expect(page.locator("form [role=alert]")).to_contain_text("Choose a workload file first.")
        page.locator("input[type=file]").set_input_files(wrong)
        expect(page.locator("form ul.trouble li")).to_have_count(2)
        expect(page.locator("form ul.trouble")).to_contain_text("line 2:")
        page.locator("input[type=file]").set_input_files(good)
        expect(page.locator("form")).to_contain_text("16 requests")
        page.get_by_label("Time for each agent").fill("2m")
        page.get_by_role("button", name="Compare", exact=True).click()
        expect(page.locator(".state.finished")).to_be_visible()
        expect(page.locator("main")).to_contain_text("a file of 16 requests")
        expect(page.locator("main")).to_contain_text("exact proves it")
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        assert axe_faults(page) == []


def test_one_is_stopped(browser: Browser, busy: Site) -> None:
    """Stop ends it; what is done is shown."""
    with visiting(browser, busy) as it:
        page = it.open("/ui/compare?agents=gree")
        id_: str = busy.call(
            "POST", "/v1/comparisons", {"agents": ["gree", "milp"], "time_limit": 300}
        )["id"]
        page.goto(f"{busy.url}/ui/compare?id={id_}")
        page.get_by_role("button", name="Stop").click()
        expect(page.locator(".state.stopped, .state.finished")).to_be_visible()


def test_every_agent_of_the_planner_is_offered(browser: Browser, day: Site) -> None:
    """The page names the planner's agents, each once."""
    with visiting(browser, day) as it:
        page = it.open("/ui/compare")
        named: list[Any] = page.locator("input[name=agent]").evaluate_all(
            "boxes => boxes.map(box => box.value)"
        )
        assert sorted(named) == sorted(AGENT_NAMES)
