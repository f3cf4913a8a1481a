"""LiveStream: a live stream to one client, without a thread of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Final, Protocol, TypeAlias

#: Seconds of silence before a heartbeat, and the longest life of a stream, so that its reader's
#: access is checked again; clients reconnect automatically.
HEARTBEAT_S: Final = 15.0
LONGEST_S: Final = 3600.0

#: Seconds between two checks of a reader's access.
JUDGED_S: Final = 2.0

#: Key in a request's WSGI environment of the function that takes a stream over.
STREAM_PLACE: Final = "agenda.stream_place"

#: Receives the next piece of a stream, or None at its end; it must not block.
StreamSink: TypeAlias = Callable[[bytes | None], None]


class StreamSource(Protocol):
    """Source of a stream's text; used only by the thread of the hub."""

    def take(self) -> bytes:
        """Return the text to send now; empty if there is none."""
        ...

    def heartbeat(self) -> bytes:
        """Return the text of a heartbeat."""
        ...

    @property
    def over(self) -> bool:
        """Whether the stream has ended."""
        ...


class StreamFeeder(Protocol):
    """Feeds and counts streams."""

    def enter(self, stream: LiveStream) -> None:
        """Start to feed a stream."""
        ...

    def leave(self, stream: LiveStream) -> None:
        """Stop feeding a stream."""
        ...

    def give_back(self, stream: LiveStream) -> None:
        """Release the place of a stream that is no longer read."""
        ...

    def wake(self) -> None:
        """Check soon, because there is news or a reader is ready."""
        ...


class LiveStream(Iterator[bytes]):
    """One stream, fed by a hub.

    A server passes its pieces to the socket (`attach`). Other users read it as a blocking iterator.

    Parameters
    ----------
    hub
        Feeds it, and counts it.
    source
        Source of its text.
    longest_s
        Longest life in seconds.
    may
        Returns whether its reader still has access; otherwise the stream ends.
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
        """Pass every piece from now on to `sink`, and start feeding."""
        self._sink = sink
        self._hub.enter(self)

    def give_room(self) -> None:
        """Report that the last piece was sent, and the reader is ready for another."""
        self._has_room = True
        self._hub.wake()

    def feed(self, now: float) -> None:
        """Send the next piece if there is one and the reader is ready; called only by the hub."""
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
        """End the stream for its reader."""
        if not self._ended:
            self._ended = True
            self._hub.leave(self)
            self._sink(None)

    def __next__(self) -> bytes:
        """Wait for the next piece and return it."""
        self._hub.enter(self)
        piece = self._pieces.get()
        self.give_room()
        if piece is None:
            raise StopIteration
        return piece

    def close(self) -> None:
        """Release its place, because it is no longer read; idempotent."""
        self._ended = True
        self._hub.leave(self)
        self._hub.give_back(self)
