"""PlanEvent: one change by a commit, in the terms of the API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

#: Kinds of events of a reservation.
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

#: One event per version, before all others of it; and events not about one reservation.
COMMIT: Final = "commit"
CLUSTER: Final = "cluster"

#: Events outside the log: the current state, without an id.
TICK: Final = "tick"
JOB: Final = "job"

KINDS: Final = (COMMIT, CLUSTER, *RESERVATION_KINDS, TICK, JOB)

#: Form of event ids: the version, and the number of the event in it.
ID_PATTERN: Final = r"[0-9]{1,15}(\.[0-9]{1,9})?"
_ID: Final = re.compile(ID_PATTERN)


#: Number after every event of a version: all of it has been read.
WHOLE: Final = 10**9 - 1


class EventPosition(NamedTuple):
    """A reader's position: up to and including event `number` of `version`."""

    version: int
    number: int

    def __str__(self) -> str:
        """Return the text for :func:`read_position`."""
        return f"{self.version}.{self.number}" if self.number < WHOLE else str(self.version)


def read_position(text: str) -> EventPosition | None:
    """Return the position of an id; a version means all of it. None if it is not an id."""
    if not _ID.fullmatch(text):
        return None
    version, _, number = text.partition(".")
    return EventPosition(int(version), int(number) if number else WHOLE)


@dataclass(frozen=True, slots=True)
class PlanEvent:
    """One change by a commit.

    Attributes
    ----------
    position
        Version and number: the same in every process, and after a restart.
    kind
        One of `KINDS`.
    at_ms
        Time of the commit, in ms from the origin.
    reservation, tenant
        Its reservation and tenant; None if it is not about one reservation.
    more
        Further fields, plain JSON.
    """

    position: EventPosition
    kind: str
    at_ms: int
    reservation: str | None = None
    tenant: str | None = None
    more: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the event as JSON for clients; times in seconds."""
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
        """Return the row for :meth:`from_row`."""
        more = dict(self.more)
        return [*self.position, self.kind, self.at_ms, self.reservation, self.tenant, more]

    @classmethod
    def from_row(cls, row: list[Any]) -> PlanEvent:
        """Read a row of :meth:`to_row`."""
        version, number, *rest = row
        return cls(EventPosition(version, number), *rest)
