"""RecentEvents: the events of the newest versions, from which every stream of a process reads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Final

import msgspec

from service.events.plan_event import WHOLE, EventPosition, PlanEvent

#: Most events that a process caches; the newest version is always complete.
MOST_EVENTS: Final = 50_000

#: Most events stored with a snapshot.
MOST_KEPT: Final = 20_000


class RecentEvents:
    """The events of consecutive versions up to the newest; thread-safe.

    Parameters
    ----------
    most
        Most cached events.
    """

    def __init__(self, most: int = MOST_EVENTS) -> None:
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
