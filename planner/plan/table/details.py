"""Store of the expressions, choices and notes of reservations."""

from __future__ import annotations

import json
import sys
from typing import TypeAlias

from planner.reservations.reservation import RequestDetails
from rdl.expressions import Expression

#: A reservation's stored details: text, an object, or only the expression tree.
Kept: TypeAlias = "bytes | RequestDetails | Expression"


class DetailStore:
    """Details by reservation number: compact text, or the tree of a recent commit."""

    def __init__(self) -> None:
        # Most requests have neither choices nor notes: storing only the tree saves 64 bytes each.
        self._kept: list[Kept] = []

    def put(self, number: int, details: RequestDetails) -> None:
        """Store or replace details; numbers come in order."""
        entry: Kept = details
        if details.expression is None or details.is_written:
            entry = pack(details)  # text takes a fraction of the memory of its tree
        elif _is_plain(details):
            entry = details.expression
        if number == len(self._kept):
            self._kept.append(entry)
        else:
            self._kept[number] = entry

    def get(self, number: int) -> RequestDetails:
        """Return the stored details."""
        entry = self._kept[number]
        return unpack(entry) if isinstance(entry, bytes) else _object(entry)

    def copy(self) -> DetailStore:
        """Return an equal store."""
        twin = DetailStore()
        twin._kept = list(self._kept)
        return twin

    def nbytes(self) -> int:
        """Return the memory of the texts; trees belong to their requests."""
        texts = sum(sys.getsizeof(one) for one in self._kept if isinstance(one, bytes))
        return texts + sys.getsizeof(self._kept)


def _object(entry: RequestDetails | Expression) -> RequestDetails:
    return entry if isinstance(entry, RequestDetails) else RequestDetails(entry)


def _is_plain(details: RequestDetails) -> bool:
    """Return whether there is only an expression."""
    return not (details.choices or details.notes or details.written)


def pack(entry: Kept) -> bytes:
    """Return details as compact text."""
    if isinstance(entry, bytes):
        return entry
    details = _object(entry)
    if _is_plain(details):
        return details.text.encode()
    kept: list[object] = [dict(details.choices), list(details.notes)]
    if details.written:
        kept.append(details.written)
    rest = json.dumps(kept, separators=(",", ":"))
    return f"{details.text}\0{rest}".encode()


def unpack(entry: bytes) -> RequestDetails:
    """Return the details that `pack` encoded."""
    text, _, rest = entry.decode().partition("\0")
    if not rest:
        return RequestDetails(text)
    choices, notes, *more = json.loads(rest)
    written = more[0] if more else ""
    return RequestDetails(text, tuple(choices.items()), tuple(notes), written=written)
