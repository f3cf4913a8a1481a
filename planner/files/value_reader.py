"""Read the values and calendars of cluster files; collect unreadable values as problems."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from planner.files.errors import FileError, FileProblem, FileProblems
from rdl.durations import TimeTextError, parse_rfc3339, read_duration, read_instant
from rdl.expressions import Absolute, Offset
from rdl.local_time import UTC_ZONE
from rdl.operators import ArgumentError, check_zone
from rdl.resources import CPU, MEMORY, AmountError, Resources
from rdl.text_file import TextError, text_of

#: Largest file of dates in bytes; far above the size of 4,000 dates.
_LARGEST: Final = 4_000_000
_EVENT: Final = re.compile(r"BEGIN:VEVENT\r?\n(.*?)END:VEVENT", re.DOTALL)

#: Matches whole days: an instant has a T and a time after its date.
_BOUND: Final = re.compile(r"^(DTSTART|DTEND)(?:;[^:\n]*)?:(\d{8})\r?$", re.MULTILINE)
_REPEATED: Final = re.compile(r"^(?:RRULE|RDATE)[;:]", re.MULTILINE)
_DAY: Final = timedelta(days=1)


class JsonValueReader:
    """Reads values of a well-formed document; replaces an invalid value by a default.

    Parameters
    ----------
    origin
        The document's origin as written; None if it has none.

    Attributes
    ----------
    problems
        The problems, in the order they were found.
    origin
        Origin of the instants; None if there is none, or it cannot be read.
    """

    def __init__(self, origin: str | None) -> None:
        self.problems: FileProblems = FileProblems()
        self.origin: datetime | None = None
        if origin is not None:
            try:
                self.origin = parse_rfc3339(origin)
            except TimeTextError as error:
                self.note("/origin", error.message, error.fix)

    def note(self, pointer: str, message: str, fix: str | None = None) -> None:
        """Add a problem."""
        self.problems.append(FileProblem(message, pointer, fix=fix))

    def duration(self, pointer: str, raw: object) -> int:
        """Return a duration in ms; 1 if it is invalid."""
        try:
            return read_duration(raw)
        except TimeTextError as error:
            self.note(pointer, error.message, error.fix)
            return 1

    def instant(self, pointer: str, raw: object) -> int:
        """Return an instant in ms from the origin; 0 if it is invalid."""
        try:
            instant = read_instant(raw)
        except TimeTextError as error:
            self.note(pointer, error.message, error.fix)
            return 0
        match instant:
            case Offset(ms=ms):
                return ms
            case Absolute(at=at) if self.origin is not None:
                return round((at - self.origin).total_seconds() * 1000)
            case Absolute():
                self.note(pointer, "an instant needs the cluster's origin", "give an origin")
            case _:
                self.note(pointer, "a cluster has no submission to count from", "drop the '+'")
        return 0

    def zone(self, pointer: str, name: str) -> str:
        """Return the name of a time zone; `UTC` if it is invalid."""
        try:
            return check_zone(name)
        except ArgumentError as error:
            self.note(pointer, error.message, error.fix)
            return UTC_ZONE

    def amounts(self, pointer: str, raw: object, *, round_up: bool) -> Resources:
        """Return amounts; empty if they are invalid."""
        try:
            found = Resources.from_json(raw, round_up=round_up)
            for name, amount in () if round_up else Resources.from_json(raw).items():
                if name not in (CPU, MEMORY) and amount != found.get(name, 0):
                    fix = f"write {amount - 1} or {amount}"
                    self.note(f"{pointer}/{name}", f"{name} is counted in whole units", fix)
            return found
        except AmountError as error:
            self.note(pointer, str(error))
            return Resources()


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
