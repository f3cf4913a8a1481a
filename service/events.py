"""Events of commits: derived from records as they are applied, and kept for streams."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from planner.plan.plan import Plan
from planner.plan.records.commit_records import (
    Advanced,
    Archived,
    CommitRecord,
    Reconfigured,
    RecordedChange,
)
from planner.plan.records.reservation_records import (
    Admitted,
    Degraded,
    Ended,
    HoldAccepted,
    Noted,
    Refused,
    Released,
    Relocated,
    Updated,
)
from planner.reservations.state import STATE_NUMBERS, State

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

_ACCEPTED: Final = STATE_NUMBERS[State.ACCEPTED]
_ACTIVE: Final = STATE_NUMBERS[State.ACTIVE]
_COMPLETED: Final = STATE_NUMBERS[State.COMPLETED]

#: Most events that a process caches; the newest version is always complete.
_MOST_EVENTS: Final = 50_000

#: Most events stored with a snapshot.
MOST_KEPT: Final = 20_000


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


# The same record on the same Plan gives the same events in every process and in every replay, so
# that clients can resume by their ids.


class RecordEvents:
    """Reads the Plan before a record is applied, and derives the events afterwards.

    Parameters
    ----------
    plan
        The Plan before the record.
    record
        The record to apply.
    """

    def __init__(self, plan: Plan, record: CommitRecord) -> None:
        self._plan = plan
        self._record = record
        updated = (one.id for one in record.changes if isinstance(one, Updated))
        self._waiting = {id_ for id_ in updated if self._state_of(id_) == _ACCEPTED}
        leaving = (id_ for one in record.changes if isinstance(one, Archived) for id_ in one.ids)
        self._leaving = {id_: self._tenant_of(id_) for id_ in leaving}
        # Only an advance of time changes reservations that the record does not list.
        advances = any(isinstance(one, Advanced) for one in record.changes)
        self._before: NDArray[np.int8] | None = (
            plan.table.meta["state"].copy() if advances else None
        )
        self._found: list[PlanEvent] = []

    def after(self) -> tuple[PlanEvent, ...]:
        """Return the events, now that the record is applied; the first is the commit itself."""
        self._found = []
        for change in self._record.changes:
            self._tell(change)
        counts = Counter(event.kind for event in self._found)
        summary: dict[str, Any] = {"changed": dict(sorted(counts.items()))}
        if self._before is not None:
            summary["now"] = self._plan.grid.seconds(self._plan.now)
        first = PlanEvent(self._position(0), COMMIT, self._record.at_ms, more=summary)
        return (first, *self._found)

    def _tell(self, change: RecordedChange) -> None:
        match change:
            case Admitted():
                self._add("accepted", change.id, change.tenant)
                if change.holding.begin <= self._plan.now and self._plan.now > 0:
                    self._add("begun", change.id, change.tenant)
            case Refused(refusal=refusal):
                self._add("refused", refusal.id, refusal.tenant, code=refusal.code.value)
            case Updated():
                self._add(change.cause, change.id, revision=change.revision, reason=change.reason)
                if change.id in self._waiting and self._state_of(change.id) == _ACTIVE:
                    self._add("begun", change.id)
            case Degraded():
                self._add(change.cause, change.id, reason=change.reason)
            case Noted(what=what):
                self._add(what, change.id, reason=change.reason)
            case Released():
                self._add("released", change.id, reason=change.reason)
            case Relocated():
                self._add("relocated", change.id, reason=change.reason)
            case HoldAccepted():
                self._add("hold_accepted", change.id)
            case Archived():
                for id_, tenant in self._leaving.items():
                    self._add("archived", id_, tenant)
            case Ended():
                kind = "closed" if change.state is State.COMPLETED else change.state.value
                self._add(kind, change.id, reason=change.reason)
            case Reconfigured():
                self._found.append(
                    PlanEvent(self._position(len(self._found) + 1), CLUSTER, self._record.at_ms)
                )
            case Advanced():
                self._advance(change)

    def _advance(self, change: Advanced) -> None:
        """Add events for reservations that began, ended or got new occurrences by an advance."""
        for id_, _ in change.extended:
            self._add("extended", id_)
        before = self._before
        assert before is not None
        after = self._plan.table.meta["state"][: len(before)]
        for number in np.flatnonzero(before != after).tolist():
            left, right = int(before[number]), int(after[number])
            if left == _ACCEPTED and right in (_ACTIVE, _COMPLETED):
                self._add("begun", self._plan.table.id_of(number))
            if left in (_ACCEPTED, _ACTIVE) and right == _COMPLETED:
                self._add("ended", self._plan.table.id_of(number))

    def _tenant_of(self, id_: str) -> str | None:
        number = self._plan.table.number_of(id_)
        if number is not None:
            return self._plan.table.scope(number)[0]
        refusal = self._plan.refusal(id_)
        return None if refusal is None else refusal.tenant

    def _state_of(self, id_: str) -> int | None:
        number = self._plan.table.number_of(id_)
        return None if number is None else int(self._plan.table.meta[number]["state"])

    def _add(self, kind: str, id_: str, tenant: str | None = None, **more: Any) -> None:
        number = self._plan.table.number_of(id_)
        if tenant is None and number is not None:
            tenant = self._plan.table.scope(number)[0]
        told = {name: value for name, value in more.items() if value != ""}
        position = self._position(len(self._found) + 1)
        self._found.append(PlanEvent(position, kind, self._record.at_ms, id_, tenant, told))

    def _position(self, index: int) -> EventPosition:
        return EventPosition(self._record.version, index)


class RecentEvents:
    """The events of consecutive versions up to the newest; thread-safe.

    Parameters
    ----------
    most
        Most cached events.
    """

    def __init__(self, most: int = _MOST_EVENTS) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._of_version: list[tuple[PlanEvent, ...]] = []
        self._floor = 0  # the version before the first cached one
        self._count = 0
        self._listeners: tuple[Callable[[], None], ...] = ()

    def listen(self, listener: Callable[[], None]) -> None:
        """Add a listener that is called when there are new events; it must not block."""
        with self._lock:
            self._listeners = (*self._listeners, listener)

    @property
    def newest(self) -> EventPosition:
        """The position after all events."""
        with self._lock:
            return EventPosition(self._floor + len(self._of_version), WHOLE)

    def begin(self, version: int, events: Iterable[PlanEvent] = ()) -> None:
        """Restart after `version`; `events` are those of the last versions up to it."""
        of_version = [
            tuple(group) for _, group in groupby(events, key=lambda one: one.position.version)
        ]
        with self._lock:
            self._of_version, self._floor = of_version, version - len(of_version)
            self._count = sum(map(len, of_version))

    def add(self, version: int, events: tuple[PlanEvent, ...]) -> None:
        """Add the events of the next version."""
        with self._lock:
            assert version == self._floor + len(self._of_version) + 1
            self._of_version.append(events)
            self._count += len(events)
            self._trim()
            listeners = self._listeners
        for listener in listeners:
            listener()

    def _trim(self) -> None:
        """Drop the oldest versions, once there is an eighth too many, to do it seldom."""
        if self._count <= self._most + self._most // 8:
            return
        first = 0
        while self._count > self._most and first < len(self._of_version) - 1:
            self._count -= len(self._of_version[first])
            first += 1
        del self._of_version[:first]
        self._floor += first

    def reaches(self, position: EventPosition) -> bool:
        """Return whether all events after a position are cached, and it is not in the future."""
        with self._lock:
            return self._is_reached(position)

    def read(self, position: EventPosition, most: int) -> list[PlanEvent] | None:
        """Return up to `most` events after a position, in order; None if some are not cached."""
        found: list[PlanEvent] = []
        with self._lock:
            if not self._is_reached(position):
                return None
            for at in range(max(0, position.version - self._floor - 1), len(self._of_version)):
                events = self._of_version[at]
                if self._floor + at + 1 == position.version:
                    events = events[position.number + 1 :]
                found += events[: most - len(found)]
                if len(found) >= most:
                    break
        return found

    def _is_reached(self, position: EventPosition) -> bool:
        return self._floor <= position.version - (position.number < WHOLE) and (
            position.version <= self._floor + len(self._of_version)
        )

    def encode(self) -> bytes:
        """Encode the newest events, in complete versions, for :func:`decode_events`."""
        with self._lock:
            first, count = len(self._of_version), 0
            while first and count + len(self._of_version[first - 1]) <= MOST_KEPT:
                first -= 1
                count += len(self._of_version[first])
            chosen = [event for events in self._of_version[first:] for event in events]
        return msgspec.json.encode([event.to_row() for event in chosen])


def decode_events(raw: bytes) -> list[PlanEvent]:
    """Decode the output of :meth:`RecentEvents.encode`."""
    return [PlanEvent.from_row(row) for row in msgspec.json.decode(raw)]
