"""What a Dask worker does with a task of a `DaskPool`."""

from __future__ import annotations

import pickle
import threading
from dataclasses import dataclass
from typing import Any, Final

from distributed import Event, Variable, get_client, get_worker

from service.jobs.software import require_same_software, software_here

#: Seconds between two looks at whether to stop.
_LOOK_S: Final = 0.5

#: Seconds that the scheduler has for saying what an earlier run has kept.
_KEPT_S: Final = 0.2

#: States of a task, on its worker, in which nobody wants it any more.
_UNWANTED: Final = ("cancelled", "released", "forgotten")


@dataclass(frozen=True, slots=True)
class DaskOrder:
    """One task as it travels.

    Attributes
    ----------
    session
        Names the run of tasks: the topic of its news, and the event that stops it.
    index
        Of the task in its run.
    work, kept
        Pickled.
    software
        What is computed with where the task comes from.
    """

    session: str
    index: int
    work: bytes
    kept: bytes
    software: dict[str, str]

    @property
    def shelf(self) -> str:
        """Name of the variable under which the task keeps its state."""
        return f"{self.session}-{self.index}"


class _DaskLink:
    """Speaks with the pool through the scheduler."""

    def __init__(self, order: DaskOrder) -> None:
        self._order, self._worker = order, get_worker()
        self._client = get_client()
        self._event = Event(order.session, client=self._client)
        self._shelf = Variable(order.shelf, client=self._client)
        self._key = self._worker.get_current_task()
        self._stopped, self._over = threading.Event(), threading.Event()
        if self._event.is_set():
            self._stopped.set()
        self.kept = pickle.loads(self._last_kept())

    def _last_kept(self) -> bytes:
        try:
            return bytes(self._shelf.get(timeout=_KEPT_S))
        except TimeoutError:
            return self._order.kept

    def watch(self) -> None:
        """Look now and then whether the task is still wanted."""
        while not self._over.wait(_LOOK_S):
            if not self._is_wanted():
                self._stopped.set()
                return

    def _is_wanted(self) -> bool:
        known = self._worker.state.tasks.get(self._key)
        if known is None or known.state in _UNWANTED:
            return False
        try:
            return not self._event.is_set()
        except Exception:  # noqa: BLE001 - whatever Dask says of a scheduler that is gone
            return False  # a task of it has nobody left to answer to

    def end(self) -> None:
        """Watch no longer."""
        self._over.set()

    def stop(self) -> bool:
        return self._stopped.is_set()

    def tell(self, news: Any) -> None:
        self._say("told", pickle.dumps(news))

    def keep(self, state: Any) -> None:
        # The scheduler remembers all events and the last value only: what is large goes there.
        self._shelf.set(pickle.dumps(state))
        self._say("kept", b"")

    def _say(self, what: str, body: bytes) -> None:
        self._worker.log_event(self._order.session, (self._order.index, what, body))


def carry_out_order(order: DaskOrder) -> bytes | None:
    """Carry out a task; return its pickled answer, None where it was stopped before it began.

    Raises
    ------
    TaskPoolError
        If this worker computes with other versions.
    """
    require_same_software(order.software, software_here(), get_worker().address)
    link = _DaskLink(order)
    if link.stop() and order.index:  # the first begins all the same, as in `InlinePool`
        return None
    watcher = threading.Thread(target=link.watch, name="watch", daemon=True)
    watcher.start()
    try:
        return pickle.dumps(pickle.loads(order.work)(link))
    finally:
        link.end()
