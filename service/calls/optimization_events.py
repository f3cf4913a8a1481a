"""Server-sent events of one optimisation: each better plan or bound as it is found, and the end."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec

from service.calls.optimizations import known, shown
from service.problems import problem
from service.store.optimizations import RUNNING

if TYPE_CHECKING:
    from service.runtime import Runtime

#: Most streams at once in one server process: each keeps one of its threads.
_MOST: Final = 4

#: Seconds between two looks, and after which a stream ends; clients come back by themselves, and a
#: server that stops does not wait for them.
_LOOK_S, _LONGEST_S = 0.5, 20.0

_SEATS: Final = threading.BoundedSemaphore(_MOST)


class EventStream(Iterator[bytes]):
    """What one client reads; its seat is given back when the stream is closed."""

    def __init__(self, events: Iterator[bytes]) -> None:
        self._events = events
        self._seated = True

    def __next__(self) -> bytes:
        """Return the next piece."""
        return next(self._events)

    def close(self) -> None:
        """End it; may be called again."""
        if self._seated:
            self._seated = False
            _SEATS.release()


def events(runtime: Runtime, id_: str) -> EventStream:
    """Return the events of one optimisation from now on: its present state first.

    Every event carries all there is but the result, so a client that comes back has missed nothing
    that still counts.

    Raises
    ------
    ApiProblemError
        ``not_found``; ``too_many`` where as many watch as may.
    """
    known(runtime, id_)
    if not _SEATS.acquire(blocking=False):
        detail = "as many watch as may; ask for it with GET now and then"
        raise problem("too_many", detail, headers={"Retry-After": "5"})
    return EventStream(_events(runtime, id_))


def _events(runtime: Runtime, id_: str) -> Iterator[bytes]:
    runner = runtime.optimizations
    until = time.monotonic() + _LONGEST_S
    seen: object = None
    yield b"retry: 1000\n\n"
    while time.monotonic() < until:
        row = runner.rows.get(id_, runner.now_ms())
        if row is None:
            yield _event("forgotten", {"id": id_})
            return
        now = (row.state, row.unwanted, row.progress)
        if now != seen:
            seen = now
            body = {name: one for name, one in shown(row).items() if name != "result"}
            yield _event("progress" if row.state == RUNNING else "ended", body)
        if row.state != RUNNING:
            return
        time.sleep(_LOOK_S)


def _event(kind: str, body: dict[str, Any]) -> bytes:
    return b"event: " + kind.encode() + b"\ndata: " + msgspec.json.encode(body) + b"\n\n"
