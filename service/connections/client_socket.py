"""ClientSocket: one client of a server process, with the buffer of its next request."""

from __future__ import annotations

import logging
import re
import socket
import struct
from collections.abc import Callable, Generator
from typing import Any, Final, TypeAlias

from gunicorn.http import get_parser
from gunicorn.http.message import Request
from gunicorn.workers.gthread import TConn

from planner.placement import Code
from service.problems import ProblemDocument
from service.streaming.live_stream import LiveStream

logger = logging.getLogger("agenda.service")

#: Most bytes read from a socket at a time, so that a fast client does not delay others.
_PIECE: Final = 256 * 1024

#: How long a thread waits for the next request of the client it has just answered, s.
_LINGER_S: Final = 0.02

_GO_ON: Final = b"HTTP/1.1 100 Continue\r\n\r\n"

#: Most bytes of a request line and its headers.
MOST_HEAD: Final = 64 * 1024

#: Most bytes of a chunk's length line; the parser refuses longer ones.
_MOST_CHUNK_LINE: Final = 8190

#: Chunks that any body may have, and body bytes required for each further one: reading a chunk
#: takes as long as some hundred bytes.
_FREE_CHUNKS: Final = 10_000
_BYTES_A_CHUNK: Final = 64

#: Bytes of a request's start in which the path of a short GET ends.
_LONGEST_START: Final = 64

#: Most digits of a length that is parsed.
_LONGEST_LENGTH: Final = 15
_CONTINUE: Final = b"100-continue"

#: The end of a head; a bare line feed is invalid, which the parser reports.
_END_OF_HEAD: Final = re.compile(rb"\r\n\r\n|(?<!\r)\n")

#: Headers for the length of a request, or for a client that waits for "100 Continue". No part of
#: the pattern can match another part's text, so a head is scanned in one pass.
_FRAMING: Final = re.compile(
    rb"\r\n(content-length|transfer-encoding|expect):([^\r\n]*)(?=\r\n)", re.IGNORECASE
)
_CHUNK_LENGTH: Final = re.compile(rb"[0-9a-fA-F]{1,15}(?=[; \t]|\Z)")

#: A step of reading: yields while bytes are missing, and returns its result.
_Reading: TypeAlias = Generator[None, None, int | None]


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


# For each request gunicorn checks by the peer's address whether it may override scheme or path, and
# reads each setting by a method. This service trusts no such header: `service.http.gate` handles
# users given by a proxy.


class PlainRequest(Request):  # type: ignore[misc]
    """An HTTP/1.1 request in which no peer may set a scheme or a path by headers."""

    def _peer_is_trusted_proxy(self) -> bool:
        return False


def fix_settings(settings: Any) -> None:
    """Store the values of gunicorn's settings as plain attributes; they do not change any more."""
    settings.__dict__.update({name: one.get() for name, one in settings.settings.items()})


# The event loop fills it, so that no thread ever waits for a slow client. A buffer only finds the
# end of a request; gunicorn's parser interprets the request and reads from the buffer like from a
# socket. If the head has no valid length, the request counts as complete immediately: the parser
# then reports the error, and never waits, because reads end with the buffered data.


