"""A stop that comes too late: the work had ended, and is not done again."""

from __future__ import annotations

from pathlib import Path

from dispatch.backends.executors import ExecutorBackend, RunOrder
from dispatch.backends.run_records import RunReport, RunState
from dispatch.executions.assignment import Delta, Op
from dispatch.executions.events import EventKind
from service.store import Store

MACHINES = ("m-0", "m-1")


def test_a_core_that_ended_before_its_stop_counts_as_run_at_its_next_start(tmp_path: Path) -> None:
    """The backend tells a start and an end on the new machine, and no executor is handed a run."""
    rows = (store := Store(f"sqlite:///{tmp_path / 'agenda.db'}")).runs
    tenure = store.applications.lead("me", 0, 10**12)
    rows.register("one", "i", list(MACHINES), 0)
    backend = ExecutorBackend(
        rows, tenure, MACHINES, lambda _: RunOrder(b"{}", True), 5.0, steady_s=lambda: 0.0
    )
    backend.events(0)
    assert backend.apply([Delta(Op.START, "x", "w", 0, "m-0")], 0) == ()
    (run,) = rows.sync("one", "i", [], 10).wanted
    rows.sync("one", "i", [RunReport(run.id, RunState.RUNNING)], 20)
    backend.events(20)

    assert backend.apply([Delta(Op.STOP, "x", "w", 0, "m-0")], 30) == ()
    assert backend.apply([Delta(Op.START, "x", "w", 0, "m-1")], 40) == ()
    answer = rows.sync("one", "i", [RunReport(run.id, RunState.EXITED, 0)], 50)
    told = [(event.kind, event.machine, event.index) for event in backend.events(60)]

    assert answer.wanted == ()
    assert told == [(EventKind.STARTED, "m-1", 0), (EventKind.EXITED, "m-1", 0)]
    assert [row.machine for row in backend.state().rows] == ["m-1"]


def test_a_start_whose_executor_was_removed_meanwhile_is_lost(tmp_path: Path) -> None:
    """The leader saw the executor before; its next look ends the run, which no one is ever told."""
    rows = (store := Store(f"sqlite:///{tmp_path / 'agenda.db'}")).runs
    tenure = store.applications.lead("me", 0, 10**12)
    rows.register("one", "i", ["m-0"], 0)
    backend = ExecutorBackend(
        rows, tenure, MACHINES, lambda _: RunOrder(b"{}", True), 5.0, steady_s=lambda: 0.0
    )
    backend.events(0)
    rows.remove("one")
    assert backend.apply([Delta(Op.START, "x", "w", 0, "m-0")], 10) == ()

    told = [(event.kind, event.machine) for event in backend.events(20)]
    assert told == [(EventKind.MACHINE_LOST, "m-0"), (EventKind.LOST, "m-0")]
    assert [run.state for run in rows.of_execution("x")] == [RunState.LOST]
