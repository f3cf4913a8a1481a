"""Modules of the page alone, asked in the browser: what they answer to plain values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
from playwright.sync_api import Browser

from service.web.shell import packaged_assets
from tests.end_to_end.pages.browser import on_modules, visiting
from tests.end_to_end.pages.site import Site

pytestmark = pytest.mark.browser

Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def ask(browser: Browser, day: Site) -> Iterator[Ask]:
    """Return a function that imports a module and evaluates an expression on it, `m`."""
    with visiting(browser, day) as visit:
        yield on_modules(visit.open("/ui/ask", "#live"))


def test_a_span_stays_within_its_bounds(ask: Ask) -> None:
    """Panning and zooming never show what there is not, nor less than the least."""
    code = """(() => { const s = new m.Span(0, 1000, 100); const seen = [];
      const add = () => seen.push([s.from, s.to]); s.addEventListener("change", add);
      s.show(100, 300); s.pan(-1); s.zoom(0.1); s.zoom(100); s.show(950, 960); s.whole(); s.whole();
      return seen; })()"""
    assert ask("chart/span.js", code) == [
        [100, 300], [0, 200], [50, 150], [0, 1000], [900, 1000], [0, 1000],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("from_", "to", "first", "every"),
    [(0, 6 * 3600, "01:00", 1800), (0, 86400, "02:00", 7200), (0, 600, "01:00", 60)],
)
def test_ticks_are_round_in_the_zone_shown(
    ask: Ask, from_: int, to: int, first: str, every: int
) -> None:
    """Midnight of the Plan is one in Paris; ticks are at whole steps of the clock there."""
    times = packaged_assets().address("core/times.js")
    code = f"""await (async () => {{ const {{ Times }} = await import({times!r});
      const t = new Times(Date.UTC(2026, 0, 5), "UTC");
      return m.ticks({from_}, {to}, 900, t).map(x => [x.at, x.text]); }})()"""
    found = ask("chart/axis.js", code)
    assert {after - before for (before, _), (after, _) in pairwise(found)} == {every}
    assert found[0][1] == first


def test_ticks_stand_at_whole_hours_past_a_change_of_clocks(ask: Ask) -> None:
    """On the night when clocks in Paris go forward every tick is a whole hour there."""
    times = packaged_assets().address("core/times.js")
    code = f"""await (async () => {{ const {{ Times }} = await import({times!r});
      const t = new Times(Date.UTC(2026, 2, 28, 12), "UTC");
      return m.ticks(0, 86400, 900, t).map(x => x.text); }})()"""
    found = ask("chart/axis.js", code)
    assert all(text.endswith(":00") or "Mar" in text for text in found)


def test_levels_are_round_and_reach_the_most(ask: Ask) -> None:
    """Of any amount four or more levels, each a round number."""
    assert ask("chart/axis.js", "m.levels(1024)") == [0, 250, 500, 750, 1000]
    assert ask("chart/axis.js", "m.levels(16)") == [0, 2.5, 5, 7.5, 10, 12.5, 15]


def test_times_know_both_zones(ask: Ask) -> None:
    """An instant in a sentence is shown in the zone that is chosen; the offset follows summer."""
    code = """(() => { const t = new m.Times(Date.UTC(2026, 6, 5), "America/New_York");
      const seen = [t.full(0), t.offset(0), t.inText("begins 2026-07-05T00:00:00Z, ends")];
      t.toggle(); seen.push(t.full(0), t.offset(0), t.zoneWords); t.toggle(); return seen; })()"""
    assert ask("core/times.js", code) == [
        "Sun 5 Jul 02:00", 7200, "Begins Sun 5 Jul 02:00, ends",
        "Sat 4 Jul 20:00", -14400, "cluster’s time, America/New_York",
    ]  # fmt: skip


def test_numbers_are_read_as_people_write_them(ask: Ask) -> None:
    """Durations, amounts with their units, shares and counts."""
    code = """[m.duration(0), m.duration(3660), m.duration(90061), m.duration(-60),
      m.amount(4194304, "MiB"), m.amount(1024, "cores"), m.percent(0.04), m.counted(1, "offer"),
      m.counted(1200, "bundle"), m.secondsOf("1h30m"), m.secondsOf("29d"), m.secondsOf(60)]"""
    assert ask("core/numbers.js", code) == [
        "0 s", "1 h 1 min", "1 d 1 h", "−1 min", "4 TiB", "1,024 cores", "4 %", "1 offer",
        "1,200 bundles", 5400, 29 * 86400, 60,
    ]  # fmt: skip


def test_how_much_better_a_plan_could_be_is_the_servers_sentence(ask: Ask) -> None:
    """As the server has it; of a Plan of which nothing is asked there is nothing to say."""
    code = "given.map((told) => m.betterWords(told))"
    told = [
        {"held": 0, "waiting": 0, "sentence": "value 0; no plan has more value"},
        {"held": 0, "waiting": 1, "sentence": "value 0; up to 50 is possible"},
    ]
    assert ask("improve/better.js", code, told) == ["", "value 0; up to 50 is possible"]


def test_rdl_is_laid_out_without_a_change(ask: Ask) -> None:
    """Only white space differs; short expressions stay on one line."""
    text = (
        "window(graph(extract: atom(<1 cpu, 2 GiB memory>, 1, 500, 120, 129960), publish: "
        "atom(<1 cpu>, 1, 109, 120, 13080); extract -> publish), 31200, 33720)"
    )
    laid = ask("core/rdl-text.js", "m.layOut(given)", text)
    assert "".join(laid.split()) == "".join(text.split())
    assert laid.count("\n") >= 4
    assert ask("core/rdl-text.js", "m.layOut('atom(<1 cpu>, 1, 1, 60, 60)')").count("\n") == 0
    assert ask("core/rdl-text.js", "m.windowOf(given)", text) == [31200, 33720]
    assert ask("core/rdl-text.js", "m.windowOf('atom(<1 cpu>, 1, 1, 60, 60)')") is None


def test_a_request_is_shown_as_submitted_and_its_canonical_form_beside(ask: Ask) -> None:
    """Comments and spacing to the letter; without another text there is one form."""
    code = """m.requestText(given).filter(x => x.tagName === "PRE")
      .map(x => [x.getAttribute("aria-label"), x.textContent])"""
    canonical = "atom(<1 cpu>, 1, 1, 60, 60)"
    submitted = "# ask ads first\natom( <1 cpu>,1,1,  1m, 1m )\n"
    shown = ask("reservation/sentence.js", code, {"expression": canonical, "written": submitted})
    assert shown == [["Request as submitted", submitted], ["Request in RDL", canonical]]
    alone = ask("reservation/sentence.js", code, {"expression": canonical})
    assert alone == [["Request in RDL", canonical]]


def test_events_are_read_block_by_block(ask: Ask) -> None:
    """Kind, id and data of a block; a comment is nothing."""
    block = 'id: 4712.1\nevent: accepted\ndata: {"version":4712}'
    assert ask("core/events.js", "m.parseBlock(given)", block) == {
        "kind": "accepted", "id": "4712.1", "data": {"version": 4712},
    }  # fmt: skip
    assert ask("core/events.js", "m.parseBlock(': 4712')") is None


def test_bars_are_the_servers_columns(ask: Ask, day: Site) -> None:
    """Rows unfolded out of the columns are those of each reservation."""
    body = day.call("GET", "/v1/plan/bars?tenant=ml&from=0&rows=true")
    found = ask("chart/bars.js", "m.barsOf(given)", body)
    assert [bar["id"] for bar in found] == body["id"]
    for bar in found[:10]:
        held = day.call("GET", f"/v1/reservations/{bar['id']}")
        rows = sorted(tuple(row) for atom in held["atoms"] for row in atom["allocation"])
        shown = [tuple(bar["rows"][n : n + 3]) for n in range(0, len(bar["rows"]), 3)]
        assert sorted(shown) == rows
        assert bar["slot"] == 3


def test_a_ghost_adds_up_what_atoms_hold(ask: Ask) -> None:
    """Atoms next to each other add up; amounts have units."""
    atoms = [
        {"bundle": {"cpu": 2, "memory": "2 GiB"}, "allocation": [[0, 60, 3], [60, 120, 1]]},
        {"bundle": {"cpu": 1}, "allocation": [[30, 90, 4]]},
    ]
    ghost = ask("chart/ghost.js", "m.ghostOf({atoms: given}, 'cpu')", atoms)
    assert [(one["from"], one["to"], one["amount"]) for one in ghost] == [
        (0, 30, 6), (30, 60, 10), (60, 90, 6), (90, 120, 2),
    ]  # fmt: skip
    memory = ask("chart/ghost.js", "m.ghostOf({atoms: given}, 'memory')", atoms)
    assert [one["amount"] for one in memory] == [6144, 2048]


def test_tenants_beyond_the_colours_are_hatched(ask: Ask) -> None:
    """Slot 8 has the colour of slot 0, hatched; all others together are grey and hatched."""
    code = "[0, 8, null].map(n => m.lookOf(n)).concat(m.palette().others)"
    first, ninth, others, grey = ask("chart/palette.js", code)
    assert (first["colour"], first["hatched"]) == (ninth["colour"], False)
    assert ninth["hatched"]
    assert others == {"colour": grey, "hatched": True}


def test_an_svg_has_what_was_drawn(ask: Ask) -> None:
    """Text is escaped, paths and clips are there, and nothing is drawn without a size."""
    code = """(() => { const p = new m.SvgPen(100, 50); p.fillStyle = "red";
      p.fillRect(0, 0, 10, 5); p.fillRect(0, 0, 0, 5); p.beginPath();
      p.rect(0, 0, 50, 50); p.save(); p.clip();
      p.fillText("<b>", 5, 5); p.restore(); return p.toString(); })()"""
    text = ask("chart/pen.js", code)
    assert text.count("<rect") == 1
    assert "&lt;b&gt;" in text
    assert 'clip-path="url(#clip-1)"' in text
