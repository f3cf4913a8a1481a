"""How long each reservation was below its entitlement, on disk: for a count over weeks.

The leading process observes it tick by tick (`dispatch.accounts.promises`). What it has seen is
written when somebody falls below or comes back, ten seconds apart at least, and every minute while
somebody is below. So what a lost process had seen since is lost, and nobody is counted as below for
a time in which no process looked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from service.store.store import Store

_SETTING: Final = "time_below"

#: Least and longest time between two writes, in ms.
_APART_MS: Final = 10_000
_SILENT_MS: Final = 60_000

#: For how long a reservation is remembered, in ms, and how many are.
KEPT_MS: Final = 40 * 24 * 3_600_000
_MOST: Final = 10_000


class _Fall(msgspec.Struct, array_like=True):
    """Of one reservation: ms below so far, since when it is (None: it is not), when last."""

    total_ms: int = 0
    since_ms: int | None = None
    last_ms: int = 0


class _Record(msgspec.Struct):
    seen_ms: int = 0
    falls: dict[str, _Fall] = {}


class TimeBelowBook:
    """What the process that leads adds up; it goes on from what is on disk.

    Parameters
    ----------
    store
        Where it is written.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        record = _read(store)
        self._falls = record.falls
        self._written_ms = self._seen_ms = record.seen_ms
        self._changed = False
        self._close(set(), record.seen_ms)

    def observe(self, now_ms: int, below: Iterable[str]) -> None:
        """Count reservations as below from now on, until the next call; write what is due."""
        here = set(below)
        self._close(here, now_ms)
        for id_ in here:
            fall = self._falls.setdefault(id_, _Fall())
            if fall.since_ms is None:
                fall.since_ms, self._changed = now_ms, True
            fall.last_ms = now_ms
        self._seen_ms = now_ms
        silent_ms = now_ms - self._written_ms
        if silent_ms >= _APART_MS if self._changed else bool(here) and silent_ms >= _SILENT_MS:
            self._write()

    def _close(self, here: set[str], now_ms: int) -> None:
        for id_, fall in self._falls.items():
            if fall.since_ms is not None and id_ not in here:
                fall.total_ms += max(0, now_ms - fall.since_ms)
                fall.since_ms, fall.last_ms, self._changed = None, now_ms, True

    def _write(self) -> None:
        known = sorted(self._falls.items(), key=lambda one: -one[1].last_ms)[:_MOST]
        self._falls = {id_: fall for id_, fall in known if self._seen_ms - fall.last_ms <= KEPT_MS}
        record = _Record(self._seen_ms, self._falls)
        self._store.replace_setting(_SETTING, msgspec.json.encode(record).decode())
        self._written_ms, self._changed = self._seen_ms, False


def times_below(store: Store, now_ms: int) -> dict[str, int]:
    """Return for how many ms each reservation was below its entitlement, as far as is known."""
    record = _read(store)
    until_ms = min(now_ms, record.seen_ms + _SILENT_MS)
    return {
        id_: fall.total_ms + (0 if fall.since_ms is None else max(0, until_ms - fall.since_ms))
        for id_, fall in record.falls.items()
    }


def _read(store: Store) -> _Record:
    kept = store.find_setting(_SETTING)
    return _Record() if kept is None else msgspec.json.decode(kept, type=_Record)
