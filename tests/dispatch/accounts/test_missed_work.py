"""Time of a reservation that passed without its work is found, taken out of the past, and owed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dispatch.accounts.missed_work import HeldStretch, LeaseBook, MissedWork
from dispatch.accounts.promises import Outcome, outcome_of
from dispatch.backends.in_memory import InMemoryBackend
from dispatch.cycle.dispatcher import Dispatcher
from dispatch.executions.events import BackendEvent, EventKind
from dispatch.loop import DispatchLoop
from planner.cluster.cluster import Outage
from planner.plan.records.changes import Advance, Close, Degrade, Reconfigure
from planner.promise import PromiseLevel
from planner.reservations.state import State
from planner.validation.validate import validate
from tests.builders import a_cluster, a_plan, a_request, commit
from tests.dispatch.cycle.world import World, an_application
from tests.planner.adaptation.events import adapt_now
from tests.planner.plan.plan_json import plan_json

#: Two cores for 20 s, somewhere in the first hundred.
_GANG = "window(atom(<1 cpu>, 2, 2, 20, 40), 0, 100)"


class _Observation:
    """A world whose dispatcher may be away for a while, and what it finds missed."""

    def __init__(self, text: str = _GANG, *, placed: bool = False) -> None:
        level = PromiseLevel.PLACED if placed else PromiseLevel.POOLED
        cluster = a_cluster().horizon(200).machines("m", 4, cpu=1).build()
        cluster = replace(cluster, promise=level)
        request = a_request("r", text).on(cluster)
        plan = a_plan(cluster).placed_by("earliest").holding(request).build()
        self.world, self.missed = World(cluster, plan), MissedWork()

    @property
    def rows(self) -> dict[str, list[list[int]]]:
        found = self.world.plan.reservation("r")
        assert found is not None
        return {atom.path: atom.rows.tolist() for atom in found.atoms}

    @property
    def words(self) -> list[str]:
        found = self.world.plan.reservation("r")
        assert found is not None
        return [entry.what for entry in found.history]

    def join(self, name: str = "a", core: int = 2, at_s: int = 0, **more: Any) -> None:
        self.world.submit(an_application(name, core, reservation="r", **more), at_s)

    def at(self, at_s: int) -> list[Degrade]:
        """Tick at an instant, commit what was missed by then, and let the Plan adapt to that."""
        self._move_to(at_s)
        self.world.tick(at_s)
        self.missed.observe(self.world.table, at_s * 1000)
        due = self.judge(at_s)
        if due:
            adapt_now(self.world.plan)
            assert validate(plan_json(self.world.plan), cluster=self.world.cluster) == []
        return due

    def judge(self, at_s: int) -> list[Degrade]:
        """Commit what was missed by an instant; nothing is dispatched."""
        self._move_to(at_s)
        due = self.missed.due(self.world.plan, self.world.table, at_s * 1000)
        for change in due:
            assert not commit(self.world.plan, change).conflicts
        assert validate(plan_json(self.world.plan), cluster=self.world.cluster) == []
        return due

    def unused(self, at_s: int) -> list[str]:
        """Tick at an instant, commit what passed unused by then, and return why it did."""
        self.at(at_s)
        found = self.missed.unused(self.world.plan, self.world.table)
        for note in found:
            assert not commit(self.world.plan, note, at_ms=at_s * 1000).conflicts
        return [note.reason for note in found]

    def fill(self) -> None:
        """Let best effort take all machines."""
        self.world.submit(an_application("fill", 4))
        self.at(0)

    def _move_to(self, at_s: int) -> None:
        if at_s > self.world.plan.now:
            commit(self.world.plan, Advance(at_s))


@pytest.mark.parametrize("placed", [False, True])
def test_a_slot_that_passed_without_its_work_is_planned_again(placed: bool) -> None:
    """No server led for its twenty seconds: it stands elsewhere in the window, whole."""
    seen = _Observation(placed=placed)
    seen.join()
    assert seen.rows == {"0": [[0, 20, 2]]}
    seen.at(30)
    ((start, end, bundles),) = seen.rows["0"]
    assert (end - start, bundles) == (20, 2)
    assert start >= 30
    assert end <= 100
    assert seen.words[-2:] == ["missed", "restored"]
    assert seen.at(31) == []


def test_work_that_is_done_although_time_was_missed_completes_its_reservation() -> None:
    """The promise was not kept all the same, and nothing is owed from then on."""
    seen = _Observation(placed=True)
    seen.join()
    seen.judge(8)
    plan = seen.world.plan
    assert plan.table.state(0) is State.DEGRADED
    commit(plan, Close("r"))
    found = plan.reservation("r")

    assert found is not None
    assert (found.state, seen.words[-1]) == (State.COMPLETED, "closed")
    assert found.degradation is not None
    assert "not run from the origin" in found.degradation.reason
    assert outcome_of(found.state, found.history, 30_000, 20_000, 0) is Outcome.DEGRADED
    assert seen.at(30) == []
    assert plan.table.state(0) is State.COMPLETED


def test_what_its_window_holds_no_more_fails_with_the_reason() -> None:
    """Back after the deadline: nothing can be planned, and the owner is notified."""
    seen = _Observation("window(atom(<1 cpu>, 2, 2, 20, 40), 0, 20)")
    seen.join()
    (change,) = seen.at(25)
    assert "not run from the origin to 20s from the origin" in change.reason
    assert seen.world.plan.table.state(0) is State.FAILED


def test_a_slot_that_continues_is_given_up_for_a_whole_one_while_there_is_time() -> None:
    """No machines for 8 of 20 s: twenty whole seconds are held, at once where that is early."""
    seen = _Observation(placed=True)
    seen.join()
    seen.judge(8)
    assert seen.rows == {}
    assert seen.world.plan.table.state(0) is State.DEGRADED
    adapt_now(seen.world.plan)
    assert seen.rows == {"0": [[8, 28, 2]]}


def test_what_begins_late_in_a_slot_keeps_it_until_it_is_over() -> None:
    """It runs from 8 s on, under cover; at 20 s it has not ended, and has another slot at once."""
    seen = _Observation(placed=True)
    seen.join()
    seen.at(8)
    assert seen.at(19) == []
    assert seen.world.covered() == {("a", "m", 0), ("a", "m", 1)}
    (change,) = seen.at(20)
    assert "not run from the origin to 8s from the origin" in change.reason
    assert seen.rows == {"0": [[20, 40, 2]]}


def test_a_slot_that_continues_is_kept_where_its_window_holds_no_other() -> None:
    """Of 25 s 17 are left: it is all that its work can have; that it was missed is told after."""
    seen = _Observation("window(atom(<1 cpu>, 2, 2, 20, 40), 0, 25)")
    seen.join()
    seen.judge(8)
    assert seen.rows == {"0": [[0, 20, 2]]}
    seen.judge(20)
    adapt_now(seen.world.plan)
    assert seen.world.plan.table.state(0) is State.FAILED


class _LateNews(InMemoryBackend):
    """Tells nothing until its news may go: an engine that did not answer for a while."""

    silent = True

    def events(self, until_ms: int) -> tuple[BackendEvent, ...]:
        """See `Backend.events`."""
        return () if self.silent else super().events(until_ms)


def test_work_of_which_no_one_heard_ran_from_when_it_began() -> None:
    """It began with its slot and is heard of ten seconds later: it has missed nothing."""
    seen = _Observation(placed=True)
    seen.world.backend = backend = _LateNews(seen.world.pool.names)
    seen.world.loop = DispatchLoop(seen.world.table, Dispatcher(), backend)
    seen.join()
    seen.at(0)
    backend.silent = False
    assert seen.at(10) == []
    assert seen.at(25) == []


@pytest.mark.parametrize(("lost_s", "owed"), [(5, True), (21, False)])
def test_work_that_is_found_lost_later_ran_until_it_was_lost(lost_s: int, owed: bool) -> None:
    """Heard of at 22 s: what was lost in its slot is owed that; after it, it had its time."""
    seen = _Observation(placed=True)
    seen.join()
    for at_s in (0, 10, 19, 21):
        assert seen.at(at_s) == []
    execution = seen.world.table.get("a")
    assert execution is not None
    seen.world.table.requeue(execution, lost_s * 1000, "nothing of it was left")
    assert bool(seen.at(22)) is owed


def test_a_lease_that_lost_its_machine_is_owed_whole() -> None:
    """All machines go after three of twenty seconds, and come back: the gang has a whole lease."""
    seen = _Observation(placed=True)
    seen.join()
    for at_s in (0, 1, 2, 3):
        assert seen.at(at_s) == []
    plan = seen.world.plan
    gone = Outage("m", (0, 1, 2, 3), 3_000, 12_000, "loss")
    commit(plan, Reconfigure(replace(plan.cluster, outages=(gone,))))
    adapt_now(plan)
    seen.at(4)
    seen.at(12)
    (row,) = seen.rows["0"]
    assert row[1] - row[0] == 20
    assert row[0] >= 12
    assert seen.words[-2:] == ["missed", "restored"]


@pytest.mark.parametrize(
    ("voids_s", "owed"),
    [((), False), ((0,), True), ((9, 17), True), ((17, 9), True), ((17,), False)],
)
def test_a_run_that_was_stopped_had_as_much_of_its_slot_as_the_least_of_its_cores(
    voids_s: tuple[int, ...], owed: bool
) -> None:
    """It was said to run through it; its machines may not have answered, or never begun it."""
    seen = _Observation(placed=True)
    seen.join()
    for at_s in (0, 10, 19):
        assert seen.at(at_s) == []
    table = seen.world.table
    execution = table.get("a")
    assert execution is not None
    machine = execution.parts[0].held[0].machine
    table.requeue(execution, 20_000, "its capacity is wanted")
    for part in execution.parts:
        for held in list(part.held):
            table.drop(execution, part, held)
    for at_s in voids_s:
        table.take(BackendEvent(EventKind.VOID, 1000 * at_s + 1, machine, "a", "m", 0, "silent"))
    table.requeue(execution, 21_000, "it waits")  # another start that was put off
    assert bool(seen.at(22)) is owed


def test_leases_are_remembered_for_reservations_that_are_worked_for_alone() -> None:
    """Those of what no one works for any more are forgotten."""
    seen, book = _Observation(), LeaseBook()
    stretch = HeldStretch("0", 0, 3, 0, 3_000)
    assert book.is_broken(seen.world.plan, 0, stretch)
    book.keep({"r"})
    assert set(book._known) == {"r"}
    book.keep({"other"})
    assert not book._known


def test_whole_leases_are_taken_out_of_a_slot_of_many() -> None:
    """Eight seconds late in forty, leases of five: two of them are owed, the others stay."""
    seen = _Observation("window(atom(<1 cpu>, 1, 1, 5, 40), 0, 100)")
    seen.join(core=1)
    seen.judge(8)
    assert seen.rows == {"0": [[10, 40, 1]]}


def test_what_is_starting_does_not_run() -> None:
    """Its machines are there, and it never began: when its slot is over it is owed all of it."""
    seen = _Observation()
    names = seen.world.pool.names
    seen.world.backend = InMemoryBackend(names, start_delay_ms=lambda _: 60_000)
    seen.world.restart()
    seen.join()
    assert seen.at(0) == []
    assert seen.world.held("a") == [2]
    seen.at(20)
    assert seen.rows == {"0": [[20, 40, 2]]}


def test_a_start_that_is_a_little_late_is_no_miss() -> None:
    """Four seconds of twenty are within the grace of stops."""
    seen = _Observation()
    seen.join()
    assert seen.at(4) == []
    assert seen.at(30) == []


def test_what_ran_through_its_slot_is_owed_nothing_when_it_begins_again() -> None:
    """It asked for too little, ran on without cover, and lost its machine to others."""
    seen = _Observation()
    seen.join()
    for at_s in range(21):
        assert seen.at(at_s) == []
    execution = seen.world.table.get("a")
    assert execution is not None
    seen.world.table.requeue(execution, 25_000, "a test")
    assert seen.at(60) == []


def test_what_ran_on_while_no_server_led_was_not_missed() -> None:
    """A backend that remembers tells the next leader since when it runs."""
    seen = _Observation()
    seen.join()
    seen.at(0)
    seen.missed = MissedWork()
    seen.world.restart()
    assert seen.at(30) == []


def test_what_lost_its_machine_in_its_slot_is_owed_all_of_it() -> None:
    """It begins again, so that the ten seconds it ran are worth nothing."""
    seen = _Observation()
    seen.join()
    seen.at(0)
    seen.at(10)
    execution = seen.world.table.get("a")
    assert execution is not None
    seen.world.table.requeue(execution, 10_000, "a test")
    seen.at(30)
    assert seen.words[-2:] == ["missed", "restored"]


def test_a_stage_that_was_missed_moves_the_stages_after_it() -> None:
    """The order of the two holds where they stand now."""
    stage = "atom(<1 cpu>, 2, 2, 20, 40)"
    seen = _Observation(f"window(order({stage}, {stage}), 0, 100)")
    seen.join("a", atom="0.0")
    seen.join("b", atom="0.1")
    seen.at(20)
    (first,), (second,) = seen.rows["0.0"], seen.rows["0.1"]
    assert (first[0] >= 20, first[1] <= second[0], second[1] <= 100) == (True, True, True)


def _nothing_asked(_: _Observation) -> None:
    """Nobody has submitted work."""


def _too_large(seen: _Observation) -> None:
    seen.join(core=3)


def _too_late(seen: _Observation) -> None:
    seen.join(at_s=19)


def _shared_with_one_that_ended(seen: _Observation) -> None:
    seen.missed.ended_before = lambda: [("r", None)]
    seen.join()


def _closed(seen: _Observation) -> None:
    commit(seen.world.plan, Advance(3))
    commit(seen.world.plan, Close("r"))
    seen.join()


@pytest.mark.parametrize(
    "given", [_nothing_asked, _too_large, _too_late, _shared_with_one_that_ended, _closed]
)
def test_what_its_owner_left_unused_is_not_owed(given: Any) -> None:
    """Work that is not there, comes late, does not fit, has been done or is given up."""
    seen = _Observation()
    given(seen)
    assert seen.at(30) == []


def test_runs_of_a_recurrence_are_not_made_up() -> None:
    """Each has a time of its own."""
    seen = _Observation("every(50s, window(atom(<1 cpu>, 2, 2, 20, 40), 0, 50), times=3)")
    seen.join()
    assert seen.at(30) == []


def test_a_change_that_the_plan_did_not_take_is_requested_again_after_a_while() -> None:
    """Not at every tick."""
    seen = _Observation()
    seen.join()
    commit(seen.world.plan, Advance(30))
    table, plan = seen.world.table, seen.world.plan
    found = [len(seen.missed.due(plan, table, at_s * 1000)) for at_s in (30, 31, 39, 40)]
    assert found == [1, 0, 0, 1]


def test_what_started_under_a_new_leader_did_not_run_before() -> None:
    """It had its machines from the start of its slot, and started twelve seconds into it."""
    seen = _Observation(placed=True)
    names = seen.world.pool.names
    seen.world.backend = InMemoryBackend(names, start_delay_ms=lambda _: 12_000)
    seen.world.restart()
    seen.join()
    seen.world.tick(0)  # by the leader before, whose account is gone
    assert seen.world.held("a") == [2]
    for at_s in (9, 12, 19):
        assert seen.at(at_s) == []
    assert seen.at(20) != []


@pytest.mark.parametrize("placed", [False, True])
def test_what_passes_unused_while_its_application_waits_is_reported_once(placed: bool) -> None:
    """Three cores are not covered by two bundles: told when the stretch is over, and why."""
    seen = _Observation(placed=placed)
    seen.fill()
    seen.join(core=3)
    assert seen.unused(19) == []
    (why,) = seen.unused(21)
    assert "'a' waited" in why
    assert "2 of 3" in why
    assert seen.words == ["admitted", "unused"]
    seen.missed = MissedWork()  # of another leader, which reads the history
    assert seen.unused(40) == []


def _ran(seen: _Observation) -> None:
    seen.join()
    seen.at(1)


def _ended_in_it(seen: _Observation) -> None:
    seen.join("early")
    seen.at(1)
    seen.at(5)
    seen.world.table.finish("early", 6000)
    seen.join("a", core=3, at_s=6)


@pytest.mark.parametrize("given", [_nothing_asked, _ran, _too_late, _ended_in_it])
def test_what_was_used_or_no_one_waited_for_is_not_unused(given: Any) -> None:
    """Work that is not there, ran in it, came at its very end, or ran before another came."""
    seen = _Observation()
    seen.fill()
    given(seen)
    assert seen.unused(30) == []


def test_each_occurrence_that_passes_unused_is_reported() -> None:
    """An application that waits for a recurrence learns of every run that it misses."""
    seen = _Observation("every(50s, window(atom(<1 cpu>, 2, 2, 20, 40), 0, 50), times=3)")
    seen.fill()
    seen.join(core=3)
    found = [len(seen.unused(at_s)) for at_s in (10, 25, 30, 60, 75, 80)]
    assert found == [0, 1, 0, 0, 1, 0]


@pytest.mark.parametrize(("end", "is_moved"), [(100, True), (44, False)])
def test_a_stage_whose_needs_are_late_is_moved_where_its_window_has_time(
    end: int, is_moved: bool
) -> None:
    """Else it uses what is left of its slot, and goes on after it."""
    text = "atom(<1 cpu>, 1, 1, 20, 20)"
    seen = _Observation(f"window(order({text}, {text}), 0, {end})")
    seen.join("a", 1, atom="0.0")
    seen.world.submit(an_application("b", 1, reservation="r", atom="0.1"), needs=("a",))
    for at_s in range(31):
        seen.at(at_s)
    (start, _, _), *_ = seen.rows["0.1"]
    assert ("missed" in seen.words, start > 20) == (is_moved, is_moved)
    seen.world.backend.end(("a", "m", 0), 31_000)
    for at_s in range(31, 60):
        seen.at(at_s)
    assert seen.world.state("b").value == "running"
