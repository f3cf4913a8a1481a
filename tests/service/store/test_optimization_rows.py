"""Rows of optimisations: how many at once, who is lost, what is forgotten."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from service.store import OptimizationRow, Store, TooManyError
from service.store.rows.optimizations import MOST_KEPT, SILENCE_MS

_NOW = 1_000_000


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return a store in a file of its own."""
    return Store(f"sqlite:///{tmp_path / 'agenda.db'}")


def _row(id_: str, at_ms: int = _NOW) -> OptimizationRow:
    return OptimizationRow(id_, at_ms, b'{"asked":1}', at_ms)


def test_no_more_run_at_once_than_may(store: Store) -> None:
    """The second is turned away while the first lives; one that is silent does not count."""
    rows = store.optimizations
    rows.add(_row("a"), most=1)
    with pytest.raises(TooManyError):
        rows.add(_row("b", _NOW + 1), most=1)
    rows.add(_row("b", _NOW + SILENCE_MS), most=1)
    found = rows.get("a", _NOW + SILENCE_MS)
    assert found is not None
    assert (found.state, found.ended_ms) == ("lost", _NOW + SILENCE_MS)
    assert "ask again" in found.reason


def test_a_beat_keeps_it_alive_and_says_whether_it_is_wanted(store: Store) -> None:
    """Stopped or deleted, its process is told so at its next word."""
    rows = store.optimizations
    rows.add(_row("a"), most=1)
    assert rows.beat("a", _NOW + SILENCE_MS - 1, b'{"value":3}')
    found = rows.get("a", _NOW + SILENCE_MS)
    assert found is not None
    assert (found.state, found.progress) == ("running", b'{"value":3}')
    rows.stop("a")
    assert not rows.beat("a", _NOW + SILENCE_MS)
    rows.delete("a")
    assert not rows.beat("a", _NOW + SILENCE_MS)
    assert rows.get("a", _NOW) is None


def test_how_it_ended_is_written_once(store: Store) -> None:
    """Whoever was given up as lost cannot say later that it finished; what ended stays."""
    rows = store.optimizations
    rows.add(_row("a"), most=2)
    rows.add(_row("b"), most=2)
    done = replace(_row("a"), state="finished", result=b"[]", ended_ms=_NOW + 5)
    assert rows.end(done)
    rows.lose("a", _NOW + 9, "gone")
    rows.lose("b", _NOW + 9, "gone")
    assert not rows.end(replace(done, id="b"))
    states = {one.id: (one.state, one.ended_ms, one.result) for one in rows.page(_NOW)}
    assert states == {"a": ("finished", _NOW + 5, b""), "b": ("lost", _NOW + 9, b"")}
    rows.note_applied("a", "in version 7")
    found = rows.get("a", _NOW)
    assert found is not None
    assert (found.state, found.reason, found.result) == ("applied", "in version 7", b"[]")


def test_the_oldest_that_are_over_are_forgotten(store: Store) -> None:
    """The list does not grow for ever, and what runs is never forgotten."""
    rows = store.optimizations
    rows.add(_row("first"), most=MOST_KEPT)
    for number in range(MOST_KEPT + 3):
        at_ms = _NOW + number
        rows.add(_row(f"o{number}", at_ms), most=MOST_KEPT)
        rows.end(replace(_row(f"o{number}", at_ms), state="failed", ended_ms=at_ms))
    kept = {one.id for one in rows.page(_NOW)}
    assert {"first", f"o{MOST_KEPT + 2}"} <= kept
    assert "o0" not in kept
    assert len(kept) <= MOST_KEPT + 1
