"""Skylines and reports: areas exact, sizes bounded, the same input the same picture."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.colours import COLOURS, OTHERS, colour_of, hatch_of
from service.pictures.report import MOST_ROWS, beside_html, page_html, table_html
from service.pictures.skyline import _calendar_ticks, skyline_beside, write_skyline
from service.pictures.skyline_data import COLUMNS, LAYERS, common_axes, skyline_data
from service.pictures.style import PictureError

CLUSTER = {
    "step": "60s",
    "horizon": "24h",
    "machines": [{"name": "m", "count": 10, "resources": {"cpu": 32, "memory": "128 GiB"}}],
    "outages": [{"machines": "m", "count": 5, "start": "2h", "end": "4h"}],
}


def plan(*reservations: dict[str, Any], refusals: int = 0, **cluster: Any) -> dict[str, Any]:
    """A Plan document, as far as pictures read it."""
    return {
        "cluster": {**CLUSTER, **cluster},
        "version": 1,
        "step_s": 60,
        "agent": "gree",
        "order": "submitted",
        "reservations": list(reservations),
        "refusals": [
            {
                "id": f"no{i}",
                "tenant": "b<c>",
                "submitted": 0,
                "code": "capacity",
                "binding": {"resource": "cpu"},
            }
            for i in range(refusals)
        ],
        "metrics": {
            "runtime_ms": 1.5,
            "acceptance": 0.5,
            "accepted": len(reservations),
            "requests": len(reservations) + refusals,
            "falls": 3,
            "falls_inner": 0,
            "uniformity": 1.2,
            "value": 9.0,
            "bound": None,
            "gap": None,
            "status": "placed",
        },
    }


def _svg(document: dict[str, Any]) -> str:
    return skyline_beside(document, common_axes([document]))[0]


def reservation(tenant: str, *rows: tuple[int, int, int], **more: Any) -> dict[str, Any]:
    """A reservation of <1 cpu, 2 GiB> bundles."""
    atom = {"path": "0", "bundle": {"cpu": 1, "memory": "2 GiB"}, "allocation": list(rows), **more}
    return {
        "id": f"{tenant}-{rows}",
        "tenant": tenant,
        "submitted": 0,
        "state": "accepted",
        "atoms": [atom],
    }


def test_use_and_capacity_stand_where_they_are() -> None:
    """One reservation of 10 bundles in [1 h, 2 h) shows 10,000 millicores there and none else.

    A day of 1,440 steps is drawn in 360 columns of 4; half the machines are down from 2 h to 4 h.
    """
    evening = reservation("b", (86_340, 86_400, 1))
    data = skyline_data(plan(reservation("a", (3600, 7200, 10)), evening))
    cpu = next(panel for panel in data.panels if panel.resource == "cpu")
    assert data.steps_per_column == 4
    assert data.edges[[0, 15, 30, -1]].tolist() == [0.0, 3600.0, 7200.0, 86_400.0]
    assert cpu.used[0, 15:30].tolist() == [10_000.0] * 15
    assert cpu.used[0].sum() == 150_000.0
    assert cpu.capacity[[29, 30, 59, 60]].tolist() == [320_000.0, 160_000.0, 160_000.0, 320_000.0]


def test_released_rows_are_taken_off() -> None:
    """What was released is shown next to the allocation (files.md) and is not shown."""
    data = skyline_data(plan(reservation("a", (0, 3600, 10), released=[[3600, 7200, 10]])))
    assert data.edges[-1] == 3600
    assert (data.panels[0].used[0] > 0).all()


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 2999), st.integers(1, 500), st.integers(1, 50)), max_size=20
    ),
    horizon=st.integers(1, 3000),
)
def test_averaging_keeps_work_exact(rows: list[tuple[int, int, int]], horizon: int) -> None:
    """However long the horizon, the area drawn is the work inside it, and columns are bounded."""
    held = [(start * 60, (start + length) * 60, count) for start, length, count in rows]
    data = skyline_data(plan(reservation("a", *held), horizon=horizon * 60, outages=[]))
    lengths = np.diff(data.edges)
    assert len(lengths) <= COLUMNS
    expected = sum(
        (min(start + length, horizon) - min(start, horizon)) * 60 * count * 1000
        for start, length, count in rows
    )
    cpu = next(panel for panel in data.panels if panel.resource == "cpu")
    drawn = float((cpu.used.sum(axis=0) * lengths).sum()) if rows else 0.0
    assert drawn == pytest.approx(expected)


def test_many_tenants_share_the_last_layer() -> None:
    """The largest tenants keep a layer each, the rest one together; no request is lost."""
    held = [reservation(f"t{i:02d}", (0, 600 * (i + 1), 1)) for i in range(30)]
    data = skyline_data(plan(*held))
    assert len(data.layers) == LAYERS
    assert [layer.name for layer in data.layers[:2]] == ["t29", "t28"]
    assert data.layers[-1].name == "others (22)"
    assert sum(layer.accepted for layer in data.layers) == 30


def test_time_ends_with_the_last_allocation() -> None:
    """A day held of a week is drawn as a day; a Plan that holds nothing is drawn whole."""
    week = 7 * 86_400
    held = plan(reservation("a", (0, 86_400, 1)), horizon=week, outages=[])
    assert skyline_data(held).edges[-1] == 86_400
    assert skyline_data(plan(horizon=week, outages=[])).edges[-1] == week


def test_pictures_next_to_each_other_share_panels_times_and_colours() -> None:
    """Whatever each Plan holds, all have the resources, the end and the places of all."""
    small = plan(reservation("b", (0, 600, 1)))
    large = plan(reservation("a", (0, 7200, 1)), reservation("b", (600, 1200, 1)))
    common = common_axes([small, large])
    shown = [skyline_data(document, common) for document in (small, large)]
    assert shown[0].edges[-1] == shown[1].edges[-1] == 7200
    assert [[p.resource for p in one.panels] for one in shown] == [list(common.resources)] * 2
    slots = [{layer.name: layer.slot for layer in one.layers} for one in shown]
    assert slots[0] == slots[1] == {"a": 0, "b": 1}


def test_a_picture_on_a_page_has_its_values_for_a_pointer() -> None:
    """Two tenants of one core and 2 GiB a bundle: times, names, units and amounts by column."""
    cluster = {"origin": "2026-03-28T23:00:00Z", "zone": "Europe/Berlin"}
    document = plan(reservation("a", (0, 7200, 3)), reservation("b", (3600, 7200, 2)), **cluster)
    svg, values = skyline_beside(document, common_axes([document]))
    assert ET.fromstring(svg).tag.endswith("svg")
    panels: Any = values["panels"]
    times: Any = values["times"]
    assert values["names"] == ["a", "b"]
    assert [one["unit"] for one in panels] == ["cores", "GiB memory"]
    assert (times[0], times[60]) == ("Sun 29 Mar 00:00", "Sun 29 Mar 01:00")
    assert len(times) == 120
    for at, held in ((0, [3, 0]), (59, [3, 0]), (60, [3, 2])):
        assert [one[at] for one in panels[0]["used"]] == held
        assert [one[at] for one in panels[1]["used"]] == [2 * one for one in held]
    assert panels[0]["capacity"][0] == 320
    assert all(0 < left < right <= 1 for left, right, _, _ in (one["box"] for one in panels))
    assert panels[0]["box"][3] < panels[1]["box"][2]


def test_ticks_are_round_times_of_the_clock_across_its_changes() -> None:
    """In Berlin the night of 29 March 2026 lacks an hour; days stay days by the clock."""
    zone = ZoneInfo("Europe/Berlin")
    origin = datetime(2026, 3, 28, 21, 30, tzinfo=zone)
    assert _calendar_ticks(origin, zone, 6 * 3600) == [
        (1800, "22:00\n28 Mar"), (5400, "23:00"), (9000, "00:00\n29 Mar"), (12600, "01:00"),
        (16200, "03:00"), (19800, "04:00"),
    ]  # fmt: skip
    days = _calendar_ticks(origin, zone, 14 * 86_400)
    assert [text for _, text in days[:2]] == ["30 Mar", "01 Apr"]
    assert days[0][0] == (2.5 + 23) * 3600


def test_colours_stay_apart() -> None:
    """Three times the contrast of each to white, and no two are the same."""
    for colour in (*COLOURS, OTHERS):
        assert 1.05 / (luminance(colour) + 0.05) >= 3.0, colour
    assert len({colour_of(slot) for slot in range(8)}) == 8
    assert (colour_of(8), hatch_of(8)) == (colour_of(0), "////")
    assert (colour_of(None), hatch_of(None), hatch_of(7)) == (OTHERS, "////", None)


def luminance(colour: str) -> float:
    """Return the relative luminance of ``#rrggbb`` (WCAG 2.2)."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_layers_count_what_was_asked_too() -> None:
    """A layer says how many of its tenant's requests were accepted."""
    document = plan(reservation("b<c>", (0, 600, 1)), refusals=3)
    assert [(x.accepted, x.requests) for x in skyline_data(document).layers] == [(1, 4)]


