"""PlanEventSource: the events of the Plan after a position, for one client's filter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from service.access.user import User
from service.events.plan_event import CLUSTER, COMMIT, JOB, TICK, EventPosition, PlanEvent
from service.events.recent_events import RecentEvents
from service.streaming.event_text import RETRY, event_text
from service.streaming.present_states import PresentStates

#: Most events read, and most bytes sent, at a time: a stream's buffer.
_MOST_EVENTS: Final = 2_000
_MOST_BYTES: Final = 64 * 1024

#: Most cached pieces for streams that read the same.
_MOST_SHARED: Final = 64


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Filter of reported events.

    Attributes
    ----------
    user
        The reader: other tenants' reservations are not reported.
    kinds
        Kinds of `service.events.plan_event.KINDS`.
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
