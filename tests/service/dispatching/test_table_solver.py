"""Dispatch tables made alongside the ticks."""

from __future__ import annotations

import threading

import pytest

from dispatch.tables import LiveTables, TableJob
from service.dispatching.table_solver import TableSolver
from tests.builders import a_cluster, a_plan

_PLAN = a_plan(a_cluster().machines("node", 2, cpu=4).build()).build()


@pytest.fixture
def goes_on(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Return what a table waits for before it is made."""
    event, solve = threading.Event(), LiveTables.solve

    def waits(tables: LiveTables, job: TableJob) -> None:
        assert event.wait(300)
        solve(tables, job)

    monkeypatch.setattr(LiveTables, "solve", waits)
    return event


def test_a_tick_does_not_wait_for_a_table(goes_on: threading.Event) -> None:
    """While one is made the follower has none, and no second is begun; then it is there."""
    loads: list[float] = []
    solving = TableSolver(beside=True, set_load=loads.append)
    for now_ms in (0, 1_000, 700_000):
        solving.follow(_PLAN, now_ms)
        solving.settle()
        assert solving.tables.table_at(_PLAN, now_ms) == (None, 0)
    goes_on.set()
    solving.close()
    assert solving.tables.table_at(_PLAN, 0) == (None, 1)
    assert loads == [0.0]
    solving.follow(_PLAN, 700_000)
    solving.close()
    assert solving.tables.table_at(_PLAN, 0) == (None, 2)


def test_who_ticks_by_hand_waits_for_the_table(goes_on: threading.Event) -> None:
    """Then what a tick leaves behind is the same in every run."""
    solving = TableSolver(beside=False, set_load=lambda _: None)
    threading.Timer(0.05, goes_on.set).start()
    solving.follow(_PLAN, 0)
    solving.settle()
    assert solving.tables.table_at(_PLAN, 0) == (None, 1)
