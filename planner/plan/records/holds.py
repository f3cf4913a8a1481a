"""Holds: reservations that are kept for a short time, and end unless accepted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from rdl.time_grid import seconds_of


@dataclass(frozen=True, slots=True)
class Hold:
    """Until when a reservation is held, and for whom.

    Attributes
    ----------
    until_ms
        First instant at which it can no longer be accepted, ms from the origin.
    holder
        Name of the user that holds it.
    """

    until_ms: int
    holder: str

    def to_json(self) -> list[Any]:
        """Return plain JSON."""
        return [self.until_ms, self.holder]

    @classmethod
    def from_json(cls, entry: list[Any]) -> Hold:
        """Read what :meth:`to_json` wrote."""
        return cls(entry[0], entry[1])

    @property
    def until(self) -> int | float:
        """`until_ms` in seconds."""
        return seconds_of(self.until_ms)


@dataclass(frozen=True, slots=True)
class AcceptHold:
    """Accept a hold: from now on it is an ordinary reservation."""

    id: str


@dataclass(frozen=True, slots=True)
class EndHold:
    """End a hold and release its allocation.

    Attributes
    ----------
    when_over
        Only if the hold has expired.
    """

    id: str
    reason: str
    when_over: bool = False


@dataclass(frozen=True, slots=True)
class HoldAccepted:
    """A hold was accepted."""

    id: str
    op: ClassVar[str] = "hold_accepted"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {"op": self.op, "id": self.id}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> HoldAccepted:
        """Read what :meth:`to_json` wrote."""
        return cls(entry["id"])
