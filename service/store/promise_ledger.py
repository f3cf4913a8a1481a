"""The ledger of promises in the database: how long each reservation was below its entitlement.

The leading process observes it at every tick (`dispatch.accounts.promises`). It is written when a
reservation falls below or recovers, at least ten seconds apart, and every minute while one is
below. Observations after the last write are lost with the process, and no reservation counts as
below in a time without observations.
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

#: How long a reservation is stored, in ms, and how many are.
KEPT_MS: Final = 40 * 24 * 3_600_000
_MOST: Final = 10_000


class _Record(msgspec.Struct):
    seen_ms: int = 0
    times: dict[str, TimeBelow] = {}


class StoredLedger:
    """The ledger of the leading process; it continues from the stored one.

    Parameters
    ----------
    store
        Storage of the ledger.

    Attributes
    ----------
    ledger
        The observed times.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.ledger = _read(store)
        self.ledger.end(self.ledger.seen_ms)
        self._written_ms = self.ledger.seen_ms
        self._changed = False

    def observe(self, now_ms: int, below: Iterable[str]) -> None:
        """Count reservations as below from now until the next call; write if due."""
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
    """Return the known time in ms that each reservation was below its entitlement."""
    ledger = _read(store)
    until_ms = min(now_ms, ledger.seen_ms + _SILENT_MS)
    return {id_: ledger.below_ms(id_, until_ms) for id_ in ledger.times}


def below_since(store: Store) -> dict[str, int]:
    """Return since when, in ms from the origin, reservations were below at the last observation."""
    times = _read(store).times.items()
    return {id_: one.since_ms for id_, one in times if one.since_ms is not None}


def _read(store: Store) -> PromiseLedger:
    kept = store.find_setting(_SETTING)
    record = _Record() if kept is None else msgspec.json.decode(kept, type=_Record)
    return PromiseLedger(record.times, record.seen_ms)