def test_svg_and_png_are_written_and_the_same_again(tmp_path: Path) -> None:
    """Both formats at once; a second run gives the same bytes; the SVG is well-formed XML."""
    document = plan(reservation("a<b>", (0, 3600, 50)), refusals=40)
    paths = [tmp_path / "x.svg", tmp_path / "x.png"]
    write_skyline(document, paths)
    first = [path.read_bytes() for path in paths]
    write_skyline(document, paths)
    assert [path.read_bytes() for path in paths] == first
    assert first[1].startswith(b"\x89PNG")
    text = "".join(ET.fromstring(first[0]).itertext())
    for expected in ("agent gree", "refused  40", "a<b>  1/1", "no0 (b<c>) capacity: cpu", "more"):
        assert expected in text


def test_names_of_users_are_drawn_as_they_are(tmp_path: Path) -> None:
    """No formula, no markup, no control character: the picture is drawn and is XML."""
    words = ["$", "$\\frac{", "$x$_{", "_hidden", "\x1b[31m\x00", "名前", "a" * 300]
    document = plan(*(reservation(word, (0, 3600, 5)) for word in words), refusals=len(words))
    for refusal, word in zip(document["refusals"], words, strict=True):
        refusal.update(id=word, tenant=word)
    write_skyline(document, [tmp_path / "x.svg", tmp_path / "x.png"])
    text = "".join(ET.parse(tmp_path / "x.svg").getroot().itertext())
    for word in words:
        if len(word) < 10 and word.isprintable():
            assert f"{word}  1/2" in text, word


