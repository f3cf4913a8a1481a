"""Ask with a priority: who would be displaced is said before, and who was after."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, expect

from tests.end_to_end.pages.browser import axe_faults, on_modules, visiting
from tests.end_to_end.pages.site import served_site
from tests.end_to_end.pages.small_cluster import TEN_MACHINES

pytestmark = pytest.mark.browser

_CLUSTER: Final = f'{TEN_MACHINES}\n[[policies]]\ntype = "displacement"\n'

#: Half of the machines for half an hour: then, or then or later.
_STIFF: Final = "window(atom(<1 cpu>, 5, 5, 30m, 150m), +1h, +1h30m)"
_ROOMY: Final = "window(atom(<1 cpu>, 5, 5, 30m, 150m), +1h, +3h)"
#: All of them in that half hour.
_URGENT: Final = "window(atom(<1 cpu>, 10, 10, 30m, 5h), +1h, +1h30m)"


def test_whom_a_request_displaces_is_said_before_and_after(
    browser: Browser, tmp_path: Path
) -> None:
    """Without a priority it is refused; with one two give way, by name; the address keeps it."""
    with served_site(tmp_path, _CLUSTER, agent="earliest") as site, visiting(browser, site) as it:
        for id_, rdl in (("stiff", _STIFF), ("roomy", _ROOMY)):
            site.call("POST", "/v1/reservations", {"id": id_, "tenant": "web", "rdl": rdl})
        page = it.open("/ui/ask?tenant=ads&id=urgent")
        with page.expect_response("**/v1/rdl/check"):
            page.locator("#rdl").fill(_URGENT)
        page.locator("#preview").click()
        expect(page.locator("#outcome h2")).to_have_text("It would be refused")
        page.get_by_label("Priority").fill("5")
        page.wait_for_function("location.search.includes('priority=5')")
        page.locator("#preview").click()
        whom = "2 reservations: stiff degraded, roomy moved."
        expect(page.locator(".displaced")).to_have_text(f"It would displace {whom}")
        expect(page.locator("#said")).to_contain_text(f"It would displace {whom}")
        expect(page.locator("#ghost-says")).to_contain_text("in place of those displaced")
        assert axe_faults(page) == []
        assert site.call("GET", "/v1/reservations/stiff")["state"] == "accepted"
        page.locator("#ask").click()
        expect(page.locator("#outcome h2")).to_have_text("Accepted: urgent")
        expect(page.locator(".displaced")).to_have_text(f"It displaced {whom}")
        assert site.call("GET", "/v1/reservations/urgent")["priority"] == 5
        page.locator(".displaced a").first.click()
        expect(page).to_have_url(f"{site.url}/ui/reservations/stiff")


def test_reservations_without_a_name_are_counted(visit: Callable[..., Any]) -> None:
    """Of tenants that the caller may not see the number is reported; past twelve names too."""
    given = [{"id": f"r-{n}", "fate": "moved"} for n in range(14)]
    given += [{"id": "", "fate": "degraded"}] * 3
    with visit() as it:
        ask = on_modules(it.open("/ui/ask", "#live"))
        words = ask("ask/displaced.js", "m.displacedWords({displaced: given}, false)", given)
        assert words.startswith(" It displaced 17 reservations: r-0 moved, r-1 moved, ")
        assert words.endswith("r-11 moved, 2 more, 3 of other tenants degraded.")
        assert ask("ask/displaced.js", "m.displacedWords({}, true)") == ""
