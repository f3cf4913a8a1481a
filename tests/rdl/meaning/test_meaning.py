"""What a request means, in words and numbers."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rdl.compile.compiler import compile_source
from rdl.compile.context import CompileContext
from rdl.meaning.questions import questions
from rdl.meaning.request_meaning import meaning_json, meaning_lines, meaning_of
from rdl.time_grid import TimeGrid

GRID = TimeGrid(60_000, 35 * 1440, datetime(2026, 6, 1, tzinfo=UTC))
NIGHT = """night = order(
  extract: atom(<1 cpu, 2 GiB memory>, tasks=100, each=6m),
  train: any(atom(<8 cpu, 1 gpu>, 4, 4, 1h, 4h), atom(<4 cpu>, 1, 8, 1h, 16h))
);
"""


def _said(text: str, grid: TimeGrid = GRID) -> dict[str, str]:
    meaning = meaning_of(compile_source(text, CompileContext(grid)))
    assert meaning is not None
    return dict(meaning_lines(meaning, grid))


def test_a_recurrence_says_how_often_and_when_in_its_zone() -> None:
    """Runs, the first ten and the last, the time they take and have, work and width by resource."""
    text = (
        f"{NIGHT} every(1d, window(night, 00:00, 06:00), days=[mon..fri], times=3, "
        'except=[2026-06-03], zone="Europe/Berlin")'
    )

    assert _said(text) == {
        "runs": "every day, on mon..fri, not on 1 date, by the calendar of Europe/Berlin, 3 runs",
        "first": "between Mon 2026-06-01 02:00 and Mon 2026-06-01 06:00 (Europe/Berlin)",
        "run 2": "between Tue 2026-06-02 02:00 and Tue 2026-06-02 06:00 (Europe/Berlin)",
        "last": "between Thu 2026-06-04 02:00 and Thu 2026-06-04 06:00 (Europe/Berlin)",
        "time": "at least 1h6m a run, within 4h",
        "work": (
            "42 cpu-hours to 74 cpu-hours, 0 gpu-hours to 4 gpu-hours, 20 GiB-hours of memory a run"
        ),
        "at once": "4 cpu to 100 cpu, 0 gpu to 4 gpu, 2 GiB memory to 200 GiB memory",
    }


def test_one_run_without_a_calendar_counts_from_the_origin() -> None:
    """Times are durations then, and nothing is said of a last run."""
    said = _said("window(atom(<500m cpu>, 2, 2, 1h, 2h), 1h, 4h)", TimeGrid(60_000, 1440))

    assert said == {
        "runs": "once",
        "first": "between 1h and 4h",
        "time": "at least 1h, within 3h",
        "work": "1 cpu-hours",
        "at once": "1 cpu",
    }


HOUR = "atom(<1 cpu>, 1, 1, 1h, 1h)"


@pytest.mark.parametrize(
    ("text", "what", "said"),
    [
        (f"all(every(1d, {HOUR}, times=5), {HOUR})", "work", "6 cpu-hours"),
        (f"every(1w, every(1d, {HOUR}, times=5), times=2)", "work", "5 cpu-hours a run"),
        (
            f'every(1w, every(1d, {HOUR}, times=5), times=2, same_offset=false, zone="UTC")',
            "work",
            "5 cpu-hours a run",
        ),
        (f"any(every(1d, {HOUR}, times=3), {HOUR})", "work", "1 cpu-hours to 3 cpu-hours"),
        (
            f"any(window(atom(<9 cpu>, 1, 1, 1h, 1h), 0, 30m), window({HOUR}, 5h, 6h))",
            "at once",
            "1 cpu",
        ),
        (
            f"any(window({HOUR}, 0, 30m), window({HOUR}, 5h, 6h))",
            "first",
            "between Mon 2026-06-01 05:00 and Mon 2026-06-01 06:00 (UTC)",
        ),
        ("atom(<1 cpu>, 2, 9, 1h, 40h, multiple=4)", "at once", "4 cpu to 8 cpu"),
        (f"all({HOUR}, void(<5 cpu>, 3))", "at once", "1 cpu"),
    ],
)
def test_what_comes_is_counted_and_what_cannot_come_is_not(text: str, what: str, said: str) -> None:
    """Recurrences inside a run, options that are left out, gangs of a multiple."""
    assert _said(text)[what] == said


def test_occurrences_that_are_free_are_counted_too() -> None:
    """With same_offset=false each run has its own window, and the least time is that of one."""
    said = _said(
        "every(1d, window(atom(<1 cpu>, 1, 1, 1h, 1h), 0, 5h), times=4, same_offset=false)"
    )

    assert (said["runs"], said["time"]) == ("every day, 4 runs", "at least 1h a run, within 5h")


def test_programs_get_the_same_in_numbers() -> None:
    """Seconds and RFC 3339 with the offset of the zone."""
    text = 'deadline(atom(<1 cpu>, 1, 1, 1h, 1h), 06:00, zone="Europe/Berlin")'
    meaning = meaning_of(compile_source(text, CompileContext(GRID)))
    assert meaning is not None

    assert meaning_json(meaning, GRID)["first"] == {
        "start": 0,
        "end": 14_400,
        "start_at": "2026-06-01T02:00:00+02:00",
        "end_at": "2026-06-01T06:00:00+02:00",
    }


def test_a_best_effort_session_means_nothing() -> None:
    """It promises nothing, so there is nothing to say."""
    assert meaning_of(compile_source("void(<1 cpu>, 3)", CompileContext(GRID))) is None


def test_thousandths_and_minutes_are_asked_about() -> None:
    """500m as a time and 10m cpu are asked, with both ways to write them; 50m and 500m cpu not."""
    text = "atom(<10m cpu, 1 gpu>, 1, 9, 50m, 500m)"
    value = {"atom": {"bundle": {"cpu": "10m"}, "lease": "50m", "work": "500m"}}

    asked = [
        ("10m cpu means 0.01 of a core", "write 0.01 cpu if that is meant"),
        ("500m means 500 minutes here", "write 8h20m if that is meant"),
    ]
    for source in (text, value):
        found = [(one.message, (one.fix or "").partition(";")[0]) for one in questions(source)]
        assert found == asked
    assert questions("atom(<500m cpu>, 1, 9, 50m, 8h20m)") == ()
