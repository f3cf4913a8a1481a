"""ClientSocket: one client of a server process, with the buffer of its next request."""

from __future__ import annotations

import logging
import socket
import struct
from collections.abc import Callable
from typing import Any, Final

from gunicorn.http import get_parser
from gunicorn.workers.gthread import TConn

from service.connections.plain_request import PlainRequest
from service.connections.request_buffer import RequestBuffer
from service.streaming.live_stream import LiveStream

logger = logging.getLogger("agenda.service")

#: Most bytes read from a socket at a time, so that a fast client does not delay others.
_PIECE: Final = 256 * 1024

#: How long a thread waits for the next request of the client it has just answered, s.
_LINGER_S: Final = 0.02

_GO_ON: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class ClientSocket(TConn):  # type: ignore[misc]
    """A client's socket, with the received bytes; gunicorn's parser never reads the socket itself.

    Parameters
    ----------
    max_body
        Longest accepted body.
    answer_s
        Longest wait for the client to read more of an answer.

    Attributes
    ----------
    buffer
        Received part of the next request.
    deadline
        Monotonic time at which it is closed if the awaited data has not arrived.
    in_body
        Whether the deadline is that of the body, not of the head.
    held
        Bytes counted as buffered by it.
    left
        Called when it is closed.
    stream
        Stream that continues its answer without a thread.
    ending
        Whether its stream has ended.
    """

    def __init__(
        self,
        cfg: Any,
        accepted: tuple[socket.socket, Any, Any],
        max_body: int,
        answer_s: float,
    ) -> None:
        super().__init__(cfg, *accepted)
        # Timeouts: a writing thread waits for the client to read; a reading thread waits for the
        # next request of the client that it has just answered.
        for option, wait_s in ((socket.SO_SNDTIMEO, answer_s), (socket.SO_RCVTIMEO, _LINGER_S)):
            seconds, rest = divmod(wait_s, 1.0)
            timeout = struct.pack("ll", int(seconds), int(rest * 1e6))
            self.sock.setsockopt(socket.SOL_SOCKET, option, timeout)
        self.buffer = RequestBuffer(max_body)
        self.parser = get_parser(cfg, self.buffer, self.client)
        self.parser.mesg_class = PlainRequest
        self.data_ready = True  # so that gunicorn does not wait for it in a thread
        self.deadline = 0.0
        self.in_body = False
        self.held = 0
        self.left: Callable[[], None] = _nobody
        self.stream: LiveStream | None = None
        self.ending = False

    def carry(self, stream: LiveStream) -> None:
        """Continue with a stream after the head of its response is sent."""
        self.stream = stream

    def read(self) -> bool:
        """Read available bytes without waiting; False if the client is gone."""
        return self._take(socket.MSG_DONTWAIT)

    def _take(self, flags: int) -> bool:
        try:
            data = self.sock.recv(_PIECE, flags)
        except BlockingIOError:
            return True
        except OSError as error:
            logger.debug("a client disconnected: %s", error)
            return False
        if data:
            self.buffer.feed(data)
        elif self.buffer.in_body:
            self.buffer.end()  # the application reports how much of the body is missing
        else:
            return False
        return True

    def arrives(self) -> bool:
        """Return whether the next request is complete, now or after a short wait."""
        if not len(self.buffer):
            self._take(0)
        return self.buffer.whole

    def begin_body(self) -> None:
        """Record that the head is complete, and send "100 Continue" to a waiting client."""
        self.in_body = True
        if self.buffer.awaited:
            self.send(_GO_ON)

    def send(self, data: bytes) -> None:
        """Send some bytes if the socket is writable, without waiting."""
        try:
            self.sock.send(data, socket.MSG_DONTWAIT)
        except OSError as error:
            logger.debug("a client does not read its answer: %s", error)

    def drain(self) -> bool:
        """Discard available bytes; False if the client has hung up."""
        try:
            return bool(self.sock.recv(_PIECE, socket.MSG_DONTWAIT))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def go_on(self) -> None:
        """Start with the next request."""
        self.in_body = False
        self.buffer.go_on(self.parser.unreader.take_buffered())

    def close(self, graceful: bool = False) -> None:
        """Close the socket immediately, even if gunicorn asks to wait: the event loop does that."""
        del graceful
        super().close()
        self.leave()

    def leave(self) -> None:
        """Stop counting it as a connection."""
        left, self.left = self.left, _nobody
        left()


def _nobody() -> None:
    """Do nothing at the end of a connection that was never counted."""
