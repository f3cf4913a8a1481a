"""Faults: machines lost, clocks that jump, late ticks, Plans that change, backends that fail."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatch.backends.in_memory import InMemoryBackend
from dispatch.backends.interface import NotDone
from dispatch.cycle.dispatcher import Dispatcher
from dispatch.executions.assignment import Delta, Op
from dispatch.executions.states import ExecutionState
from dispatch.loop import DispatchLoop
from planner.agent import Limits
from planner.agents import agent_named
from planner.plan.records.changes import Advance, Cancel, Reconfigure, Update
from planner.renegotiation import renegotiation_of
from tests.builders import a_cluster, a_request, ask, commit
from tests.dispatch.cycle.world import World, a_world, an_application

_TEN = a_cluster().machines("plain", 10, cpu=1).build()


def _atom(height: int, lease: int, start: int, end: int) -> str:
    return f"window(atom(<1 cpu>, {height}, {height}, {lease}, {height * lease}), {start}, {end})"


def _machine_of(world: World, component: str) -> str:
    return next(r.machine for r in world.table.assignment().rows if r.component == component)


@pytest.mark.parametrize("reservation", [None, "r1"])
@pytest.mark.parametrize("restart", [False, True])
def test_a_machine_lost_under_a_core_sends_its_execution_back(
    reservation: str | None, restart: bool
) -> None:
    """All of it leaves and begins again elsewhere, first submission kept, covered as before."""
    world = a_world(_TEN, _atom(6, 300, 0, 300))
    application = an_application("a", 2, 3, reservation=reservation, restart=restart)
    world.submit(application, 0)
    world.tick(0)
    lost = _machine_of(world, "m")
    world.backend.lose(lost, 10_000)
    cycle = world.tick(10)
    assert world.held("a") == [2, 3]
    assert world.table.get("a").submitted_ms == 0  # type: ignore[union-attr]
    since = {row.since_ms for row in world.table.assignment().rows}
    assert since == {10_000}
    assert {delta.op for delta in cycle.deltas} >= {Op.SHRINK}
    assert all(row.machine != lost for row in world.table.assignment().rows)
    assert len(world.covered()) == (5 if reservation else 0)


def test_a_machine_lost_under_an_elastic_component_harms_no_one() -> None:
    """The application runs on; the component is on another machine in the same tick."""
    world = a_world(_TEN)
    world.submit(an_application("a", 2, 3), 0)
    world.tick(0)
    before = {row.key: row for row in world.table.assignment().rows}
    world.backend.lose(_machine_of(world, "w"), 10_000)
    world.tick(10)
    assert world.state("a") is ExecutionState.RUNNING
    after = {row.key: row for row in world.table.assignment().rows}
    assert before.keys() == after.keys()
    moved = [key for key in after if after[key].machine != before[key].machine]
    assert len(moved) == 1
    assert all(after[key] == before[key] for key in after if key not in moved)


def test_a_machine_that_comes_back_is_used_again() -> None:
    """Nine of ten run while it is away, ten after."""
    world = a_world(_TEN)
    world.backend.lose("plain-3", 0)
    world.submit(an_application("a", 1, 9), 0)
    world.tick(0)
    assert world.held("a") == [1, 8]
    world.backend.restore("plain-3", 5_000)
    world.tick(5)
    assert world.held("a") == [1, 9]


def test_an_outage_announced_is_met_before_it_begins() -> None:
    """Five seconds before, its capacity is made; nothing is there while it lasts; then it is used.

    The one that was stopped is first in the line: the later one does not pass it.
    """
    builder = a_cluster().machines("plain", 4, cpu=1)
    world = a_world(builder.build())
    commit(world.plan, Reconfigure(builder.outage("plain", 2, "50s", "80s").build()))
    world.submit(an_application("early", 3, 0), 0)
    world.tick(0)
    world.submit(an_application("late", 1, 0), 46)
    world.tick(46)
    assert world.held("late") == [0]
    world.tick(50)
    assert {row.machine for row in world.table.assignment().rows} <= {"plain-0", "plain-1"}
    world.tick(80)
    assert (world.held("early"), world.held("late")) == ([3], [1])


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 200), min_size=1, max_size=12))
def test_whatever_the_clock_did_the_next_tick_is_right(instants: list[int]) -> None:
    """Jumps forward and back: covered is what the Plan says of the last instant, and it runs."""
    world = a_world(_TEN, _atom(6, 60, 20, 80), _atom(8, 40, 100, 140))
    world.submit(an_application("one", 2, 4, reservation="r1"), 0)
    world.submit(an_application("two", 2, 6, reservation="r2"), 0)
    world.submit(an_application("guest", 1, 9), 0)
    for at_s in instants:
        cycle = world.tick(at_s)
        assert not cycle.below
        wanted = {"one": 6} if 20 <= at_s < 80 else {"two": 8} if 100 <= at_s < 140 else {}
        covered: dict[str, int] = {}
        for name, _, _ in world.covered():
            covered[name] = covered.get(name, 0) + 1
        assert covered == wanted


def test_a_late_tick_makes_up_for_those_that_were_missed() -> None:
    """Nobody looked from 90 to 130: capacity is made and the owner started in one cycle."""
    world = a_world(_TEN, _atom(10, 60, 100, 160))
    world.submit(an_application("guest", 3, 7), 0)
    world.tick(0)
    world.submit(an_application("owner", 10, 0, reservation="r1"), 1)
    world.tick(90)
    assert world.held("owner") == [0]
    cycle = world.tick(130)
    assert (world.held("owner"), world.held("guest")) == ([10], [0, 0])
    assert cycle.requeued == ("guest",)


def test_a_reservation_cancelled_while_running_leaves_best_effort() -> None:
    """What runs continues without cover, and in service; it gives way to the next reservation."""
    world = a_world(_TEN, _atom(10, 60, 0, 60))
    world.submit(an_application("owner", 2, 8, reservation="r1"), 1)
    world.tick(1)
    assert len(world.covered()) == 10
    commit(world.plan, Cancel("r1"))
    assert world.tick(3).deltas == ()
    assert not world.covered()
    ask(world.plan, a_request("r2", _atom(7, 50, 3, 60)).on(_TEN))
    world.submit(an_application("next", 7, 0, reservation="r2"), 4)
    world.tick(10)
    assert (world.held("owner"), world.held("next")) == ([2, 1], [7])


def test_a_reservation_renegotiated_while_running_covers_less_or_more() -> None:
    """From eight to four at 10 s: the core and three keep cover; the rest runs on what is free."""
    text = "window(atom(<1 cpu>, 1, {}, 10, {}), 0, 60)"
    world = a_world(_TEN, text.format(8, 480))
    world.submit(an_application("owner", 1, 7, reservation="r1"), 0)
    world.tick(0)
    assert len(world.covered()) == 8
    commit(world.plan, Advance(10))
    _renegotiate(world, text.format(8, 280))
    covered = world.plan.view().free[0, 15 - world.plan.view().first]
    world.tick(15)
    assert len(world.covered()) == 10 - covered // 1000
    assert world.held("owner") == [1, 7]
    world.submit(an_application("guest", 6, 0), 16)
    world.tick(16)
    assert world.state("owner") is ExecutionState.RUNNING


def _renegotiate(world: World, text: str) -> None:
    plan = world.plan
    present = plan.reservation("r1")
    assert present is not None
    request = a_request("r1", text).on(plan.cluster, plan.grid)
    result = renegotiation_of(plan, "r1", request).place(agent_named("gree"), Limits())
    assert result.placed, result.detail
    assert not commit(plan, Update("r1", present.revision, request, result, "gree")).conflicts


class _HalfBackend(InMemoryBackend):
    """Fails every second delta while it is told to."""

    failing = True
    count = 0

    def _problem(self, delta: Delta) -> str | None:
        self.count += 1
        if self.failing and self.count % 2:
            return "it does not answer"
        return super()._problem(delta)


def test_a_backend_that_fails_half_of_a_delta_is_followed_and_asked_again() -> None:
    """The table says what the backend says after every tick; in the end all is as wanted.

    Starts that failed are tried again after a pause; stops that failed at the next tick.
    """
    world = a_world(_TEN, _atom(8, 200, 100, 300))
    backend = _HalfBackend(world.pool.names)
    world.backend = backend
    world.loop = DispatchLoop(world.table, Dispatcher(), backend)
    world.submit(an_application("guest", 1, 9), 0)
    world.submit(an_application("owner", 4, 4, reservation="r1"), 50)
    for at_s in range(0, 120, 2):
        world.loop.tick(world.follower.follow(at_s * 1000))
        held = {row.key: row.machine for row in world.table.assignment().rows}
        assert held == {row.key: row.machine for row in backend.state().rows}
    backend.failing = False
    for at_s in range(120, 260, 2):
        world.tick(at_s)
    assert (world.held("owner"), world.held("guest")) == ([4, 4], [1, 1])
    assert world.state("owner") is ExecutionState.RUNNING
    assert world.state("guest") is ExecutionState.RUNNING


class _AwayBackend(InMemoryBackend):
    """Refuses every start while it is told to, as one that no one hears or one that hears."""

    is_silent: bool | None = None

    def apply(self, deltas: Sequence[Delta], at_ms: int) -> tuple[NotDone, ...]:
        """See `Backend.apply`."""
        if self.is_silent is None:
            return super().apply(deltas, at_ms)
        return tuple(NotDone(one, "no answer", retry=self.is_silent) for one in deltas)


@pytest.mark.parametrize(("is_silent", "starts_s"), [(True, 21), (False, 31)])
def test_who_was_not_heard_is_asked_again_at_the_next_tick(is_silent: bool, starts_s: int) -> None:
    """Refused for twenty seconds, a gang starts in the first tick after it; or after a pause.

    That doubles with each refusal, however many of the gang are refused at once: 1, 3, 7, 15 s.
    """
    world = a_world(_TEN, _atom(8, 200, 100, 300))
    backend = _AwayBackend(world.pool.names)
    world.backend, backend.is_silent = backend, is_silent
    world.loop = DispatchLoop(world.table, Dispatcher(), backend)
    world.submit(an_application("gang", 4), 0)
    for at_s in range(60):
        backend.is_silent = is_silent if at_s <= 20 else None
        world.loop.tick(world.follower.follow(at_s * 1000))
        if world.held("gang") == [4]:
            break
    assert at_s == starts_s
