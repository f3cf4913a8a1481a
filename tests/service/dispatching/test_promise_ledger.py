"""Time below entitlements is added up, on disk, by whoever leads."""

from __future__ import annotations

from pathlib import Path

import pytest

from dispatch.accounts.promises import PromiseLedger
from service.store import Store
from service.store.promise_ledger import KEPT_MS, StoredLedger, times_below


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return an empty database."""
    return Store(f"sqlite:///{tmp_path / 'agenda.db'}")


def test_falls_are_added_up(store: Store) -> None:
    """Two falls of one reservation are one sum; who is below still falls on."""
    ledger = StoredLedger(store)
    for now_s, below in ((20, {"a"}), (50, ()), (80, {"a", "b"}), (100, {"b"})):
        ledger.observe(now_s * 1000, below)
    assert times_below(store, 110_000) == {"a": 50_000, "b": 30_000}


def test_the_next_leader_continues(store: Store) -> None:
    """It counts no one as below for the time in which no process looked."""
    ledger = StoredLedger(store)
    ledger.observe(20_000, {"a"})
    ledger.observe(80_000, {"a"})
    later = StoredLedger(store)
    later.observe(500_000, {"a"})
    later.observe(520_000, ())
    assert times_below(store, 600_000) == {"a": 80_000}


def test_what_is_long_over_is_forgotten(store: Store) -> None:
    """After forty days; the others stay."""
    ledger = StoredLedger(store)
    ledger.observe(20_000, {"a"})
    ledger.observe(40_000, ())
    ledger.observe(KEPT_MS + 60_000, {"b"})
    assert set(times_below(store, KEPT_MS + 70_000)) == {"b"}


def test_the_longest_time_below_is_remembered() -> None:
    """Of three falls the second; the sum is of all."""
    ledger = PromiseLedger()
    for now_s, below in ((0, "a"), (10, ""), (20, "a"), (50, ""), (60, "a"), (65, "")):
        ledger.observe(now_s * 1000, below)
    assert (ledger.longest_below_ms("a"), ledger.below_ms("a")) == (30_000, 45_000)
