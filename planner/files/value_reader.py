"""The values of cluster files: what cannot be read is kept as a problem, with its pointer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from planner.files.errors import FileProblem
from rdl.durations import TimeTextError, parse_rfc3339, read_duration, read_instant
from rdl.expressions import Absolute, Offset
from rdl.resources import AmountError, Resources


class JsonValueReader:
    """Reads values of a document that has the right form.

    Attributes
    ----------
    problems
        What is wrong, in the order it was found.
    origin
        The plan's, for instants; None before it is read, and without one.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        self.problems: list[FileProblem] = []
        self.origin: datetime | None = None

    def _problem(self, pointer: str, message: str, fix: str | None = None) -> None:
        self.problems.append(FileProblem(message, pointer, fix=fix))

    def _origin(self) -> datetime | None:
        raw = self.document.get("origin")
        if raw is None:
            return None
        try:
            return parse_rfc3339(raw)
        except TimeTextError as error:
            self._problem("/origin", error.message, error.fix)
            return None

    def _duration(self, pointer: str, raw: object) -> int:
        try:
            return read_duration(raw)
        except TimeTextError as error:
            self._problem(pointer, error.message, error.fix)
            return 1

    def _instant(self, pointer: str, raw: object) -> int:
        try:
            instant = read_instant(raw)
        except TimeTextError as error:
            self._problem(pointer, error.message, error.fix)
            return 0
        match instant:
            case Offset(ms=ms):
                return ms
            case Absolute(at=at) if self.origin is not None:
                return round((at - self.origin).total_seconds() * 1000)
            case Absolute():
                self._problem(pointer, "an instant needs the cluster's origin", "give an origin")
            case _:
                self._problem(pointer, "a cluster has no submission to count from", "drop the '+'")
        return 0

    def _amounts(self, pointer: str, raw: object, *, round_up: bool) -> Resources:
        try:
            return Resources.from_json(raw, round_up=round_up)
        except AmountError as error:
            self._problem(pointer, str(error))
            return Resources()
