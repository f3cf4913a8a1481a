"""Read the values of cluster files; collect unreadable values as problems with pointers."""

from __future__ import annotations

from datetime import datetime

from planner.files.errors import FileProblem, FileProblems
from rdl.durations import TimeTextError, parse_rfc3339, read_duration, read_instant
from rdl.expressions import Absolute, Offset
from rdl.local_time import UTC_ZONE
from rdl.operators import ArgumentError, check_zone
from rdl.resources import CPU, MEMORY, AmountError, Resources


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
