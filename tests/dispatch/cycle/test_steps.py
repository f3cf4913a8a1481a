"""The steps of a cycle one by one, on worlds small enough to follow by hand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatch.accounts.promises import PromiseLedger, shortfall
from dispatch.cycle.options import DispatchOptions, LineOptions
from dispatch.executions.assignment import Op
from dispatch.executions.predecessors import predecessors_of
from dispatch.executions.states import ExecutionState
from planner.plan.records.changes import Cancel
from rdl.compile.source import read_source
from tests.builders import a_cluster, a_plan, a_request, ask, commit
from tests.dispatch.cycle.world import World, a_world, an_application

_TEN = a_cluster().machines("plain", 10, cpu=1).build()


def _atom(height: int, lease: int, start: int, end: int) -> str:
    """A rigid rectangle in a window that leaves it no choice."""
    work = height * lease
    return f"window(atom(<1 cpu>, {height}, {height}, {lease}, {work}), {start}, {end})"


def test_what_is_not_asked_for_is_lent() -> None:
    """A reservation of all ten without an execution: best effort runs; then it gives way."""
    world = a_world(_TEN, _atom(10, 60, 0, 60))
    world.submit(an_application("guest", 2, 8))
    world.tick(0)
    assert world.held("guest") == [2, 8]
    world.submit(an_application("owner", 5, 0, reservation="r1"), 10)
    cycle = world.tick(10)
    assert world.held("owner") == [5]
    assert world.held("guest") == [2, 3]
    assert cycle.room == (5_000,)


def test_cores_are_covered_before_anybodys_elastic_components() -> None:
    """Six promised: two executions of two cores; the older one gets the two that are left."""
    world = a_world(_TEN, _atom(6, 60, 0, 60))
    world.submit(an_application("old", 2, 9, reservation="r1"), 0)
    world.submit(an_application("new", 2, 9, reservation="r1"), 1)
    world.tick(1)
    parts = {e.id: [part.covered for part in e.parts] for e in world.table}
    assert parts == {"old": [2, 2], "new": [2, 0]}


def test_cover_shrinks_elastic_first_newest_execution_first_oldest_component_first() -> None:
    """Six, then three of a reservation: both lose elastic ones before a core loses cover."""
    source = "window(all({}, {}), 0, 60)".format(
        "window(atom(<1 cpu>, 3, 3, 30, 90), 0, 30)", "window(atom(<1 cpu>, 3, 3, 60, 180), 0, 60)"
    )
    world = a_world(_TEN, source, options=DispatchOptions(line=LineOptions(above=False)))
    world.submit(an_application("old", 1, 1, reservation="r1"), 0)
    world.tick(0)
    world.submit(an_application("new", 1, 3, reservation="r1"), 10)
    world.tick(10)
    assert (world.held("old"), world.held("new")) == ([1, 1], [1, 3])
    world.tick(30)
    assert (world.held("old"), world.held("new")) == ([1, 1], [1, 0])
    world = a_world(_TEN, source, options=DispatchOptions(line=LineOptions(above=False)))
    application = an_application("one", 1, 5, reservation="r1")
    world.submit(application, 0)
    world.tick(0)
    (_, workers) = world.table.get("one").parts  # type: ignore[union-attr]
    for number, piece in enumerate(workers.held):
        piece.since_ms = number
    world.tick(30)
    assert [piece.since_ms for piece in workers.held] == [3, 4]


def test_an_execution_whose_cover_ends_continues_as_best_effort() -> None:
    """Nobody else wants its room: it keeps all; someone does: it keeps its cores."""
    world = a_world(_TEN, _atom(8, 60, 0, 60))
    world.submit(an_application("owner", 3, 5, reservation="r1"), 0)
    world.tick(0)
    cycle = world.tick(60)
    assert cycle.deltas == ()
    assert world.held("owner") == [3, 5]
    assert not world.covered()
    world.submit(an_application("next", 7, 0), 61)
    world.tick(61)
    assert (world.held("owner"), world.held("next")) == ([3, 0], [7])


def test_release_stops_elastic_then_the_newest_cores_that_free_what_is_needed() -> None:
    """Seven of ten are needed: elastic ones go, then cores; the newest core is not needed."""
    world = a_world(_TEN, _atom(7, 60, 100, 160))
    for number, name in enumerate(("first", "second", "third")):
        world.submit(an_application(name, 2, 0), number)
        world.tick(number)
    world.submit(an_application("fourth", 1, 3), 3)
    world.tick(3)
    assert [world.held(name) for name in ("first", "fourth")] == [[2], [1, 3]]
    world.submit(an_application("owner", 7, 0, reservation="r1"), 4)
    cycle = world.tick(95)
    assert sorted(cycle.requeued) == ["second", "third"]
    assert world.held("fourth") == [1, 0]
    assert world.held("first") == [2]
    assert world.table.get("third").submitted_ms == 2000  # type: ignore[union-attr]
    assert cycle.lost_ms > 0
    world.tick(100)
    assert world.held("owner") == [7]


def test_a_safe_one_is_stopped_last() -> None:
    """The newest is expected to end in time, so the one before it goes in its place."""
    world = a_world(_TEN, _atom(5, 60, 100, 160))
    world.submit(an_application("old", 5, 0), 0)
    world.tick(0)
    world.submit(an_application("safe", 5, 0, size_ms=90_000), 1)
    world.tick(1)
    world.submit(an_application("owner", 5, 0, reservation="r1"), 2)
    cycle = world.tick(95)
    assert cycle.requeued == ("old",)


def test_stops_begin_a_grace_before_an_entitlement_grows() -> None:
    """At 94 s all stands, at 95 s the capacity is made, at 100 s the owner starts on time."""
    world = a_world(_TEN, _atom(10, 60, 100, 160), options=DispatchOptions(line=_NOT_LATER))
    world.submit(an_application("guest", 4, 6), 0)
    world.submit(an_application("owner", 10, 0, reservation="r1"), 0)
    world.tick(0)
    assert world.tick(94).deltas == ()
    assert {delta.op for delta in world.tick(95).deltas} == {Op.STOP}
    assert world.held("owner") == [0]
    world.tick(100)
    assert world.held("owner") == [10]


_NOT_LATER = LineOptions(later=False)


def test_work_of_a_later_reservation_is_anticipated_and_then_covered() -> None:
    """It starts when there is capacity, in front of its time, and is never stopped in between."""
    world = a_world(_TEN, _atom(6, 60, 100, 160))
    world.submit(an_application("early", 2, 4, reservation="r1"), 0)
    world.tick(0)
    assert world.held("early") == [2, 4]
    for at_s in (94, 95, 99, 100):
        assert world.tick(at_s).deltas == ()
    assert len(world.covered()) == 6


def test_what_is_ahead_of_its_cover_takes_its_own_capacity_in_one_tick() -> None:
    """In the grace before its time: core and elastic component start together, then nothing."""
    world = a_world(_TEN, _atom(2, 5, 115, 120))
    for number in range(7):
        world.submit(an_application(f"e{number}", 1, 0), number)
    world.submit(an_application("early", 1, 1, reservation="r1"), 7)
    world.tick(112)
    assert world.held("early") == [1, 1]
    assert world.tick(112).deltas == ()


def test_anticipated_work_waits_for_its_predecessors() -> None:
    """Stage two is submitted with stage one and starts once that has ended."""
    text = f"order({_atom(2, 60, 100, 160)}, {_atom(2, 60, 160, 220)})"
    world = a_world(_TEN, text)
    after = predecessors_of(read_source(text), "1.0")
    stages = (("one", "0.0", ()), ("two", "1.0", after))
    for name, atom, before in stages:
        application = an_application(name, 2, 0, reservation="r1", atom=atom)
        world.submit(application, 0, after=before)
    world.tick(0)
    assert (world.held("one"), world.held("two")) == ([2], [0])
    world.table.finish("one", 5_000)
    world.tick(5)
    assert world.held("two") == [2]


@pytest.mark.parametrize("switch", ["best_effort", "above", "later"])
def test_every_kind_of_uncovered_work_can_be_switched_off(switch: str) -> None:
    """The kind that is off holds nothing, the other two run."""
    options = DispatchOptions(line=LineOptions(**{switch: False}))
    world = a_world(_TEN, _atom(2, 60, 0, 60), _atom(2, 60, 100, 160), options=options)
    world.submit(an_application("best_effort", 1, 1), 0)
    world.submit(an_application("above", 3, 0, reservation="r1"), 0)
    world.submit(an_application("later", 1, 1, reservation="r2"), 0)
    world.tick(0)
    running = {one.id for one in world.table if one.holds}
    assert running == {"best_effort", "above", "later"} - {switch}


def test_an_atom_named_draws_on_that_atom_alone() -> None:
    """Two of one and four of the other: an execution of three on the first is not covered."""
    text = f"all({_atom(2, 60, 0, 60)}, {_atom(4, 60, 0, 60)})"
    world = a_world(_TEN, text)
    world.submit(an_application("small", 3, 0, reservation="r1", atom="0.0"), 0)
    world.submit(an_application("large", 3, 0, reservation="r1", atom="1.0"), 0)
    world.tick(0)
    assert {key[0] for key in world.covered()} == {"large"}


def test_cores_wait_for_one_another_and_elastic_ones_give_way_on_the_right_machine() -> None:
    """Two machines of two; a core of two needs one whole: the elastic ones on it leave."""
    cluster = a_cluster().machines("pair", 2, cpu=2).build()
    world = a_world(cluster, options=DispatchOptions("spread"))
    world.submit(an_application("low", 1, 3), 0)
    world.tick(0)
    world.submit(an_application("wide", 1, 0, cpu=2), 1)
    world.tick(1)
    assert world.held("wide") == [0]  # saturated: those in service could use all there is
    world.table.finish("low", 2_000)
    world.submit(an_application("next", 1, 1), 2)
    world.tick(2)
    assert (world.held("wide"), world.held("next")) == ([1], [1, 1])


def test_covered_work_clears_the_machine_it_needs() -> None:
    """The only machine with the label is full of best effort: the newest there leaves it."""
    cluster = a_cluster().machines("a", 3, cpu=2).machines("g", 1, labels=("gpu",), cpu=2).build()
    text = 'window(atom(<1 cpu>, 2, 2, 60, 120, on="gpu"), 100, 160)'
    world = a_world(cluster, text, options=DispatchOptions("spread"))
    for number in range(4):
        world.submit(an_application(f"guest{number}", 2, 0), number)
        world.tick(number)
    owner = an_application("owner", 2, 0, reservation="r1", labels=("gpu",))
    world.submit(owner, 50)
    world.tick(95)
    world.tick(100)
    rows = [row for row in world.table.assignment().rows if row.execution == "owner"]
    assert {row.machine for row in rows} == {"g-0"}
    assert all(row.covered for row in rows)


@settings(max_examples=40)
@given(st.data())
def test_promises_are_kept_at_every_tick_where_pieces_fit_anywhere(data: st.DataObject) -> None:
    """On machines and components of one core no reservation is below its entitlement, ever.

    Executions come at any time, end at any time, and the Plan changes under them.
    """
    plan = a_plan(_TEN).build()
    world, book = World(_TEN, plan), PromiseLedger()
    end_s = 90
    for at_s in range(end_s):
        action = data.draw(st.sampled_from(["", "", "ask", "submit", "submit", "end", "cancel"]))
        alive = [one.id for one in plan.reservations()]
        if action == "ask":
            height, lease = data.draw(st.integers(1, 6)), data.draw(st.sampled_from([5, 10]))
            text = f"window(atom(<1 cpu>, 1, {height}, {lease}, {height * lease}), {at_s}, 100)"
            ask(plan, a_request(f"r{at_s}", text).on(_TEN))
        elif action == "submit":
            name = data.draw(st.sampled_from([None, *alive]))
            core, elastic = data.draw(st.integers(1, 4)), data.draw(st.integers(0, 6))
            world.submit(an_application(f"e{at_s}", core, elastic, reservation=name), at_s)
        elif action == "end":
            running = [e.id for e in world.table if e.state is ExecutionState.RUNNING]
            if running:
                world.table.finish(data.draw(st.sampled_from(running)), at_s * 1000)
        elif action == "cancel" and alive:
            commit(plan, Cancel(data.draw(st.sampled_from(alive))))
        assert not world.tick(at_s).below
        directive = world.directive
        book.observe(directive.at_ms, shortfall(directive, world.table).reservations)
    book.end(end_s * 1000)
    assert not any(book.below_ms(f"r{at_s}") for at_s in range(end_s))


def test_what_can_never_run_is_rejected_with_its_reason() -> None:
    """Too large for any machine, for all machines together, a label no one has, a resource too."""
    world = a_world(_TEN)
    cases = {
        "no machine is that large": an_application("a", 1, cpu=2),
        "all machines together hold 10 of 11": an_application("b", 11),
        "labelled fast, and there are none": an_application("c", labels=("fast",)),
    }
    for reason, application in cases.items():
        execution = world.submit(application)
        assert execution.state is ExecutionState.REJECTED
        assert reason in execution.reason
    world.tick(0)
    assert not any(execution.holds for execution in world.table)


def test_what_waits_says_what_for() -> None:
    """In the line, for atoms before its own, or for capacity on machines of its label."""
    cluster = a_cluster().machines("a", 3, cpu=2).machines("g", 1, labels=("gpu",), cpu=2).build()
    world = a_world(cluster, options=DispatchOptions("greedy"))
    world.submit(an_application("one", 1, 0, labels=("gpu",)), 0)
    world.submit(an_application("two", 1, 0, cpu=2, labels=("gpu",)), 1)
    world.submit(an_application("wide", 6, 0), 2)
    world.tick(2)
    reasons = {one.id: one.reason for one in world.table}
    assert reasons == {
        "one": "",
        "two": "no machine labelled gpu has capacity for 'm': 2 cpu",
        "wide": "it waits in the line for capacity",
    }
    world.table.finish("one", 3_000)
    world.tick(3)
    assert world.state("two") is ExecutionState.RUNNING
    assert world.table.get("two").reason == ""  # type: ignore[union-attr]
