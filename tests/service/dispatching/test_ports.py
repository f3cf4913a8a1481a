"""Ports of components that start: an execution whose cores lack one waits as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dispatch.backends.executors import ExecutorBackend, run_document_of
from dispatch.backends.run_records import RunRow
from dispatch.cycle.dispatcher import Dispatcher
from dispatch.executions.assignment import Delta, Op
from dispatch.executions.execution import Execution, HeldComponent
from dispatch.executions.peers import MOST_PEER_BYTES, PeerBook
from dispatch.executions.states import ExecutionState
from dispatch.executions.table import ExecutionTable
from dispatch.loop import DispatchLoop
from dispatch.machines.machine_pool import MachinePool
from service.store import Store
from service.store.runs import RunRows
from tests.builders import a_cluster, a_plan
from tests.dispatch.cycle.world import World, an_application

_CLUSTER = a_cluster().machines("m", 2, cpu=4).build()


class Room:
    """A dispatcher on a database, whose executor has both machines on one host."""

    def __init__(self, folder: Path) -> None:
        store = Store(f"sqlite:///{folder / 'agenda.db'}")
        tenure = store.applications.lead("me", 0, 10**12)
        self.rows = store.runs
        self.rows.register("one", "i", ["m-0", "m-1"], 0)
        self.table = ExecutionTable(MachinePool(_CLUSTER))
        peers = PeerBook(self.table)
        self.backend = ExecutorBackend(
            self.rows, tenure, ("m-0", "m-1"), run_document_of(peers), 1e9,
            away=(ConnectionError,), steady_s=lambda: 0.0, peers=peers,
        )  # fmt: skip
        self.loop = DispatchLoop(self.table, Dispatcher(), self.backend)
        self.follower = World(_CLUSTER, a_plan(_CLUSTER).build()).follower

    def submit(self, name: str, core: int, ports: tuple[str, ...]) -> Execution:
        """Submit an application whose core has ports."""
        made = an_application(name, core)
        (part,) = made.components
        return self.table.submit(name, replace(made, components=(replace(part, ports=ports),)), 0)

    def tick(self, at_s: int) -> None:
        """Move to an instant."""
        self.loop.tick(self.follower.follow(1000 * at_s))


@pytest.fixture
def room(tmp_path: Path) -> Room:
    """Return a room in which nothing runs."""
    return Room(tmp_path)


def test_no_core_starts_if_another_one_lacks_its_port(room: Room) -> None:
    """And the port is left to others: two replicas of one number are not on one host."""
    twice = room.submit("twice", 2, ("web:9080",))
    room.tick(1)
    assert room.rows.of_execution("twice") == []
    assert twice.state is ExecutionState.QUEUED
    assert twice.reason == "port 9080 is needed twice on one"

    once = room.submit("once", 1, ("web:9080",))
    room.tick(4)
    assert (once.state, once.reason) == (ExecutionState.STARTING, "")
    assert room.rows.of_execution("twice") == []


def test_nothing_is_lost_while_ports_cannot_be_read(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database fails in the middle of a tick: starts and stops are made in the next one."""

    def fail(_: RunRows) -> Sequence[RunRow]:
        raise ConnectionError

    room.submit("old", 1, ())
    room.tick(1)
    with monkeypatch.context() as patch:
        patch.setattr(RunRows, "with_ports", fail)
        room.table.kill("old", 2000)
        fresh = room.submit("new", 1, ("web",))
        room.tick(2)
        assert [run.wanted for run in room.rows.of_execution("old")] == [True]
        assert fresh.state is ExecutionState.QUEUED
    for at_s in range(3, 9):
        room.tick(at_s)
    assert [run.wanted for run in room.rows.of_execution("old")] == [False]
    assert [run.wanted for run in room.rows.of_execution("new")] == [True]


@pytest.mark.parametrize(
    ("count", "words", "told"), [(200, 12, True), (200, 90, False), (201, 12, False)]
)
def test_a_long_list_of_peers_is_left_out(count: int, words: int, told: bool) -> None:
    """Each run keeps it; and podman and docker read no variable of 64 KiB or more."""
    big = a_cluster().machines("a-group-with-a-long-name", 500, cpu=4).build()
    table = ExecutionTable(MachinePool(big))
    made = an_application("x", count)
    (part,) = made.components
    execution = table.submit("x", replace(made, components=(replace(part, ports=("web",)),)), 0)
    names = [f"a-group-with-a-long-name-{index}" for index in range(count)]
    deltas = [Delta(Op.START, "x", "m", index, name) for index, name in enumerate(names)]
    for index, name in enumerate(names):
        table.put_on(execution, execution.parts[0], HeldComponent(index, name, 0))
    peers = PeerBook(table)
    hosts = {name: f"{name}.{'long' * words}" for name in names}
    assert peers.give_ports(deltas, hosts, ()) == {}
    listed = peers.launch(deltas[0]).environment.get("AGENDA_PEERS", "")
    assert bool(listed) == told
    assert len(listed) <= MOST_PEER_BYTES
