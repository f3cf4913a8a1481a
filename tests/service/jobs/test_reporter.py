"""What a process that optimises records, where the database is unavailable for a moment."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.clock import ManualClock
from service.jobs import process as reporting
from service.jobs.process import Reporter
from service.store import OptimizationRow, Store
from service.store.engine import UnavailableError

_ROW = OptimizationRow("p-1", 1_000, b"{}", 1_000)


def test_a_result_outlives_a_database_that_is_unavailable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is written as soon as the database is back; once, though an answer was lost."""
    monkeypatch.setattr(reporting, "_NEWS_S", 0.0)
    store = Store(f"sqlite:///{tmp_path / 'agenda.db'}")
    rows = store.optimizations
    rows.add(_ROW, most=1)
    write, faults = rows.end, iter(["before it was written", "after it was written"])

    def end(row: OptimizationRow) -> bool:
        fault = next(faults, None)
        if fault == "before it was written":
            raise UnavailableError(fault)
        done = write(row)
        if fault is not None:
            raise UnavailableError(fault)
        return done

    monkeypatch.setattr(rows, "end", end)
    Reporter(store, _ROW, store.host_clock()).end("finished", result=b"[1]")
    found = rows.get("p-1")
    assert found is not None
    assert (found.state, found.result) == ("finished", b"[1]")
    store.close()


def test_the_end_is_reported_by_the_clock_of_the_plan(tmp_path: Path) -> None:
    """That its process lives is reported by the host's clock, all that people see by the Plan's."""
    store = Store(f"sqlite:///{tmp_path / 'agenda.db'}")
    store.optimizations.add(_ROW, most=1)
    Reporter(store, _ROW, store.host_clock(), ManualClock(77)).end("finished", result=b"[1]")
    found = store.optimizations.get("p-1")
    assert found is not None
    assert found.ended_ms == 77
    store.close()
