"""Modules behind the pages of operators alone: what they answer to plain values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from service.web.shell import packaged_assets
from tests.end_to_end.pages.browser import on_modules, visiting
from tests.end_to_end.pages.site import Site

pytestmark = pytest.mark.browser

Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def ask(browser: Browser, busy: Site) -> Iterator[Ask]:
    """Return a function that imports a module and evaluates an expression on it, `m`."""
    with visiting(browser, busy) as visit:
        yield on_modules(visit.open("/ui/sign-in", "#token"))


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("", None),
        (" Now ", None),
        ("+2h", "+2h"),
        ("3600", "3600"),
        ("2026-01-05 07:30", str(6 * 3600 + 1800)),
        ("2026-01-06T00:00", str(23 * 3600)),
        ("07:30", str(6 * 3600 + 1800)),
        ("06:30", str(6 * 3600 - 1800 + 86_400)),
        ("soon", "soon"),
    ],
)
def test_an_instant_is_read_in_the_zone_shown(ask: Ask, written: str, read: str | None) -> None:
    """At seven in Paris (six from the origin) a time of day is the next one; the rest is sent."""
    times = packaged_assets().address("core/times.js")
    code = f"""await (async () => {{ const {{ Times }} = await import({times!r});
      const t = new Times(Date.UTC(2026, 0, 5), "UTC"); t.hear(6 * 3600);
      return m.instantOf(given, t); }})()"""
    assert ask("core/when.js", code, written) == read


def test_a_budget_is_what_may_be_broken_less_what_is(ask: Ask) -> None:
    """At 99 % of 200 two may be; none promised allows none and has used none."""
    code = "[given, {promised: 0, kept: 0}].map(one => m.budgetOf(one, 99))"
    found = ask("promises/outcomes.js", code, {"promised": 200, "kept": 199})
    assert found[0]["left"] == pytest.approx(1)
    assert found[0]["used"] == pytest.approx(0.5)
    assert found[1]["used"] == 0


def test_bars_of_components_never_pass_what_is_wanted(ask: Ask) -> None:
    """Of an application that has more than it wants (it shrinks) the bar is full."""
    code = """[...m.bullet({wanted: 2, assigned: 3, running: 1, covered: 0}).children]
      .map(one => one.style.width)"""
    assert ask("applications/bullet.js", code) == ["100%", "50%", "0%"]
