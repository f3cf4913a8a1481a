"""Rows of optimisations: how many at once, who is lost, what is forgotten."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

from service.access.user import SERVER
from service.store import AuditRow, OptimizationRow, Store, TooManyError
from service.store.optimizations import LOST_MS, MOST_KEPT, SILENCE_MS
from tests.databases import empty_database

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
    rows.note_lost(_NOW + LOST_MS - 1, 7)
    found = rows.get("a")
    assert found is not None
    assert found.state == "running", "a server may still continue with it"
    rows.note_lost(_NOW + LOST_MS, 7)
    found = rows.get("a")
    assert found is not None
    assert (found.state, found.ended_ms) == ("lost", 7), "by the Plan's clock"
    assert "start it again" in found.reason


def test_a_beat_keeps_it_alive_and_says_whether_it_is_wanted(store: Store) -> None:
    """Stopped or deleted, its process is notified at its next word."""
    rows = store.optimizations
    rows.add(_row("a"), most=1)
    assert rows.beat("a", _NOW + SILENCE_MS - 1, b'{"value":3}')
    rows.note_lost(_NOW + LOST_MS, 7)
    found = rows.get("a")
    assert found is not None
    assert (found.state, found.progress) == ("running", b'{"value":3}')
    rows.stop("a")
    assert not rows.beat("a", _NOW + SILENCE_MS)
    rows.delete("a")
    assert not rows.beat("a", _NOW + SILENCE_MS)
    assert rows.get("a") is None


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
    states = {one.id: (one.state, one.ended_ms, one.result) for one in rows.page()}
    assert states == {"a": ("finished", _NOW + 5, b""), "b": ("lost", _NOW + 9, b"")}
    rows.note_outcome("a", "applied", "in version 7")
    found = rows.get("a")
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
    kept = {one.id for one in rows.page()}
    assert {"first", f"o{MOST_KEPT + 2}"} <= kept
    assert "o0" not in kept
    assert len(kept) <= MOST_KEPT + 1


def test_what_a_server_left_is_taken_over_by_one(store: Store) -> None:
    """Interrupted or silent; by one server only, and by none while one runs."""
    rows = store.optimizations
    rows.add(_row("p-1"), most=9)
    assert rows.take_over("p-", _NOW + SILENCE_MS - 1) is None
    found = rows.take_over("p-", _NOW + SILENCE_MS)
    assert found is not None
    assert (found.id, found.state) == ("p-1", "running")
    assert rows.take_over("p-", _NOW + SILENCE_MS) is None
    done = replace(_row("p-1"), state="interrupted", result=b"{}", ended_ms=_NOW + 5)
    assert rows.end(done)
    assert rows.take_over("c-", _NOW + 9) is None
    rows.add(_row("p-2", _NOW + 9), most=9)
    assert rows.take_over("p-", _NOW + 9) is None, "another runs"
    assert rows.end(replace(_row("p-2"), state="finished"))
    found = rows.take_over("p-", _NOW + 9)
    assert found is not None
    assert (found.id, found.state, found.result) == ("p-1", "interrupted", b"{}")
    now = rows.get("p-1")
    assert now is not None
    assert (now.state, now.reason, now.ended_ms) == ("running", "", 0)


def test_of_what_someone_stopped_only_what_fell_silent_is_taken_over(store: Store) -> None:
    """It ends with what it has kept; one that was stopped after its server ended is over."""
    rows = store.optimizations
    rows.add(_row("p-1"), most=9)
    rows.stop("p-1")
    found = rows.take_over("p-", _NOW + SILENCE_MS)
    assert found is not None
    assert (found.id, found.unwanted) == ("p-1", True)
    rows.delete("p-1")
    rows.add(_row("p-2"), most=9)
    assert rows.end(replace(_row("p-2"), state="interrupted"))
    rows.stop("p-2")
    assert rows.take_over("p-", _NOW + SILENCE_MS) is None


def test_one_that_was_to_stop_when_its_server_ended_is_stopped(store: Store) -> None:
    """Nobody continues with it, so it must not say that someone will."""
    rows = store.optimizations
    rows.add(_row("p-1"), most=9)
    rows.stop("p-1")
    assert rows.end(replace(_row("p-1"), state="interrupted", result=b"{}"))
    found = rows.get("p-1")
    assert found is not None
    assert (found.state, found.result) == ("stopped", b"{}")


def _stops_told(store: Store) -> list[str]:
    with store._engine.connect() as connection:
        return list(connection.exec_driver_sql("SELECT about FROM audit").scalars())


@pytest.mark.parametrize("before", ["running", "interrupted", "finished"])
def test_a_stop_is_reported_once(store: Store, before: str) -> None:
    """Of one that runs or waits; neither asked again, nor of one that is over."""
    rows = store.optimizations
    rows.add(_row("p-1"), most=9)
    if before != "running":
        assert rows.end(replace(_row("p-1"), state=before))
    for _ in range(3):
        rows.stop("p-1", AuditRow(SERVER, _NOW, "stop_optimization", "p-1"))
    rows.end(replace(_row("p-1"), state="interrupted"))
    rows.stop("p-1", AuditRow(SERVER, _NOW, "stop_optimization", "p-1"))
    assert _stops_told(store) == ([] if before == "finished" else ["p-1"])


@pytest.mark.postgres
@pytest.mark.parametrize("first", ["stop", "take_over"])
def test_a_stop_alongside_a_takeover_is_heard(tmp_path: Path, first: str) -> None:
    """Whichever statement waits for the other: what was stopped is not at work as if it was not."""
    with empty_database("postgresql", tmp_path) as url:
        one = Store(url)
        one.optimizations.add(_row("p-1"), most=9)
        one.optimizations.end(replace(_row("p-1"), state="interrupted", result=b"{}"))
        calls: dict[str, Callable[[], object]] = {
            "stop": lambda: one.optimizations.stop(
                "p-1", AuditRow(SERVER, _NOW, "stop_optimization", "p-1")
            ),
            "take_over": lambda: one.optimizations.take_over("p-", _NOW),
        }
        late = next(calls[name] for name in calls if name != first)

        changes: list[str] = []

        def cut_in(_connection: object, _cursor: object, text: str, *_: object) -> None:
            """Let the other call come in front of the last change of the first."""
            if not text.startswith("UPDATE optimizations"):
                return
            changes.append(text)
            if len(changes) == 1:
                thread = threading.Thread(target=late)
                thread.start()
                thread.join(3.0)

        sa.event.listen(one._engine, "before_cursor_execute", cut_in)
        calls[first]()
        found = one.optimizations.get("p-1")
        assert found is not None
        assert found.state == "stopped" or found.unwanted
        assert _stops_told(one) == ["p-1"]
        one.close()
