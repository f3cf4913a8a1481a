"""LiveStream: what one client reads as it comes to be, without a thread of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Final, Protocol, TypeAlias

#: Seconds of silence after which a stream says that it lives, and after which one ends, so that
#: who may read is judged again; clients come back by themselves.
HEARTBEAT_S: Final = 15.0
LONGEST_S: Final = 3600.0

#: Seconds between two looks whether who listens still may.
JUDGED_S: Final = 2.0

#: Where an application finds, in a request's environment, who takes a stream over from it.
STREAM_PLACE: Final = "agenda.stream_place"

#: Takes the next piece of a stream, or None at its end; it may not wait.
StreamSink: TypeAlias = Callable[[bytes | None], None]


class StreamSource(Protocol):
    """Where a stream's text comes from; only the thread of the hub asks it."""

    def take(self) -> bytes:
        """Return what is to be reported now; nothing if there is nothing."""
        ...

    def heartbeat(self) -> bytes:
        """Return what is reported if there is nothing to tell."""
        ...

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""
        ...


class StreamFeeder(Protocol):
    """Who feeds streams, and knows how many there are."""

    def enter(self, stream: LiveStream) -> None:
        """Feed a stream from now on."""
        ...

    def leave(self, stream: LiveStream) -> None:
        """Feed a stream no longer."""
        ...

    def give_back(self, stream: LiveStream) -> None:
        """Let another stream have the place of one that no one reads any more."""
        ...

    def wake(self) -> None:
        """Look soon: there is something new, or capacity for it."""
        ...


class LiveStream(Iterator[bytes]):
    """One stream, fed by a hub.

    A server hands its pieces to the socket (`attach`). Anyone who has no such server reads it as an
    iterator, which waits.

    Parameters
    ----------
    hub
        Feeds it, and counts it.
    source
        What it tells.
    longest_s
        When it ends at the latest.
    may
        Whether who listens still may; it ends where not.
    """

    def __init__(
        self,
        hub: StreamFeeder,
        source: StreamSource,
        longest_s: float = LONGEST_S,
        may: Callable[[], bool] = lambda: True,
    ) -> None:
        self._hub = hub
        self._source = source
        self._may = may
        self._said = self._judged = time.monotonic()
        self._until = self._said + min(longest_s, LONGEST_S)
        self._pieces: SimpleQueue[bytes | None] = SimpleQueue()
        self._sink: StreamSink = self._pieces.put
        self._has_room = True
        self._ended = False

    def attach(self, sink: StreamSink) -> None:
        """Hand every piece from now on to `sink`, and feed it."""
        self._sink = sink
        self._hub.enter(self)

    def give_room(self) -> None:
        """Say that the last piece is gone, and another may come."""
        self._has_room = True
        self._hub.wake()

    def feed(self, now: float) -> None:
        """Pass on the next piece if there is one and capacity for it; called by the hub alone."""
        if not self._ended and now - self._judged >= JUDGED_S:
            self._judged = now
            if not self._may():
                self.end()
        if self._ended or not self._has_room:
            return
        piece = self._source.take()
        if not piece and now - self._said >= HEARTBEAT_S:
            piece = self._source.heartbeat()
        if piece:
            self._said = now
            self._has_room = False
            self._sink(piece)
        if self._source.over or now >= self._until:
            self.end()

    def end(self) -> None:
        """Tell the reader that nothing more comes."""
        if not self._ended:
            self._ended = True
            self._hub.leave(self)
            self._sink(None)

    def __next__(self) -> bytes:
        """Return the next piece, when it comes."""
        self._hub.enter(self)
        piece = self._pieces.get()
        self.give_room()
        if piece is None:
            raise StopIteration
        return piece

    def close(self) -> None:
        """Give its place back: no one reads it any more; may be called again."""
        self._ended = True
        self._hub.leave(self)
        self._hub.give_back(self)