def test_a_picture_of_6000_reservations_stays_small() -> None:
    """The size of a picture is bounded by layers and columns, not by reservations."""
    generator = np.random.default_rng(1)
    starts = generator.integers(0, 1400, 6000) * 60
    held = [
        reservation(f"t{i % 15}", (int(start), int(start) + 60 * (1 + i % 40), 1 + i % 3))
        for i, start in enumerate(starts)
    ]
    assert len(_svg(plan(*held))) < 1_200_000


def test_an_empty_plan_is_drawn() -> None:
    """Nothing accepted and nothing refused is a picture too."""
    assert "0 of 0 requests" in _svg(plan())


@pytest.mark.parametrize(
    ("name", "message"),
    [("x.jpg", "ends in .svg or .png"), ("gone/x.svg", "there is no folder")],
)
def test_a_name_no_picture_can_have_is_refused(tmp_path: Path, name: str, message: str) -> None:
    """Unknown suffixes and missing folders are errors before anything is drawn."""
    with pytest.raises(PictureError, match=message):
        write_skyline(plan(), [tmp_path / name])


def test_a_report_holds_its_tables_and_every_skyline_with_ids_of_its_own() -> None:
    """Text is escaped, one SVG an agent, and no id occurs in two pictures."""
    table = table_html(["agent", "value"], [["a<b>", 1.5], ["c", None]], base=0)
    page = page_html("x & y", [("Metrics", table), ("Skylines", beside_html([plan(), plan()]))])
    assert "a&lt;b&gt;" in page
    assert "x &amp; y" in page
    assert page.count("<svg") == 2
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    for target in re.findall(r'href="#([^"]+)"', page):
        assert target in ids


def test_long_tables_are_cut_and_say_so() -> None:
    """A page of ten thousand differences shows the first and counts the rest."""
    page = table_html(["n"], [[i] for i in range(MOST_ROWS + 5)])
    assert "and 5 more" in page
    assert page.count("<tr>") == MOST_ROWS + 1