class RequestBuffer:
    """The received bytes of a connection's next request.

    Parameters
    ----------
    most_body
        Longest body in bytes, including chunk framing.

    Attributes
    ----------
    whole
        Whether the request is complete, so that a parser may read it.
    in_body
        Whether its head is complete.
    awaited
        Whether its client waits for "100 Continue" before it sends the body.
    fault
        Problem why it is refused, or None.
    short
        Whether a parser has read past the end, so that the start of the next request is unknown.
    """

    __slots__ = (
        "_bytes", "_given", "_most", "_reading", "awaited", "fault", "in_body", "short", "whole"
    )  # fmt: skip

    def __init__(self, most_body: int) -> None:
        self._most = most_body
        self.clear()

    def clear(self) -> None:
        """Discard all bytes, and wait for a new request."""
        self._bytes = bytearray()
        self._given = 0
        self._reading = self._read()
        self.whole = self.in_body = self.awaited = self.short = False
        self.fault: ProblemDocument | None = None

    def __len__(self) -> int:
        return len(self._bytes)

    @property
    def is_post(self) -> bool:
        """Whether the received bytes begin a POST."""
        return self._bytes.startswith(b"POST ")

    def path_of_get(self) -> bytes:
        """Return the path of a GET without its query; empty for other requests."""
        method, _, rest = bytes(self._bytes[:_LONGEST_START]).partition(b" ")
        return re.split(rb"[ ?]", rest, maxsplit=1)[0] if method == b"GET" else b""

    def feed(self, data: bytes) -> None:
        """Add received bytes."""
        self._bytes += data
        if not self.whole and self.fault is None:
            self.whole = next(self._reading, True) is True and self.fault is None

    def end(self) -> None:
        """Mark the end of the input: the parser reports missing parts to the client."""
        self.whole = True

    def recv(self, size: int) -> bytes:
        """Return the next bytes, like a socket; empty if there are no more."""
        data = bytes(self._bytes[self._given : self._given + size])
        self._given += len(data)
        self.short = self.short or not data
        return data

    def go_on(self, unread: bytes) -> None:
        """Start with the next request, of which the parser has already read `unread`."""
        rest = unread + self._bytes[self._given :]
        self.clear()
        if rest:
            self.feed(rest)

    def _read(self) -> Generator[None, None, None]:
        """Scan a request; ends when it is complete or refused."""
        end = yield from self._head()
        if end is None:
            return
        framing: dict[bytes, list[bytes]] = {}
        for name, value in _FRAMING.findall(self._bytes[:end]):
            framing.setdefault(name.lower(), []).append(value.strip(b" \t"))
        lengths = framing.get(b"content-length", [])
        codings = framing.get(b"transfer-encoding", [])
        if len(lengths) + len(codings) != 1:
            return  # no body, or one with a length that the parser refuses
        self.in_body = True
        self.awaited = [one.lower() for one in framing.get(b"expect", [])] == [_CONTINUE]
        if codings:
            if codings[0].lower().endswith(b"chunked"):
                yield from self._chunks(end)
        elif lengths[0].isdigit():
            yield from self._await_body(end, lengths[0])

    def _head(self) -> _Reading:
        """Return the end of the head."""
        seen = 0
        while (found := _END_OF_HEAD.search(self._bytes, max(0, seen - 3))) is None:
            seen = len(self._bytes)
            if seen > MOST_HEAD:
                break
            yield
        end = seen if found is None else found.end()
        if end > MOST_HEAD:
            detail = f"the request line and the headers have more than {MOST_HEAD} bytes"
            self.fault = ProblemDocument(Code.MALFORMED, detail)
            return None
        return end

    def _await_body(self, start: int, digits: bytes) -> Generator[None, None, None]:
        """Wait for a body of a known length."""
        if len(digits) > _LONGEST_LENGTH or int(digits) > self._most:
            self._refuse_length()
            return
        end = start + int(digits)
        while len(self._bytes) < end:
            yield

    def _chunks(self, at: int) -> Generator[None, None, None]:
        """Wait for all chunks and the trailers after them."""
        start, chunks = at, 0
        while True:
            end = yield from self._line(at)
            found = None if end is None else _CHUNK_LENGTH.match(bytes(self._bytes[at:end]))
            if end is None or found is None:
                return
            length = int(found[0], 16)
            if not length:
                yield from self._trailers(end)
                return
            at = end + 2 + length + 2
            chunks += 1
            if at - start > self._most:
                self._refuse_length()
                return
            if chunks > _FREE_CHUNKS + (at - start) // _BYTES_A_CHUNK:
                detail = f"{chunks} chunks have {at - start} bytes; send longer chunks"
                self.fault = ProblemDocument(Code.MALFORMED, detail)
                return
            while len(self._bytes) < at:
                yield

    def _line(self, at: int) -> _Reading:
        """Return the end of the line from `at`; None if it is too long for the parser."""
        while (end := self._bytes.find(b"\r\n", at)) < 0:
            if len(self._bytes) - at > _MOST_CHUNK_LINE:
                return None
            yield
        return end

    def _trailers(self, at: int) -> Generator[None, None, None]:
        """Wait for the empty line after the last chunk, whose own line ends at `at`."""
        seen = at
        while self._bytes.find(b"\r\n\r\n", seen) < 0:
            if len(self._bytes) - at > MOST_HEAD:
                return
            seen = max(at, len(self._bytes) - 3)
            yield

    def _refuse_length(self) -> None:
        detail = f"the body has more than {self._most} bytes, the maximum of this server"
        self.fault = ProblemDocument("too_large", detail)
