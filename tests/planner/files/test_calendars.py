"""Calendars of a cluster: lists of dates, files of them, and their errors."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from planner.files import read_cluster
from planner.files.cluster_file import cluster_from_json
from planner.files.cluster_writer import cluster_to_json
from planner.files.errors import FileError

HEAD = """step = "60s"
horizon = "24h"
[[machines]]
name = "m"
count = 1
resources = { cpu = 1 }
[calendars]
"""


def _cluster(folder: Path, calendars: str) -> Path:
    path = folder / "cluster.toml"
    path.write_text(HEAD + calendars, encoding="utf-8")
    return path


def test_a_calendar_is_a_list_or_a_file_next_to_the_cluster(tmp_path: Path) -> None:
    """Dates quoted and bare, ranges, lines with comments, and an iCalendar of whole days."""
    (tmp_path / "be.txt").write_text("# Belgium\n2026-07-21  # national day\n\n2026-11-11\n")
    (tmp_path / "fr.ics").write_text(
        "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART;VALUE=DATE:20260714\nEND:VEVENT\n"
        "BEGIN:VEVENT\nDTSTART:20260715T090000Z\nEND:VEVENT\n"
        "BEGIN:VEVENT\r\nDTSTART;VALUE=DATE:20261224\r\nDTEND;VALUE=DATE:20261227\r\n"
        "END:VEVENT\r\nBEGIN:VEVENT\nDTSTART:20261231\nDTEND:20270101\nEND:VEVENT\n"
        "END:VCALENDAR\n"
    )
    lines = 'de = ["2026-12-25", 2026-12-31]\n'
    text = f'{lines}be = "be.txt"\nfr = "fr.ics"\nat = ["2026-10-26..2026-10-28"]\n'

    cluster = read_cluster(_cluster(tmp_path, text))

    assert dict(cluster.calendars) == {
        "at": (date(2026, 10, 26), date(2026, 10, 27), date(2026, 10, 28)),
        "be": (date(2026, 7, 21), date(2026, 11, 11)),
        "de": (date(2026, 12, 25), date(2026, 12, 31)),
        "fr": (
            date(2026, 7, 14),
            *(date(2026, 12, day) for day in (24, 25, 26)),
            date(2026, 12, 31),
        ),
    }
    assert cluster_from_json(cluster_to_json(cluster)) == cluster


@pytest.mark.parametrize(
    ("calendars", "message"),
    [
        ('de = ["2026-02-30"]', "'2026-02-30' is no date"),
        ('de = ["2026-12-31..2026-12-01"]', "runs backwards"),
        ('de = "none.txt"', "the file none.txt cannot be read"),
        ('de = "empty.txt"', "the file empty.txt has no dates"),
        ('de = "yearly.ics"', "the event of 20261225 repeats by a rule, which is not read"),
        ("de = []", "/calendars/de"),
        ('de = ["Christmas"]', "/calendars/de/0"),
    ],
)
def test_a_calendar_that_cannot_be_read_says_why(
    tmp_path: Path, calendars: str, message: str
) -> None:
    """The problem names the calendar."""
    (tmp_path / "empty.txt").write_text("# nothing\n")
    (tmp_path / "yearly.ics").write_text(
        "BEGIN:VCALENDAR\nBEGIN:VEVENT\nDTSTART;VALUE=DATE:20261225\nRRULE:FREQ=YEARLY\n"
        "END:VEVENT\nEND:VCALENDAR\n"
    )
    with pytest.raises(FileError) as caught:
        read_cluster(_cluster(tmp_path, calendars))

    assert message in str(caught.value)
    assert "/calendars/de" in str(caught.value)
