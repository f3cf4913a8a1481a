"""Read the fields of a parsed document one by one, and collect every problem with its pointer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TypeGuard

from planner.files.errors import FileProblem, FileProblems
from rdl.errors import nearest
from rdl.resources import AmountError, Resources

_UNLIMITED = 2**53


class Fields:
    """One object of a document, its pointer, and the problems of the whole document.

    Getters record a problem and return a harmless value, so that reading continues; the owner of
    the list of problems decides at the end.

    Parameters
    ----------
    value
        The value at `at`; anything but an object is recorded as a problem.
    at
        JSON pointer of the object; "" for the whole document.
    problems
        Problems of the document so far; shared by every part of it.
    known
        Allowed keys; any other is a problem. None allows all.
    """

    def __init__(
        self,
        value: object,
        at: str,
        problems: FileProblems,
        known: Sequence[str] | None = None,
    ) -> None:
        self.at = at
        self.problems = problems
        self.is_object = isinstance(value, Mapping)
        self.entries: Mapping[str, object] = value if isinstance(value, Mapping) else {}
        if not self.is_object:
            self.note(f"expected an object, not {brief_text(value)}")
        if known is not None:
            self._refuse_unknown(known)

    def note(self, message: str, key: str | None = None, fix: str | None = None) -> None:
        """Record a problem of this object, or of one of its keys."""
        pointer = self.at if key is None else f"{self.at}/{escape(key)}"
        self.problems.append(FileProblem(message, pointer or "/", fix=fix))

    def has(self, key: str) -> bool:
        """Return whether the key is present and not null."""
        return self.entries.get(key) is not None

    def require(self, *keys: str) -> None:
        """Record a problem for each of `keys` that is missing."""
        for key in keys:
            if self.is_object and key not in self.entries:
                self.note(f"{key!r} is missing")

    def text(
        self, key: str, pattern: str | None = None, *, least: int = 0, most: int | None = None
    ) -> str:
        """Return a text; "" if it is missing or invalid."""
        value = self.entries.get(key, "")
        if not isinstance(value, str):
            self.note(f"expected a text, not {brief_text(value)}", key)
            return ""
        if key not in self.entries:
            return ""
        if len(value) < least or (most is not None and len(value) > most):
            span = f"{least} or more" if most is None else f"{least} to {most}"
            self.note(f"{brief_text(value)} has {len(value)} characters, not {span}", key)
        elif pattern is not None and re.fullmatch(pattern, value) is None:
            self.note(f"{brief_text(value)} does not match {pattern}", key)
        return value

    def optional_text(self, key: str) -> str | None:
        """Return a text that is not empty, or None if it is missing or null."""
        return self.text(key, least=1) if self.has(key) else None

    def whole(self, key: str, low: int, high: int = _UNLIMITED, *, default: int = 0) -> int:
        """Return an integer (2.0 counts as one) in [low, high]."""
        value = self.entries.get(key, default)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            self.note(f"expected a whole number, not {brief_text(value)}", key)
            return max(default, low)
        if not low <= value <= high:
            at_least = high == _UNLIMITED and value < low
            bound = f"at least {low}" if at_least else f"from {low} to {high}"
            self.note(f"{value} is out of range, it must be {bound}", key)
            return max(default, low)
        return value

    def flag(self, key: str, *, default: bool = False) -> bool:
        """Return true or false."""
        value = self.entries.get(key, default)
        if not isinstance(value, bool):
            self.note(f"expected true or false, not {brief_text(value)}", key)
            return default
        return value

    def choice(self, key: str, choices: Sequence[str], default: str) -> str:
        """Return one of `choices`."""
        value = self.entries.get(key, default)
        if value not in choices:
            near = nearest(str(value), choices)
            fix = f"did you mean {near!r}?" if near else f"write one of {', '.join(choices)}"
            self.note(f"{brief_text(value)} is not known here", key, fix)
            return default
        return str(value)

    def items(self, key: str, *, least: int = 0) -> list[tuple[str, object]]:
        """Return the entries of a list, each with its pointer."""
        value = self.entries.get(key, [])
        if not isinstance(value, list | tuple):
            self.note(f"expected a list, not {brief_text(value)}", key)
            return []
        if len(value) < least and key in self.entries:
            self.note(f"expected {least} or more entries, not {len(value)}", key)
        return [(f"{self.at}/{escape(key)}/{index}", entry) for index, entry in enumerate(value)]

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of distinct, non-empty texts."""
        found: dict[str, None] = {}
        for at, entry in self.items(key):
            if not isinstance(entry, str) or not entry:
                self.problems.append(FileProblem(f"expected a text, not {brief_text(entry)}", at))
            elif entry in found:
                self.problems.append(FileProblem(f"{entry!r} is given twice", at))
            else:
                found[entry] = None
        return tuple(found)

    def resources(self, key: str) -> Resources:
        """Return amounts such as ``{"cpu": 4, "memory": "16 GiB"}``."""
        if key not in self.entries:
            return Resources()
        try:
            return Resources.from_json(self.entries[key])
        except AmountError as error:
            self.note(str(error), key)
            return Resources()

    def _refuse_unknown(self, known: Sequence[str]) -> None:
        for key in self.entries:
            if key not in known:
                near = nearest(str(key), known)
                fix = f"did you mean {near!r}?" if near else f"known are {', '.join(known)}"
                self.note(f"unknown key {str(key)!r}", str(key), fix)


def is_number(value: object) -> TypeGuard[int | float]:
    """Return whether a value is a JSON number: not NaN, infinite or a boolean."""
    if isinstance(value, float):
        return isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)


def escape(key: str) -> str:
    """Escape a key as one part of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def brief_text(value: object, most: int = 60) -> str:
    """Return a value for a message, truncated to `most` characters."""
    text = ascii(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."
