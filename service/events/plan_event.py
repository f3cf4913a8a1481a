"""PlanEvent: one thing that a commit changed, in the words that clients read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

#: What may happen to a reservation, as an event names it.
RESERVATION_KINDS: Final = (
    "accepted",
    "refused",
    "begun",
    "ended",
    "closed",
    "cancelled",
    "failed",
    "degraded",
    "missed",
    "unused",
    "stage_late",
    "work_waits",
    "work_runs_on",
    "work_ended",
    "restored",
    "regained",
    "moved",
    "relocated",
    "optimized",
    "renegotiated",
    "released",
    "extended",
    "hold_accepted",
    "archived",
)

#: One a version, before all others of it; and what is not of one reservation.
COMMIT: Final = "commit"
CLUSTER: Final = "cluster"

#: What the log does not hold: told as it is now, and without an id.
TICK: Final = "tick"
JOB: Final = "job"

KINDS: Final = (COMMIT, CLUSTER, *RESERVATION_KINDS, TICK, JOB)

#: How the id of an event looks: the version that made it, and its number among those of it.
ID_PATTERN: Final = r"[0-9]{1,15}(\.[0-9]{1,9})?"
_ID: Final = re.compile(ID_PATTERN)


#: Number past every event of a version: all of it has been read.
WHOLE: Final = 10**9 - 1


class EventPosition(NamedTuple):
    """How far someone has read: up to and with event `number` of `version`."""

    version: int
    number: int

    def __str__(self) -> str:
        """What :func:`read_position` reads back."""
        return f"{self.version}.{self.number}" if self.number < WHOLE else str(self.version)


def read_position(text: str) -> EventPosition | None:
    """Return the position that an id names; a version alone is all of it. None: it is no id."""
    if not _ID.fullmatch(text):
        return None
    version, _, number = text.partition(".")
    return EventPosition(int(version), int(number) if number else WHOLE)


@dataclass(frozen=True, slots=True)
class PlanEvent:
    """One thing that a commit changed.

    Attributes
    ----------
    position
        Version and number: the same in every process, and after a restart.
    kind
        One of `KINDS`.
    at_ms
        When it was committed, in ms from the origin.
    reservation, tenant
        Whose it is; None of what is not of one reservation.
    more
        What else is reported, plain JSON.
    """

    position: EventPosition
    kind: str
    at_ms: int
    reservation: str | None = None
    tenant: str | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return what is notified of it; times in seconds."""
        entry: dict[str, Any] = {
            "id": str(self.position),
            "version": self.position.version,
            "kind": self.kind,
            "at": self.at_ms / 1000,
        }
        if self.reservation is not None:
            entry |= {"reservation": self.reservation, "tenant": self.tenant}
        return entry | dict(self.more)

    def to_row(self) -> list[Any]:
        """Return what :meth:`from_row` reads back."""
        more = dict(self.more)
        return [*self.position, self.kind, self.at_ms, self.reservation, self.tenant, more]

    @classmethod
    def from_row(cls, row: list[Any]) -> PlanEvent:
        """Read what :meth:`to_row` wrote."""
        version, number, *rest = row
        return cls(EventPosition(version, number), *rest)
