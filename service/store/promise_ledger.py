"""The ledger of promises on disk: how long each reservation was below its entitlement, over weeks.

The leading process observes it tick by tick (`dispatch.accounts.promises`). What it has seen is
written when someone falls below or comes back, ten seconds apart at least, and every minute while
someone is below. So what a lost process had seen since is lost, and no one is counted as below for
a time in which no process looked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from dispatch.accounts.promises import PromiseLedger, TimeBelow
from service.store.store import Store

_SETTING: Final = "promise_ledger"

#: Least and longest time between two writes, in ms.
_APART_MS: Final = 10_000
_SILENT_MS: Final = 60_000

#: For how long a reservation is remembered, in ms, and how many are.
KEPT_MS: Final = 40 * 24 * 3_600_000
_MOST: Final = 10_000


class _Record(msgspec.Struct):
    seen_ms: int = 0
    times: dict[str, TimeBelow] = {}


class StoredLedger:
    """The ledger of the process that leads; it continues from what is on disk.

    Parameters
    ----------
    store
        Where it is written.

    Attributes
    ----------
    ledger
        What was observed.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.ledger = _read(store)
        self.ledger.end(self.ledger.seen_ms)
        self._written_ms = self.ledger.seen_ms
        self._changed = False

    def observe(self, now_ms: int, below: Iterable[str]) -> None:
        """Count reservations as below from now on, until the next call; write what is due."""
        here = set(below)
        self._changed |= self.ledger.observe(now_ms, here)
        silent_ms = now_ms - self._written_ms
        if silent_ms >= _APART_MS if self._changed else bool(here) and silent_ms >= _SILENT_MS:
            self._write()

    def _write(self) -> None:
        ledger = self.ledger
        known = sorted(ledger.times.items(), key=lambda one: -one[1].last_ms)[:_MOST]
        ledger.times = {id_: one for id_, one in known if ledger.seen_ms - one.last_ms <= KEPT_MS}
        record = _Record(ledger.seen_ms, ledger.times)
        self._store.replace_setting(_SETTING, msgspec.json.encode(record).decode())
        self._written_ms, self._changed = ledger.seen_ms, False


def times_below(store: Store, now_ms: int) -> dict[str, int]:
    """Return for how many ms each reservation was below its entitlement, as far as is known."""
    ledger = _read(store)
    until_ms = min(now_ms, ledger.seen_ms + _SILENT_MS)
    return {id_: ledger.below_ms(id_, until_ms) for id_ in ledger.times}


def below_since(store: Store) -> dict[str, int]:
    """Return since when, in ms from the origin, those are below that were at the last look."""
    times = _read(store).times.items()
    return {id_: one.since_ms for id_, one in times if one.since_ms is not None}


def _read(store: Store) -> PromiseLedger:
    kept = store.find_setting(_SETTING)
    record = _Record() if kept is None else msgspec.json.decode(kept, type=_Record)
    return PromiseLedger(record.times, record.seen_ms)
