"""The contract of every backend: in memory, executors, and a real Slurm."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from dispatch.executions.assignment import AssignmentRow, Delta, Key, Op, VirtualAssignment
from dispatch.executions.events import BackendEvent, EventKind
from tests.contract.backend_rooms import BackendRoom, backend_room
from tests.patience import eventually

KINDS = (
    "in_memory",
    "executor",
    pytest.param("slurm", marks=pytest.mark.slurm),
)


@pytest.fixture(params=KINDS)
def room(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BackendRoom]:
    """Return a room of each kind."""
    with backend_room(request.param, tmp_path) as found:
        yield found


def start(execution: str, index: int = 0, machine: str = "m-0") -> Delta:
    """Return what starts a component."""
    return Delta(Op.START, execution, "w", index, machine)


def stop(execution: str, index: int = 0, machine: str = "m-0") -> Delta:
    """Return what stops it."""
    return Delta(Op.STOP, execution, "w", index, machine)


class Told:
    """The events of a backend so far."""

    def __init__(self, room: BackendRoom) -> None:
        self._room = room
        self.events: list[BackendEvent] = []

    def until(self, good: Callable[[], object]) -> None:
        """Take events in until something holds."""

        def look() -> bool:
            self._room.turn()
            self.events += self._room.backend.events(60_000)
            return bool(good())

        eventually(look)

    def carry_out(self, deltas: Sequence[Delta], at_ms: int) -> None:
        """Apply deltas; what is to be tried again is tried until it is done."""
        left = list(deltas)

        def apply() -> bool:
            refused = self._room.backend.apply(left, at_ms)
            assert all(one.retry for one in refused), refused
            left[:] = [one.delta for one in refused]
            if left:
                self._room.turn()
                self.events += self._room.backend.events(60_000)
            return not left

        eventually(apply)

    def has(self, kind: EventKind, *keys: Key) -> bool:
        """Return whether each component, or any machine without one, was notified of so."""
        if not keys:
            return any(event.kind is kind for event in self.events)
        return set(keys) <= {
            (event.execution, event.component, event.index)
            for event in self.events
            if event.kind is kind
        }


def test_deltas_lead_from_the_state_to_what_is_wanted(room: BackendRoom) -> None:
    """State after applying the deltas between two assignments is the second."""
    first = VirtualAssignment.of(
        AssignmentRow("x", "w", index, "m-0", 0, covered=False) for index in range(3)
    )
    second = VirtualAssignment.of(
        AssignmentRow("x", "w", index, "m-1", 0, covered=False) for index in range(2)
    )
    told = Told(room)
    for wanted in (first, second):
        told.carry_out(room.backend.state().deltas_to(wanted), 10)
        assert [(row.key, row.machine) for row in room.backend.state().rows] == [
            (row.key, row.machine) for row in wanted.rows
        ]
    told.until(lambda: told.has(EventKind.STARTED, *(row.key for row in second.rows)))


def test_what_cannot_be_done_is_returned_and_the_rest_is_done(room: BackendRoom) -> None:
    """A stop of what is not there and an unknown machine are refused, of three."""
    deltas = [stop("x"), start("x"), start("y", machine="m-9")]
    refused = room.backend.apply(deltas, 0)
    assert [one.delta for one in refused] == [deltas[0], deltas[2]]
    assert all(one.reason for one in refused)
    assert [row.key for row in room.backend.state().rows] == [("x", "w", 0)]


def test_a_start_and_an_end_are_told_once(room: BackendRoom) -> None:
    """One exits, one fails: each is reported as started, then as ended, and both have left."""
    keys = [("x", "w", 0), ("x", "w", 1)]
    told = Told(room)
    told.carry_out([start("x"), start("x", 1, "m-1")], 0)
    told.until(lambda: told.has(EventKind.STARTED, *keys))
    room.end(keys[0])
    room.end(keys[1], failed=True)
    told.until(lambda: not room.backend.state().rows)
    room.turn()
    told.events += room.backend.events(60_000)

    kinds = [(event.kind, event.index) for event in told.events]
    assert sorted(kinds) == sorted(
        [
            (EventKind.STARTED, 0),
            (EventKind.STARTED, 1),
            (EventKind.EXITED, 0),
            (EventKind.FAILED, 1),
        ]
    )
    assert [room.starts(key) for key in keys] in ([1, 1], [0, 0])  # in memory nothing is left


def test_what_is_stopped_ends_and_is_no_failure(room: BackendRoom) -> None:
    """It leaves the state at once, and can be started again elsewhere."""
    told = Told(room)
    told.carry_out([start("x")], 0)
    told.until(lambda: told.has(EventKind.STARTED))
    told.carry_out([stop("x"), start("x", machine="m-1")], 10)
    assert [row.machine for row in room.backend.state().rows] == ["m-1"]
    seen = len(told.events)
    told.until(
        lambda: any(e.kind is EventKind.STARTED and e.machine == "m-1" for e in told.events[seen:])
    )
    assert not told.has(EventKind.FAILED)


def test_a_lost_machine_takes_what_ran_there_and_nothing_new(room: BackendRoom) -> None:
    """What ran there is reported as gone, the other stays; starts are refused until it is back."""
    told = Told(room)
    told.carry_out([start("x"), start("y", machine="m-1")], 0)
    told.until(lambda: told.has(EventKind.STARTED, ("x", "w", 0), ("y", "w", 0)))
    room.lose("m-0")
    told.until(lambda: told.has(EventKind.MACHINE_LOST))
    told.until(
        lambda: told.has(EventKind.FAILED, ("x", "w", 0)) or told.has(EventKind.LOST, ("x", "w", 0))
    )
    assert [row.execution for row in room.backend.state().rows] == ["y"]
    assert room.backend.apply([start("z")], 30)[0].reason
    room.restore("m-0")
    told.until(lambda: told.has(EventKind.MACHINE_BACK))
    told.carry_out([start("z")], 40)
    told.until(lambda: told.has(EventKind.STARTED, ("z", "w", 0)))
