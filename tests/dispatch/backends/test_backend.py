"""The faults that the reference backend can play; tests/contract has what every backend does."""

from __future__ import annotations

from dispatch.backends.in_memory import InMemoryBackend
from dispatch.executions.assignment import Delta, Op
from dispatch.executions.events import EventKind

MACHINES = ("m-0", "m-1")


def _start(execution: str, index: int = 0, machine: str = "m-0") -> Delta:
    return Delta(Op.START, execution, "w", index, machine)


def test_a_second_start_is_refused() -> None:
    """A component that is on a machine is not started elsewhere."""
    backend = InMemoryBackend(MACHINES)
    assert backend.apply([_start("x")], 0) == ()
    assert backend.apply([_start("x", machine="m-1")], 0)[0].reason == "it is on m-0 already"


def test_events_are_reported_once() -> None:
    """Start and stop are reported in order of time, and not again."""
    backend = InMemoryBackend(MACHINES)
    backend.apply([_start("x")], 5)
    backend.apply([Delta(Op.STOP, "x", "w", 0, "m-0")], 7)
    kinds = [(event.kind, event.at_ms) for event in backend.events(60_000)]
    assert kinds == [(EventKind.STARTED, 5), (EventKind.STOPPED, 7)]
    assert backend.events(60_000) == ()


def test_a_start_takes_its_delay_and_a_stop_overtakes_it() -> None:
    """30 s to start: nothing before, and nothing at all once it was stopped."""
    backend = InMemoryBackend(MACHINES, start_delay_ms=lambda delta: 30_000)
    backend.apply([_start("x"), _start("y")], 0)
    assert backend.events(29_999) == ()
    backend.apply([Delta(Op.STOP, "y", "w", 0, "m-0")], 20_000)
    told = [(event.kind, event.execution) for event in backend.events(30_000)]
    assert told == [(EventKind.STOPPED, "y"), (EventKind.STARTED, "x")]


def test_a_lost_machine_takes_what_ran_there_and_takes_nothing_new() -> None:
    """Both components of m-0 fail, m-1 stays; starts there are refused until it is back."""
    backend = InMemoryBackend(MACHINES)
    backend.apply([_start("x"), _start("x", 1), _start("y", machine="m-1")], 0)
    backend.events(0)
    backend.lose("m-0", 4)
    kinds = [event.kind for event in backend.events(4)]
    assert kinds == [EventKind.MACHINE_LOST, EventKind.FAILED, EventKind.FAILED]
    assert [row.execution for row in backend.state().rows] == ["y"]
    assert backend.apply([_start("x")], 5)[0].reason == "m-0 is lost"
    backend.restore("m-0", 6)
    assert backend.apply([_start("x")], 7) == ()


def test_half_of_the_deltas_may_fail() -> None:
    """What is refused leaves no trace; what is not is there."""
    backend = InMemoryBackend(MACHINES, refuse=lambda one: "no" if one.index % 2 else None)
    refused = backend.apply([_start("x", index) for index in range(4)], 0)
    assert [one.delta.index for one in refused] == [1, 3]
    assert [row.index for row in backend.state().rows] == [0, 2]
    backend.end(("x", "w", 0), 3, failed=True)
    assert [event.kind for event in backend.events(3)][-1] is EventKind.FAILED


def test_components_end_by_themselves_after_their_time() -> None:
    """Started at 0, ready at 2, five long: it exits at 7 and leaves; one stopped at 4 does not."""
    backend = InMemoryBackend(["m-0"], start_delay_ms=lambda _: 2, run_ms=lambda _: 5)
    backend.apply([Delta(Op.START, e, "w", 0, "m-0") for e in ("x", "y")], 0)
    backend.apply([Delta(Op.STOP, "y", "w", 0, "m-0")], 4)
    told = [(event.execution, event.kind, event.at_ms) for event in backend.events(9)]
    assert told == [
        ("x", EventKind.STARTED, 2),
        ("y", EventKind.STARTED, 2),
        ("y", EventKind.STOPPED, 4),
        ("x", EventKind.EXITED, 7),
    ]
    assert backend.state().rows == ()
