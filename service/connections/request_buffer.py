"""RequestBuffer: the bytes of one connection until a whole request is there.

The event loop gathers them here, so that no thread ever waits for a client that sends slowly. An
buffer knows only where a request ends; what it says is for gunicorn's parser, which reads from it
like from a socket. Where the head gives no plain length, the request counts as whole at once: the
parser then finds what is wrong with it, and never waits, because nothing comes after what is there.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import Final, TypeAlias

from planner.placement import Code
from service.problems import ProblemDocument

#: Most bytes of a request line and its headers.
MOST_HEAD: Final = 64 * 1024

#: Most bytes of the line that gives the length of a chunk; the parser refuses longer ones.
_MOST_CHUNK_LINE: Final = 8190

#: Chunks that any body may have, and bytes of it for each further one: a chunk costs as much to
#: read as some hundred bytes do.
_FREE_CHUNKS: Final = 10_000
_BYTES_A_CHUNK: Final = 64

#: Bytes in which the path of a short request ends.
_LONGEST_START: Final = 64

#: Digits of the longest length that is counted.
_LONGEST_LENGTH: Final = 15

_CONTINUE: Final = b"100-continue"

#: The end of a head; a line feed alone, which no head may have, is for the parser to refuse.
_END_OF_HEAD: Final = re.compile(rb"\r\n\r\n|(?<!\r)\n")

#: Headers that say how long a request is, or that its client waits for a word to continue. No part
#: of the pattern can take over what another one has, so a head is read in one pass.
_FRAMING: Final = re.compile(
    rb"\r\n(content-length|transfer-encoding|expect):([^\r\n]*)(?=\r\n)", re.IGNORECASE
)

_CHUNK_LENGTH: Final = re.compile(rb"[0-9a-fA-F]{1,15}(?=[; \t]|\Z)")

#: A part of the reading: pauses where bytes are missing, and returns what it found.
_Reading: TypeAlias = Generator[None, None, int | None]


class RequestBuffer:
    """What has arrived of a connection's next request.

    Parameters
    ----------
    most_body
        Longest body in bytes; of a chunked one with the marks of its chunks.

    Attributes
    ----------
    whole
        All of the request is there; a parser may read it.
    in_body
        Its head is there.
    awaited
        Its client waits to be notified that it may send the body.
    fault
        Why it will not be read.
    short
        A parser has asked for more than there is: where the next request begins is unknown.
    """

    __slots__ = (
        "_bytes", "_given", "_most", "_reading", "awaited", "fault", "in_body", "short", "whole"
    )  # fmt: skip

    def __init__(self, most_body: int) -> None:
        self._most = most_body
        self.clear()

    def clear(self) -> None:
        """Forget all bytes, and wait for a request from its first one."""
        self._bytes = bytearray()
        self._given = 0
        self._reading = self._read()
        self.whole = self.in_body = self.awaited = self.short = False
        self.fault: ProblemDocument | None = None

    def __len__(self) -> int:
        return len(self._bytes)

    @property
    def is_post(self) -> bool:
        """Whether what is there begins as a POST does."""
        return self._bytes.startswith(b"POST ")

    def path_of_get(self) -> bytes:
        """Return the path of a GET, without its query; nothing of another request."""
        method, _, rest = bytes(self._bytes[:_LONGEST_START]).partition(b" ")
        return re.split(rb"[ ?]", rest, maxsplit=1)[0] if method == b"GET" else b""

    def feed(self, data: bytes) -> None:
        """Add what has arrived."""
        self._bytes += data
        if not self.whole and self.fault is None:
            self.whole = next(self._reading, True) is True and self.fault is None

    def end(self) -> None:
        """Note that nothing more will come: the parser tells the client what is missing."""
        self.whole = True

    def recv(self, size: int) -> bytes:
        """Return the next bytes, as a socket does; none if there are no more."""
        data = bytes(self._bytes[self._given : self._given + size])
        self._given += len(data)
        self.short = self.short or not data
        return data

    def go_on(self, unread: bytes) -> None:
        """Turn to the next request, of which the parser has read `unread` already."""
        rest = unread + self._bytes[self._given :]
        self.clear()
        if rest:
            self.feed(rest)

    def _read(self) -> Generator[None, None, None]:
        """Go through a request; ends when it is whole or at fault."""
        end = yield from self._head()
        if end is None:
            return
        framing: dict[bytes, list[bytes]] = {}
        for name, value in _FRAMING.findall(self._bytes[:end]):
            framing.setdefault(name.lower(), []).append(value.strip(b" \t"))
        lengths = framing.get(b"content-length", [])
        codings = framing.get(b"transfer-encoding", [])
        if len(lengths) + len(codings) != 1:
            return  # no body, or one whose length the parser does not accept
        self.in_body = True
        self.awaited = [one.lower() for one in framing.get(b"expect", [])] == [_CONTINUE]
        if codings:
            if codings[0].lower().endswith(b"chunked"):
                yield from self._chunks(end)
        elif lengths[0].isdigit():
            yield from self._await_body(end, lengths[0])

    def _head(self) -> _Reading:
        """Return where the head ends."""
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
        """Wait for all chunks and the trailers behind them."""
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
        """Return where the line from `at` ends; None if it is too long for the parser."""
        while (end := self._bytes.find(b"\r\n", at)) < 0:
            if len(self._bytes) - at > _MOST_CHUNK_LINE:
                return None
            yield
        return end

    def _trailers(self, at: int) -> Generator[None, None, None]:
        """Wait for the empty line behind the last chunk, whose own line ends at `at`."""
        seen = at
        while self._bytes.find(b"\r\n\r\n", seen) < 0:
            if len(self._bytes) - at > MOST_HEAD:
                return
            seen = max(at, len(self._bytes) - 3)
            yield

    def _refuse_length(self) -> None:
        detail = f"the body has more than {self._most} bytes, the most that this server reads"
        self.fault = ProblemDocument("too_large", detail)
