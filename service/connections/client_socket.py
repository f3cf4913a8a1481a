"""ClientSocket: one client of a server process, and what of its next request has arrived."""

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

#: Most bytes that are taken from a socket at once: a client that sends fast keeps no other waiting.
_PIECE: Final = 256 * 1024

#: How long a thread waits for the next request of the client it has just answered, s.
_LINGER_S: Final = 0.02

_GO_ON: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class ClientSocket(TConn):  # type: ignore[misc]
    """A client's socket, with the bytes it has sent; gunicorn's parser never reads the socket.

    Parameters
    ----------
    max_body
        Longest body that is taken.
    answer_s
        Longest wait for the client to read more of an answer.

    Attributes
    ----------
    buffer
        What of the next request is there.
    deadline
        When it is given up, by the steady clock, unless what is waited for has come.
    in_body
        The deadline is that of the body, not of the head.
    held
        Bytes that count as taken by it.
    left
        Called when it is closed.
    stream
        What it is answered with, where that continues without a thread.
    ending
        Nothing more comes of its stream.
    """

    def __init__(
        self,
        cfg: Any,
        accepted: tuple[socket.socket, Any, Any],
        max_body: int,
        answer_s: float,
    ) -> None:
        super().__init__(cfg, *accepted)
        # A thread that writes waits so long for capacity, and is then informed of it; one that
        # reads waits for the next request of the client that it has just answered.
        for option, wait_s in ((socket.SO_SNDTIMEO, answer_s), (socket.SO_RCVTIMEO, _LINGER_S)):
            seconds, rest = divmod(wait_s, 1.0)
            timeout = struct.pack("ll", int(seconds), int(rest * 1e6))
            self.sock.setsockopt(socket.SOL_SOCKET, option, timeout)
        self.buffer = RequestBuffer(max_body)
        self.parser = get_parser(cfg, self.buffer, self.client)
        self.parser.mesg_class = PlainRequest
        self.data_ready = True  # gunicorn must not wait for it in a thread
        self.deadline = 0.0
        self.in_body = False
        self.held = 0
        self.left: Callable[[], None] = _nobody
        self.stream: LiveStream | None = None
        self.ending = False

    def carry(self, stream: LiveStream) -> None:
        """Continue with a stream once the head of its response is sent."""
        self.stream = stream

    def read(self) -> bool:
        """Take what has arrived, without waiting; False when the client is gone."""
        return self._take(socket.MSG_DONTWAIT)

    def _take(self, flags: int) -> bool:
        try:
            data = self.sock.recv(_PIECE, flags)
        except BlockingIOError:
            return True
        except OSError as error:
            logger.debug("a client is gone: %s", error)
            return False
        if data:
            self.buffer.feed(data)
        elif self.buffer.in_body:
            self.buffer.end()  # the application says how much of the body is missing
        else:
            return False
        return True

    def arrives(self) -> bool:
        """Return whether the next request is there, or comes whole in this moment."""
        if not len(self.buffer):
            self._take(0)
        return self.buffer.whole

    def begin_body(self) -> None:
        """Note that the head is there, and tell a client that waits for it to continue."""
        self.in_body = True
        if self.buffer.awaited:
            self.send(_GO_ON)

    def send(self, data: bytes) -> None:
        """Send some bytes if there is capacity for them, without waiting."""
        try:
            self.sock.send(data, socket.MSG_DONTWAIT)
        except OSError as error:
            logger.debug("a client takes nothing: %s", error)

    def drain(self) -> bool:
        """Throw away what has arrived; False when the client has hung up."""
        try:
            return bool(self.sock.recv(_PIECE, socket.MSG_DONTWAIT))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def go_on(self) -> None:
        """Turn to the next request."""
        self.in_body = False
        self.buffer.go_on(self.parser.unreader.take_buffered())

    def close(self, graceful: bool = False) -> None:
        """Close the socket at once, whatever gunicorn asks: waiting is for the event loop."""
        del graceful
        super().close()
        self.leave()

    def leave(self) -> None:
        """Count no longer as a connection."""
        left, self.left = self.left, _nobody
        left()


def _nobody() -> None:
    """Tell no one of the end of a connection that was never counted."""
