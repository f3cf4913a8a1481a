"""Holds: reservations that are kept for a short while, and end unless accepted."""

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
        First instant at which it can be accepted no more, ms from the origin.
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
        """The same in seconds."""
        return seconds_of(self.until_ms)


@dataclass(frozen=True, slots=True)
class AcceptHold:
    """Keep what is held: it is a reservation like others from now on."""

    id: str


@dataclass(frozen=True, slots=True)
class EndHold:
    """Release what is held.

    Attributes
    ----------
    when_over
        Only if its time has run out.
    """

    id: str
    reason: str
    when_over: bool = False


@dataclass(frozen=True, slots=True)
class HoldAccepted:
    """What was held is kept."""

    id: str
    op: ClassVar[str] = "hold_accepted"

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {"op": self.op, "id": self.id}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any]) -> HoldAccepted:
        """Read what :meth:`to_json` wrote."""
        return cls(entry["id"])
