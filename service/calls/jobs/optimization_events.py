"""Server-sent events of one optimisation: each better plan or bound as it is found, and the end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from service.calls.events.events import permit_of
from service.calls.jobs.optimizations import OPTIMIZATIONS, optimization_json
from service.store.rows.optimizations import RUNNING
from service.streaming.event_text import HEARTBEAT, RETRY, event_text
from service.streaming.live_stream import LONGEST_S, LiveStream

if TYPE_CHECKING:
    from service.optimizing.runner import Runner
    from service.runtime import Runtime

#: Seconds between two looks.
_LOOK_S: Final = 0.5


class JobSource:
    """What one client reads of an optimisation: all there is but the result, at every change.

    Who comes back has missed nothing that still counts.
    """

    def __init__(self, runner: Runner, id_: str) -> None:
        self._runner = runner
        self._id = id_
        self._looked = -_LOOK_S
        self._seen: object = None
        self._head = RETRY
        self.over = False

    def take(self) -> bytes:
        """Return its present state where it is another than before."""
        if time.monotonic() - self._looked < _LOOK_S:
            return b""
        self._looked = time.monotonic()
        head, self._head = self._head, b""
        return head + self._news()

    def _news(self) -> bytes:
        row = self._runner.rows.get(self._id)
        if row is None:
            self.over = True
            return event_text("forgotten", {"id": self._id})
        self.over = row.state != RUNNING
        now = (row.state, row.unwanted, row.progress)
        if now == self._seen:
            return b""
        self._seen = now
        body = {name: one for name, one in optimization_json(row).items() if name != "result"}
        return event_text("ended" if self.over else "progress", body)

    def heartbeat(self) -> bytes:
        """Return a comment."""
        return HEARTBEAT


def events(runtime: Runtime, id_: str, longest_s: float = LONGEST_S) -> LiveStream:
    """Return the events of one optimisation from now on: its present state first.

    Raises
    ------
    ApiProblemError
        ``not_found``; ``too_many`` where as many listen as may.
    """
    OPTIMIZATIONS.row_of(runtime, id_)
    source = JobSource(runtime.optimizations, id_)
    return runtime.streams.open(source, longest_s, permit_of(runtime))
