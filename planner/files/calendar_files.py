"""Files of dates for cluster files: a date or range per line, or an iCalendar of whole days."""

from __future__ import annotations

import re
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final

from planner.files.errors import FileError, FileProblem
from rdl.text_file import TextError, text_of

#: Largest file of dates in bytes; far above the size of 4,000 dates.
_LARGEST: Final = 4_000_000
_EVENT: Final = re.compile(r"BEGIN:VEVENT\r?\n(.*?)END:VEVENT", re.DOTALL)
#: Matches whole days: an instant has a T and a time after its date.
_BOUND: Final = re.compile(r"^(DTSTART|DTEND)(?:;[^:\n]*)?:(\d{8})\r?$", re.MULTILINE)
_REPEATED: Final = re.compile(r"^(?:RRULE|RDATE)[;:]", re.MULTILINE)
_DAY: Final = timedelta(days=1)


def with_calendar_files(document: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return a cluster document with the dates from the files that its calendars name.

    ``de = "holidays.txt"`` names a file next to the cluster file.

    Raises
    ------
    FileError
        If a file cannot be read, or has no dates.
    """
    calendars = document.get("calendars")
    if not isinstance(calendars, dict):
        return document
    read = {
        name: _dates(name, path.parent / said, path) if isinstance(said, str) else said
        for name, said in calendars.items()
    }
    return {**document, "calendars": read}


def _dates(name: str, file: Path, cluster: Path) -> list[str]:
    try:
        text = text_of(file.read_bytes()[: _LARGEST + 1])
    except (OSError, TextError) as error:
        message = f"the file {file.name} cannot be read: {error.__class__.__name__}"
        problem = FileProblem(message, f"/calendars/{name}", fix="write a file of dates next to it")
        raise FileError(str(cluster), (problem,)) from error
    if "BEGIN:VCALENDAR" in text:
        try:
            found = [said for event in _EVENT.findall(text) for said in _of_event(event)]
        except ValueError as error:
            message = f"the file {file.name}: {error}"
            problem = FileProblem(message, f"/calendars/{name}", fix="write each date for itself")
            raise FileError(str(cluster), (problem,)) from error
    else:
        lines = (line.partition("#")[0].strip() for line in text.splitlines())
        found = [line for line in lines if line]
    if not found:
        message = f"the file {file.name} has no dates"
        problem = FileProblem(message, f"/calendars/{name}", fix="write such as 2026-12-25")
        raise FileError(str(cluster), (problem,))
    return found


def _of_event(event: str) -> list[str]:
    """Return the date or range of an event of whole days; an empty list for other events.

    Raises
    ------
    ValueError
        If it has a recurrence rule, or an invalid date.
    """
    bounds: dict[str, str] = dict(_BOUND.findall(event))
    if "DTSTART" not in bounds:
        return []
    if _REPEATED.search(event):
        raise ValueError(f"the event of {bounds['DTSTART']} repeats by a rule, which is not read")
    first = date.fromisoformat(bounds["DTSTART"])
    last = date.fromisoformat(bounds.get("DTEND", bounds["DTSTART"])) - _DAY  # DTEND is exclusive
    return [f"{first}..{last}" if last > first else str(first)]
