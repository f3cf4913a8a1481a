"""`agenda import rrule` and `agenda rdl rrule`: iCalendar's recurrences as RDL, and back."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from service.cli.main import main

EVENT = (
    "BEGIN:VEVENT\nDTSTART;TZID=Europe/Berlin:20261231T180000\nDURATION:PT12H\n"
    "RRULE:FREQ=MONTHLY;BYMONTHDAY=-1;COUNT=12\nEND:VEVENT\n"
)
LINES = EVENT.replace("BEGIN:VEVENT\n", "").replace("END:VEVENT\n", "")


def test_an_event_is_printed_as_rdl_and_written_back(tmp_path: Path) -> None:
    """The lines that say when are the same again."""
    (tmp_path / "event.ics").write_text(EVENT)
    asked = ["import", "rrule", str(tmp_path / "event.ics"), "--of", "atom(<1 cpu>, 1, 1, 1h, 1h)"]
    read = CliRunner().invoke(main, asked)
    assert read.exit_code == 0, read.output
    (tmp_path / "month.rdl").write_text(read.output)
    written = CliRunner().invoke(main, ["rdl", "rrule", str(tmp_path / "month.rdl")])
    assert written.exit_code == 0, written.output
    assert written.output.splitlines() == LINES.splitlines()


@pytest.mark.parametrize(
    ("command", "text", "said"),
    [
        (["import", "rrule", "-", "--of", "atom("], EVENT, "--of: "),
        (["import", "rrule", "-", "--of", "all()"], "RRULE:FREQ=DAILY", "there is no DTSTART"),
        (["rdl", "rrule", "-"], "atom(<1 cpu>, 1, 1, 1h, 1h)", "the request is not an every(...)"),
        (["rdl", "rrule", "-"], "every(1d, all(), times=2)", "needs a date to begin at"),
        (["rdl", "rrule", "-"], "every(1d", "never closed"),
    ],
)
def test_what_cannot_be_read_or_written_is_an_error(
    command: list[str], text: str, said: str
) -> None:
    """One line says what is wrong, and the exit code is that of errors."""
    result = CliRunner().invoke(main, command, input=text)
    assert result.exit_code == 1
    assert said in result.output
