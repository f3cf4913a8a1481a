"""Times in tables: the clock of one zone, said once, or each with its offset."""

from __future__ import annotations

import pytest

from service.cli.kit.commands import Table
from service.cli.kit.output import common_zone, local_text, zone_line
from service.cli.kit.server import Server


@pytest.mark.parametrize(
    ("instant", "seconds", "zone", "with_offset", "text"),
    [
        ("2026-11-23T17:12:00Z", 0, "Europe/Berlin", False, "2026-11-23 18:12"),
        ("2026-11-23T17:12:00Z", 3_601.5, "UTC", False, "2026-11-23 18:12:01"),
        ("2026-03-29T00:30:00Z", 3_600, "Europe/Berlin", True, "2026-03-29 03:30 +02:00"),
        ("2026-11-23T17:12:00Z", 0, "Nowhere/Land", False, "2026-11-23 17:12"),
    ],
)
def test_an_instant_by_a_clock(
    instant: str, seconds: float, zone: str, with_offset: bool, text: str
) -> None:
    """Seconds are shown if not 0, never parts of them; an unknown zone is read as UTC."""
    assert local_text(instant, seconds, zone, with_offset=with_offset) == text


def test_entries_of_one_zone_say_it_once() -> None:
    """Without a zone it is UTC; where they differ each time has its offset."""
    assert common_zone([]) == "UTC"
    assert common_zone([{}, {}]) == "UTC"
    assert common_zone([{"zone": "Asia/Tokyo"}, {"zone": "Asia/Tokyo"}]) == "Asia/Tokyo"
    assert common_zone([{"zone": "Asia/Tokyo"}, {}]) is None
    assert zone_line("Asia/Tokyo") == "times in Asia/Tokyo"
    assert zone_line(None) == "times with their offset from UTC"


def test_rows_have_their_instants_in_one_zone() -> None:
    """Only the columns that are named are instants; an empty one stays empty."""
    table = Table("id at end", "at end")
    first = {"id": "a", "at": "2026-11-23T17:12:00Z", "end": ""}
    second = {"id": "b", "at": None, "end": "2026-11-23T17:12:00Z"}
    assert table.row(first, "Europe/Berlin") == ["a", "2026-11-23 18:12", ""]
    assert table.row(second, "Europe/Berlin") == ["b", None, "2026-11-23 18:12"]


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("2026-03-29", "2026-03-29T00:00:00+01:00"),
        ("2026-03-29 06:30", "2026-03-29T06:30:00+02:00"),
        ("2026-03-29T06:30:15", "2026-03-29T06:30:15+02:00"),
        ("2026-13-01", "2026-13-01"),
        ("20260329", "20260329"),
        ("+2h", "+2h"),
        ("2026-03-29T06:30:00Z", "2026-03-29T06:30:00Z"),
        (None, None),
    ],
)
def test_a_date_is_by_the_cluster_s_clock(
    text: str | None, instant: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has a zone, is no date, or is none of a calendar, is the server's to read."""
    monkeypatch.setattr(Server, "zone", lambda _self: "Europe/Berlin")
    assert Server().instant(text) == instant
