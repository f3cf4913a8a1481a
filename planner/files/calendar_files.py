"""Files of dates beside a cluster file: one date or range a line, or an iCalendar of whole days."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

from planner.files.errors import FileError, FileProblem

#: Bytes of a file of dates; far above what 4,000 dates take.
_LARGEST: Final = 4_000_000
_ICS_START: Final = re.compile(r"DTSTART(?:;[^:\n]*)?:(\d{4})(\d\d)(\d\d)(?![\dT])")


def with_calendar_files(document: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return a cluster document with the dates of the files that its calendars name.

    ``de = "holidays.txt"`` names a file beside the cluster file.

    Raises
    ------
    FileError
        If a file cannot be read.
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
        text = file.read_bytes()[: _LARGEST + 1].decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        message = f"the file {file.name} cannot be read: {error.__class__.__name__}"
        problem = FileProblem(message, f"/calendars/{name}", fix="write a file of dates beside it")
        raise FileError(str(cluster), (problem,)) from error
    if "BEGIN:VCALENDAR" in text:
        found = [f"{year}-{month}-{day}" for year, month, day in _ICS_START.findall(text)]
    else:
        lines = (line.partition("#")[0].strip() for line in text.splitlines())
        found = [line for line in lines if line]
    if not found:
        message = f"the file {file.name} has no dates"
        problem = FileProblem(message, f"/calendars/{name}", fix="write such as 2026-12-25")
        raise FileError(str(cluster), (problem,))
    return found
