"""The events of a server as they happen; a broken stream is resumed."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from agenda.connection import Connection, OpenStream, Reply
from agenda.errors import ForeignAnswerError, ProblemError, ServerAwayError, problem_of
from agenda.records import Event
from agenda.retries import LATER

#: Seconds without data after which a server counts as gone; it sends something every 15 seconds.
SILENCE_S: Final = 45.0

#: Pause before a stream is reopened, seconds.
PAUSE_S: Final = 1.0


class EventStream:
    """The events of a server over any number of connections, each event exactly once.

    Parameters
    ----------
    query
        Query of ``GET /v1/events``.
    timeout_s
        Seconds after which the stream ends; None: never.
    notice
        Called with a message when a stream breaks off and is resumed.
    pause
        Called to wait before a stream is resumed.
    """

    def __init__(
        self,
        connection: Connection,
        query: Mapping[str, str],
        timeout_s: float | None = None,
        notice: Callable[[str], object] | None = None,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self._connection = connection
        self._query = dict(query)
        self._until = None if timeout_s is None else time.monotonic() + timeout_s
        self._notice = notice or (lambda _: None)
        self._pause = pause
        self._last: str | None = None
        self._open: OpenStream | None = None
        self._closed = False

    def __iter__(self) -> Iterator[Event]:
        """Yield events; wait for a server that becomes unavailable after the first connection.

        Raises
        ------
        ServerAwayError
            If the server is unavailable at first.
        ProblemError
            If the server refuses the call.
        ForeignAnswerError
            If the answer is not one of an Agenda server.
        """
        while not self._is_over():
            try:
                yield from self._told(self._opened())
            except (ServerAwayError, ProblemError) as error:
                if self._last is None or not _is_passing(error):
                    raise
                self._notice(f"{error}; trying again")
            except OSError:
                if not self._is_over():
                    self._notice("the stream was interrupted; continuing after the last event")
            if not self._is_over():
                self._pause(PAUSE_S)

    def close(self) -> None:
        """End the stream; any thread may call this."""
        self._closed = True
        if self._open is not None:
            self._open.close()

    def _is_over(self) -> bool:
        return self._closed or (self._until is not None and time.monotonic() >= self._until)

    def _opened(self) -> OpenStream:
        query = dict(self._query)
        if self._until is not None:
            query["wait"] = f"{max(0.001, self._until - time.monotonic()):.3f}"
        sent = {} if self._last is None else {"Last-Event-ID": self._last}
        answer = self._connection.open_stream("/v1/events", query, sent, self._silence_s())
        if isinstance(answer, Reply):
            raise problem_of(answer.status, answer.body)
        self._open = answer
        if self._closed:
            answer.close()
        return answer

    def _silence_s(self) -> float:
        """Return how long a server may be silent, little longer than until the stream ends."""
        if self._until is None:
            return SILENCE_S
        return min(SILENCE_S, max(0.0, self._until - time.monotonic()) + PAUSE_S)

    def _told(self, lines: Iterable[bytes]) -> Iterator[Event]:
        """Yield an event for the fields before each empty line (WHATWG HTML, 9.2.6)."""
        fields: dict[str, str] = {}
        for raw in lines:
            line = raw.decode(errors="replace").rstrip("\r\n")
            if line:
                name, _, value = line.partition(":")
                fields[name] = value.removeprefix(" ")
                continue
            self._last = fields.get("id", self._last)
            if "data" in fields:
                yield Event.of(fields.get("event", "message"), _data_in(fields["data"]))
            fields = {}


def _data_in(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except ValueError:
        data = None
    if not isinstance(data, dict):
        raise ForeignAnswerError("received an event that is not from an Agenda server")
    return data


def _is_passing(error: ServerAwayError | ProblemError) -> bool:
    """Return whether the error may be temporary."""
    return isinstance(error, ServerAwayError) or error.status in LATER
