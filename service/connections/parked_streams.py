"""ParkedStreams: the sockets of streams, watched and written to by a worker's event loop."""

from __future__ import annotations

import logging
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from service.connections.client_socket import ClientSocket
from service.streaming.live_stream import LiveStream

logger = logging.getLogger("agenda.service")

#: Most bytes that the kernel buffers for a reader; in addition one piece of a stream waits.
_KERNEL_BYTES: Final = 128 * 1024

_READ: Final = selectors.EVENT_READ
_WRITE: Final = selectors.EVENT_WRITE


class ParkedStreams:
    """Streams without a thread: pieces of the hub are sent when the socket is writable.

    Parameters
    ----------
    selector
        Selector of the event loop.
    defer
        Runs a function in the event loop; called by the thread of the hub.
    answer_s
        Longest wait for a client to read a piece.
    """

    def __init__(
        self,
        selector: selectors.BaseSelector,
        defer: Callable[[Callable[[], None]], None],
        answer_s: float,
    ) -> None:
        self._selector = selector
        self._defer = defer
        self._answer_s = answer_s
        self._streams: dict[ClientSocket, LiveStream] = {}
        self._left: dict[ClientSocket, memoryview] = {}
        self._news: deque[tuple[ClientSocket, bytes | None]] = deque()
        self._due = self._closed = False

    def __len__(self) -> int:
        return len(self._streams)

    def park(self, conn: ClientSocket) -> None:
        """Take over a connection whose response continues with a stream."""
        stream = conn.stream
        assert stream is not None
        if self._closed:
            stream.close()
            conn.close()
            return
        conn.sock.setblocking(False)
        conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _KERNEL_BYTES)
        self._streams[conn] = stream
        self._selector.register(conn.sock, _READ, partial(self._ready, conn))
        stream.attach(partial(self._hand_over, conn))

    def expire(self, now: float) -> None:
        """Drop clients that have not read for too long."""
        late = [conn for conn in self._left if conn.deadline <= now]
        for conn in late:
            logger.info("a client did not read its stream for %g s", self._answer_s)
            self._drop(conn)

    def end_all(self) -> None:
        """Close all streams, and later ones, because the server stops."""
        self._closed = True
        for conn in list(self._streams):
            self._drop(conn)

    def _hand_over(self, conn: ClientSocket, piece: bytes | None) -> None:
        """Queue a piece, in the thread of the hub; the event loop sends it."""
        if self._closed:
            return
        self._news.append((conn, piece))
        if not self._due:
            self._due = True
            self._defer(self._flush)

    def _flush(self) -> None:
        self._due = False
        while self._news:
            conn, piece = self._news.popleft()
            if conn not in self._streams:
                continue
            if piece is None:
                conn.ending = True
            else:
                self._left[conn] = memoryview(piece)
                conn.deadline = time.monotonic() + self._answer_s
            self._send(conn)

    def _ready(self, conn: ClientSocket, _file: Any) -> None:
        """Send more, or notice that the client has hung up; its data is ignored."""
        if conn not in self._streams:
            return  # it was dropped since the event
        if not conn.drain():
            self._drop(conn)
        elif conn in self._left:
            self._send(conn)

    def _send(self, conn: ClientSocket) -> None:
        left = self._left.get(conn)
        if left is not None:
            try:
                left = left[conn.sock.send(left, socket.MSG_DONTWAIT) :]
            except BlockingIOError:
                pass
            except OSError as error:
                logger.debug("the client of a stream disconnected: %s", error)
                self._drop(conn)
                return
            if len(left):
                self._left[conn] = left
                self._selector.modify(conn.sock, _READ | _WRITE, partial(self._ready, conn))
                return
            del self._left[conn]
            self._selector.modify(conn.sock, _READ, partial(self._ready, conn))
            self._streams[conn].give_room()
        if conn.ending:
            self._drop(conn)

    def _drop(self, conn: ClientSocket) -> None:
        self._left.pop(conn, None)
        self._selector.unregister(conn.sock)
        self._streams.pop(conn).close()
        conn.close()
