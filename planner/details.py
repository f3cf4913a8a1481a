"""Where the expressions, choices and notes of reservations are kept."""

from __future__ import annotations

import json
import sys
from typing import Protocol

from planner.commit import Details


class DetailStore(Protocol):
    """Keeps the details of reservation number i."""

    def put(self, number: int, details: Details) -> None:
        """Keep or replace."""
        ...

    def get(self, number: int) -> Details:
        """Return what was put last."""
        ...

    def nbytes(self) -> int:
        """Return the memory it takes."""
        ...


class MemoryDetails:
    """Details in memory: the expression tree a commit brought, or compact text after a replay."""

    def __init__(self) -> None:
        self._kept: list[bytes | Details] = []

    def put(self, number: int, details: Details) -> None:
        """Keep or replace; numbers come in order."""
        entry = details if details.expression is not None else packed(details)
        if number == len(self._kept):
            self._kept.append(entry)
        else:
            self._kept[number] = entry

    def get(self, number: int) -> Details:
        """Return what was put last."""
        entry = self._kept[number]
        return entry if isinstance(entry, Details) else unpacked(entry)

    def nbytes(self) -> int:
        """Return the memory of the texts; trees that a commit brought are their maker's."""
        texts = sum(sys.getsizeof(one) for one in self._kept if isinstance(one, bytes))
        return texts + sys.getsizeof(self._kept)


def packed(details: Details) -> bytes:
    """Return details as compact text."""
    if not details.choices and not details.notes:
        return details.text.encode()
    rest = json.dumps([dict(details.choices), list(details.notes)], separators=(",", ":"))
    return f"{details.text}\0{rest}".encode()


def unpacked(entry: bytes) -> Details:
    """Return what `packed` wrote."""
    text, _, rest = entry.decode().partition("\0")
    if not rest:
        return Details(text)
    choices, notes = json.loads(rest)
    return Details(text, tuple(choices.items()), tuple(notes))
