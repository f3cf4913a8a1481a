"""Tasks on executors: each is done once, though leaders are killed and components are stopped."""

from __future__ import annotations

from pathlib import Path

import pytest

from dispatch.backends.executors import ExecutorBackend, run_document_of
from dispatch.backends.run_records import RunReport, RunRow, RunState
from dispatch.executions.assignment import Delta, Op
from dispatch.executions.execution import Execution, HeldComponent
from dispatch.executions.peers import PeerBook
from dispatch.executions.states import ExecutionState
from dispatch.executions.table import ExecutionTable
from dispatch.machines.machine_pool import MachinePool
from service.store import ApplicationRow, Store
from tests.builders import a_cluster
from tests.dispatch.cycle.world import an_application

MACHINES = ("m-0", "m-1")
_CLUSTER = a_cluster().machines("m", 2, cpu=1).build()


class Leader:
    """A table and a backend of one tenure, over a database that may have had earlier leaders."""

    def __init__(self, store: Store, tasks: int, elastic: int = 0, retries: int = 0) -> None:
        self.rows = store.runs
        self.table = ExecutionTable(MachinePool(_CLUSTER))
        self.taken: dict[str, RunRow] = {}
        peers = PeerBook(self.table)
        tenure = store.applications.lead("me", 0, 10**12)
        self.backend = ExecutorBackend(
            self.rows, tenure, MACHINES, run_document_of(peers), 5.0, self.taken,
            steady_s=lambda: 0.0, peers=peers,
        )  # fmt: skip
        application = an_application("x", 1, elastic, tasks=tasks, retries=retries)
        self.execution: Execution = self.table.submit("x", application, 0)
        self.backend.resume(self.table, self.execution)

    def place(self, component: str, machine: str, at_ms: int) -> None:
        """Put a component on a machine and start its first task."""
        part = next(one for one in self.execution.parts if one.component.name == component)
        self.table.put_on(self.execution, part, HeldComponent(0, machine, at_ms))
        if component == "m":
            self.table.admit(self.execution, at_ms)
        op = Op.START if component == "m" else Op.GROW
        self.apply(at_ms, Delta(op, "x", component, 0, machine))

    def apply(self, at_ms: int, *deltas: Delta) -> None:
        """Carry out deltas and start the next tasks."""
        assert self.backend.apply(self.table.assign_tasks(deltas, at_ms), at_ms) == ()

    def read(self, at_ms: int) -> None:
        """Take the events of the backend."""
        for event in self.backend.events(at_ms):
            self.table.take(event)

    def counts(self) -> tuple[int, int, int]:
        """Return how many tasks are done, have failed and are left."""
        assert self.execution.tasks is not None
        found = self.execution.tasks.to_json()
        return found["done"], found["failed"], found["left"]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return a database with an application and an executor of both machines."""
    made = Store(f"sqlite:///{tmp_path / 'agenda.db'}")
    made.applications.add(ApplicationRow("x", "t", 0, b"{}"))
    made.runs.register("one", "i", list(MACHINES), 0)
    return made


def sync(store: Store, at_ms: int, **states: RunState) -> dict[int, RunRow]:
    """Report states of runs, `t0` for task 0; return the wanted runs by task."""
    reports = [
        RunReport(run.id, states[f"t{run.task}"], 0 if states[f"t{run.task}"] == "exited" else 1)
        for run in store.runs.of_execution("x")
        if f"t{run.task}" in states and run.is_open
    ]
    wanted = store.runs.sync("one", "i", reports, at_ms).wanted
    return {-1 if run.task is None else run.task: run for run in wanted}


@pytest.mark.parametrize("state", [RunState.EXITED, RunState.FAILED])
def test_an_end_counts_though_the_leader_died_after_the_next_start(
    store: Store, state: RunState
) -> None:
    """Before it recorded that it had read it: the next leader runs that task no more."""
    leader = Leader(store, 3)
    leader.place("m", "m-0", 100)
    assert list(sync(store, 200)) == [0]
    sync(store, 300, t0=state)
    leader.read(400)
    leader.apply(500)
    assert list(sync(store, 600)) == [1]

    following = Leader(store, 3)
    following.read(700)
    ends = (1, 0) if state is RunState.EXITED else (0, 1)
    assert following.counts() == (*ends, 2)
    sync(store, 800, t1=RunState.EXITED)
    following.read(900)
    following.apply(900)
    assert list(sync(store, 1000)) == [2]


def test_a_component_keeps_its_placement_under_the_next_leader(store: Store) -> None:
    """It has its machine since its first task, not since the newest."""
    leader = Leader(store, 3)
    leader.place("m", "m-0", 100)
    for task in range(2):
        sync(store, 200 + 1000 * task)
        sync(store, 300 + 1000 * task, **{f"t{task}": RunState.EXITED})
        leader.read(400 + 1000 * task)
        leader.apply(500 + 1000 * task)
    following = Leader(store, 3)
    assert following.execution.started_ms == 100
    assert [held.since_ms for held in following.execution.parts[0].held] == [100]


def test_a_run_that_has_not_ended_is_newer_than_one_that_has(store: Store) -> None:
    """Though it began earlier by the clock of a leader, which was behind."""
    leader = Leader(store, 3)
    leader.place("m", "m-0", 5000)
    sync(store, 6000)
    sync(store, 6000, t0=RunState.EXITED)
    leader.read(6000)
    leader.apply(1000)
    following = Leader(store, 3)
    assert [held.task for held in following.execution.parts[0].held] == [1]
    following.read(2000)
    assert following.counts() == (1, 0, 2)


@pytest.mark.parametrize("state", [RunState.STOPPED, RunState.EXITED])
def test_a_task_waits_until_its_stopped_run_has_ended(store: Store, state: RunState) -> None:
    """On whatever machine; if that run had done its work, it is not done again."""
    leader = Leader(store, 2, elastic=1)
    leader.place("m", "m-0", 100)
    leader.place("w", "m-1", 100)
    assert sorted(sync(store, 200, t0=RunState.RUNNING, t1=RunState.RUNNING)) == [0, 1]
    sync(store, 300, t0=RunState.EXITED, t1=RunState.RUNNING)
    leader.read(300)
    execution, part, held = leader.table.placed(Delta(Op.STOP, "x", "w", 0, "m-1"))
    leader.table.take_off(execution, part, held)
    leader.apply(400, Delta(Op.SHRINK, "x", "w", 0, "m-1"))
    assert [one.task for one in leader.execution.parts[0].held] == [1]
    old = next(run for run in store.runs.of_execution("x") if run.component == "w")
    still = [RunReport(old.id, RunState.RUNNING)]
    assert store.runs.sync("one", "i", still, 500).wanted == ()
    wanted = store.runs.sync("one", "i", [RunReport(old.id, state, 0)], 600).wanted
    leader.read(700)
    if state is RunState.STOPPED:
        assert [(run.component, run.task) for run in wanted] == [("m", 1)]
        assert leader.counts() == (1, 0, 1)
    else:
        assert wanted == ()
        assert leader.counts() == (2, 0, 0)
        assert leader.execution.state is ExecutionState.COMPLETED
