"""PlanEventSource: the events of the Plan for one client, and the states outside the log."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from service.access.user import User
from service.events import (
    CLUSTER,
    COMMIT,
    JOB,
    TICK,
    EventPosition,
    PlanEvent,
    RecentEvents,
)
from service.store import OptimizationRow, Store
from service.store.optimizations import RUNNING

#: Most events read, and most bytes sent, at a time: a stream's buffer.
_MOST_EVENTS: Final = 2_000
_MOST_BYTES: Final = 64 * 1024

#: Most cached pieces for streams that read the same.
_MOST_SHARED: Final = 64

#: Seconds between two checks.
_LOOK_S: Final = 1.0

#: Reported fields of an optimisation's progress.
_TOLD: Final = ("phase", "elapsed", "value", "bound", "gap", "source")

#: Content type of a stream.
MEDIA: Final = "text/event-stream"

#: Reconnection delay of clients, ms.
RETRY: Final = b"retry: 1000\n\n"

#: Heartbeat without news, so that both ends know that the other is alive.
HEARTBEAT: Final = b":\n\n"


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Filter of reported events.

    Attributes
    ----------
    user
        The reader: other tenants' reservations are not reported.
    kinds
        Kinds of `service.events.KINDS`.
    tenant, reservation
        None does not filter.
    """

    user: User
    kinds: frozenset[str]
    tenant: str | None = None
    reservation: str | None = None

    def takes(self, event: PlanEvent) -> bool:
        """Return whether an event is reported."""
        if event.kind not in self.kinds:
            return False
        if event.tenant is None:
            return event.kind in (COMMIT, CLUSTER)
        return (
            self.tenant in (None, event.tenant)
            and self.reservation in (None, event.reservation)
            and self.user.acts_for(event.tenant)
        )

    @property
    def state_kinds(self) -> frozenset[str]:
        """Requested kinds with a current state; jobs only for operators, as they have no tenant."""
        shown = {TICK, JOB} if self.user.sees_all else {TICK}
        return self.kinds & shown


@dataclass(frozen=True, slots=True)
class _StreamPiece:
    text: bytes
    position: EventPosition


class PieceMemory:
    """Cache of recent pieces for streams that read the same; used only by the hub's thread."""

    def __init__(self, recent: RecentEvents) -> None:
        self._recent = recent
        self._known: dict[tuple[EventFilter, EventPosition], _StreamPiece] = {}

    def next_piece(
        self, wanted: EventFilter, position: EventPosition
    ) -> tuple[bytes, EventPosition]:
        """Return the text of the events after a position, and the new position."""
        if position == self._recent.newest:
            return b"", position
        key = (wanted, position)
        found = self._known.get(key)
        if found is None:
            found = self._make(wanted, position)
            if len(self._known) >= _MOST_SHARED:
                self._known.clear()
            if found.position != position:
                self._known[key] = found
        return found.text, found.position

    def _make(self, wanted: EventFilter, position: EventPosition) -> _StreamPiece:
        newest = self._recent.newest
        events = self._recent.read(position, _MOST_EVENTS)
        if events is None:
            text = event_text("reset", {"kind": "reset", "version": newest.version}, str(newest))
            return _StreamPiece(text, newest)
        told = bytearray()
        for event in events:
            position = event.position
            if wanted.takes(event):
                told += event_text(event.kind, event.to_json(), str(position))
                if len(told) >= _MOST_BYTES:
                    break
        return _StreamPiece(bytes(told), position)


class PlanEventSource:
    """Source of one client's stream of ``GET /v1/events``.

    Parameters
    ----------
    memory, present
        Caches of events and of current states.
    wanted
        Filter of events.
    position
        Position up to which the client has read.
    """

    over = False

    def __init__(
        self,
        memory: PieceMemory,
        present: PresentStates,
        wanted: EventFilter,
        position: EventPosition,
    ) -> None:
        self._memory = memory
        self._present = present
        self._wanted = wanted
        self._kinds = wanted.state_kinds
        self._serial = -1
        self._position = position
        start = {"kind": "start", "version": position.version}
        self._head = RETRY + event_text("start", start, str(position))

    def take(self) -> bytes:
        """Return the text to send now."""
        text, self._position = self._memory.next_piece(self._wanted, self._position)
        head, self._head = self._head, b""
        if self._kinds:
            present = self._present.after(self._serial, self._kinds)
            self._serial = self._present.serial
            return b"".join((head, text, *present))
        return head + text

    def heartbeat(self) -> bytes:
        """Return a comment, and the position up to which all events were processed."""
        return b":\nid: " + str(self._position).encode() + b"\n\n"


@dataclass(frozen=True, slots=True)
class PresentState:
    """One state: its newest text, and the serial number of the text."""

    serial: int
    kind: str
    text: bytes
    over: bool = False


class PresentStates:
    """Reads the store from time to time; used only by the thread of the hub.

    Attributes
    ----------
    serial
        Serial number of the newest text.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._looked = -_LOOK_S
        self._raw: dict[str, object] = {}
        self._states: dict[str, PresentState] = {}
        self.serial = 0

    def after(self, serial: int, kinds: frozenset[str]) -> list[bytes]:
        """Return the texts after a serial number; for a new reader (-1) without ended states."""
        self._look()
        return [
            one.text
            for one in self._states.values()
            if one.serial > serial and one.kind in kinds and not (serial < 0 and one.over)
        ]

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._looked < _LOOK_S:
            return
        self._looked = now
        raw = self._store.applications.assignment()
        if raw != self._raw.get(TICK) and len(raw) > len(b"{}"):
            self._raw[TICK] = raw
            self._put(TICK, TICK, _tick_of(raw))
        rows = self._store.optimizations.page()
        for gone in self._states.keys() - {TICK} - {row.id for row in rows}:
            del self._states[gone]
            self._raw.pop(gone, None)
        for row in rows:
            raw_row = (row.state, row.progress)
            if raw_row != self._raw.get(row.id):
                self._raw[row.id] = raw_row
                self._put(row.id, JOB, _job_of(row), over=row.state != RUNNING)

    def _put(self, key: str, kind: str, body: dict[str, Any], *, over: bool = False) -> None:
        self.serial += 1
        self._states[key] = PresentState(self.serial, kind, event_text(kind, body), over)


def _tick_of(raw: bytes) -> dict[str, Any]:
    """Return the event of an assignment: counts without owners."""
    found = msgspec.json.decode(raw)
    return {
        "kind": TICK,
        "at": found["at"],
        "version": found["plan_version"],
        "components": len(found["rows"]),
        "below": len(found["below"]),
    }


def _job_of(row: OptimizationRow) -> dict[str, Any]:
    progress = msgspec.json.decode(row.progress) if row.progress else {}
    told = {name: progress[name] for name in _TOLD if name in progress}
    return {"kind": JOB, "job": row.id, "state": row.state, **told}


def event_text(kind: str, body: Mapping[str, Any], id_: str | None = None) -> bytes:
    """Return one event; without an id, clients continue from the last one that had one."""
    head = b"" if id_ is None else b"id: " + id_.encode() + b"\n"
    return head + b"event: " + kind.encode() + b"\ndata: " + msgspec.json.encode(body) + b"\n\n"
