"""What executors report and are told, on the database: no start is lost, and none is made twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from dispatch.backends.run_records import (
    ExecutorState,
    ExecutorTakenError,
    RunReport,
    RunRow,
    RunState,
    UnknownExecutorError,
)
from service.store import ApplicationRow, LeadershipLostError, Store
from service.store.runs import RunRows

A = RunState.ASSIGNED
R = RunState.RUNNING

#: Tenures: of the leader, and one that was never begun.
ME, OTHER = 1, 2


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return a database with one live executor of two machines, and a leader."""
    store = Store(f"sqlite:///{tmp_path / 'agenda.db'}")
    assert store.applications.lead("me", 0, 10**12) == ME
    store.runs.register("one", "i", ["m-0", "m-1"], 0)
    return store


@pytest.fixture
def rows(store: Store) -> RunRows:
    """Return its tables of executors and runs."""
    return store.runs


def run(id_: str, machine: str = "m-0", execution: str = "x", number: int = 0) -> RunRow:
    """Return a run that is to start."""
    return RunRow(id_, execution, "w", number, machine, True, b"{}", 5)


def wanted(rows: RunRows, *reports: RunReport) -> list[str]:
    """Report, and return what is to run."""
    return [one.id for one in rows.sync("one", "i", reports, 100).wanted]


def state_of(rows: RunRows, id_: str) -> RunState:
    """Return where a run stands."""
    return next(one.state for one in rows.of_execution("x") if one.id == id_)


def test_a_run_is_reported_until_it_is_reported_as_ended(rows: RunRows) -> None:
    """Whatever message is lost, the next one says it again."""
    rows.change(ME, [run("a")], [])
    assert wanted(rows) == ["a"]
    assert wanted(rows) == ["a"]
    assert wanted(rows, RunReport("a", R)) == ["a"]
    answer = rows.sync("one", "i", [RunReport("a", RunState.EXITED, 0)], 100)

    assert (answer.wanted, answer.settled) == ((), ("a",))
    assert state_of(rows, "a") is RunState.EXITED


def test_an_end_is_settled_however_often_it_is_reported(rows: RunRows) -> None:
    """The first report counts; a run that no one knows is settled too."""
    rows.change(ME, [run("a")], [])
    wanted(rows, RunReport("a", RunState.EXITED, 0))
    answer = rows.sync("one", "i", [RunReport("a", RunState.FAILED, 3), RunReport("stray", R)], 200)

    assert set(answer.settled) == {"a", "stray"}
    assert state_of(rows, "a") is RunState.EXITED


def test_a_run_that_is_not_wanted_and_was_never_begun_is_stopped(rows: RunRows) -> None:
    """An executor reports all that it has begun: what it does not name it will never start."""
    rows.change(ME, [run("a")], [])
    rows.change(ME, [], ["a"])

    assert wanted(rows) == []
    assert state_of(rows, "a") is RunState.STOPPED


def test_a_run_that_its_executor_has_forgotten_has_failed(rows: RunRows) -> None:
    """It ran by its own report, and then was not reported."""
    rows.change(ME, [run("a")], [])
    wanted(rows, RunReport("a", R))

    assert wanted(rows) == []
    assert state_of(rows, "a") is RunState.FAILED


def test_a_report_that_comes_late_ends_nothing(rows: RunRows) -> None:
    """One that was sent before the newest answer knows nothing of what was begun since."""
    first = rows.register("one", "i", ["m-0", "m-1"], 10).number
    told = rows.sync("one", "i", [], 20, after=first).number
    rows.change(ME, [run("a")], [])
    rows.sync("one", "i", [RunReport("a", R)], 30, after=told)

    with pytest.raises(UnknownExecutorError, match="this report follows answer 1 to 'one'"):
        rows.sync("one", "i", [], 40, after=first)
    assert state_of(rows, "a") is R
    again = rows.register("one", "i", ["m-0", "m-1"], 50).number
    assert rows.sync("one", "i", [RunReport("a", R)], 60, after=again).number == again + 1


def test_nothing_starts_on_a_machine_before_what_leaves_it_has_left(rows: RunRows) -> None:
    """A start on the other machine does not wait."""
    rows.change(ME, [run("a")], [])
    wanted(rows, RunReport("a", R))
    rows.change(ME, [run("b", execution="y"), run("c", "m-1", "z")], ["a"])

    assert wanted(rows, RunReport("a", R)) == ["c"]
    assert wanted(rows, RunReport("a", RunState.STOPPED), RunReport("c", R)) == ["b", "c"]


def test_work_that_ended_as_it_was_to_be_stopped_is_not_done_again(rows: RunRows) -> None:
    """Of all core components: the next runs wait until all have ended, then count as ended too."""
    rows.change(ME, [run("a"), run("b", "m-1", number=1)], [])
    wanted(rows, RunReport("a", R), RunReport("b", R))
    rows.change(ME, [run("c", "m-1"), run("d", number=1)], ["a", "b"])
    exited = RunState.EXITED
    assert wanted(rows, RunReport("a", exited, 0), RunReport("b", R)) == []
    assert state_of(rows, "c") is A

    assert wanted(rows, RunReport("b", exited, 0)) == []
    told = {one.id: one for one in rows.news()}
    assert [(told[name].state, told[name].code) for name in "cd"] == [(exited, 0)] * 2
    assert {told[name].started_ms for name in "cd"} == {100}


def test_where_one_core_was_stopped_all_begin_again(rows: RunRows) -> None:
    """One that had ended too: a gang is not begun with half of its components."""
    rows.change(ME, [run("a"), run("b", "m-1", number=1)], [])
    wanted(rows, RunReport("a", RunState.EXITED, 0), RunReport("b", R))
    rows.change(ME, [run("c", "m-1"), run("d", number=1)], ["a", "b"])

    assert wanted(rows, RunReport("b", R)) == []
    assert wanted(rows, RunReport("b", RunState.STOPPED)) == ["c", "d"]


def test_the_last_run_of_each_core_says_whether_it_is_done(rows: RunRows) -> None:
    """Ends of two beginnings do not add up to one."""
    ends = {
        "a": RunState.EXITED,
        "b": RunState.STOPPED,
        "c": RunState.STOPPED,
        "d": RunState.EXITED,
    }
    for at_ms, pair in ((5, "ab"), (50, "cd")):
        first, second = run(pair[0]), run(pair[1], "m-1", number=1)
        begun = [replace(first, since_ms=at_ms), replace(second, since_ms=at_ms)]
        rows.change(ME, begun, [])
        wanted(rows, *(RunReport(id_, R) for id_ in pair))
        rows.change(ME, [], list(pair))
        wanted(rows, *(RunReport(id_, ends[id_]) for id_ in pair))
    last = [replace(run("e"), since_ms=90), replace(run("f", "m-1", number=1), since_ms=90)]
    rows.change(ME, last, [])

    assert wanted(rows) == ["e", "f"]


@pytest.mark.parametrize("how", [RunState.FAILED, RunState.LOST])
def test_work_is_not_done_again_after_a_restart_either(rows: RunRows, how: RunState) -> None:
    """The run that failed or was lost before says nothing of the one that did the work."""
    rows.change(ME, [run("a")], [])
    wanted(rows, RunReport("a", R))
    wanted(rows, RunReport("a", how, 1))
    rows.change(ME, [replace(run("b"), since_ms=10)], [])
    wanted(rows, RunReport("b", R))
    rows.change(ME, [replace(run("c", "m-1"), since_ms=20)], ["b"])

    assert wanted(rows, RunReport("b", RunState.EXITED, 0)) == []
    assert state_of(rows, "c") is RunState.EXITED


def test_a_start_that_never_began_hides_no_work(rows: RunRows) -> None:
    """Its executor was silent while it was decided upon and taken back."""
    rows.change(ME, [run("a")], [])
    wanted(rows, RunReport("a", R))
    rows.change(ME, [replace(run("b", "m-1"), since_ms=10)], ["a"])
    rows.change(ME, [], ["b"])
    assert wanted(rows, RunReport("a", RunState.EXITED, 0)) == []
    rows.change(ME, [replace(run("c"), since_ms=20)], [])

    assert wanted(rows) == []
    assert state_of(rows, "c") is RunState.EXITED


def test_a_lost_start_that_never_began_hides_no_work(rows: RunRows) -> None:
    """It waited for the run before when its executor fell silent."""
    rows.register("two", "j", ["n-0"], 0)
    rows.change(ME, [run("a")], [])
    wanted(rows, RunReport("a", R))
    rows.change(ME, [replace(run("b", "n-0"), since_ms=10)], ["a"])
    assert rows.sync("two", "j", [], 90).wanted == ()
    assert rows.lose(ME, next(one for one in rows.executors() if one.id == "two"), 95)
    wanted(rows, RunReport("a", RunState.EXITED, 0))
    rows.change(ME, [replace(run("c"), since_ms=20)], [])

    assert wanted(rows) == []


def test_a_core_that_begins_again_and_ends_at_once_ends_no_other(rows: RunRows) -> None:
    """Its end and that of the other's run before do not add up to one beginning."""
    rows.register("two", "j", ["n-0"], 0)
    rows.change(ME, [run("a"), run("b", "n-0", number=1)], [])
    wanted(rows, RunReport("a", R))
    rows.sync("two", "j", [RunReport("b", R)], 10)
    again = [replace(run("c"), since_ms=20), replace(run("d", "n-0", number=1), since_ms=20)]
    rows.change(ME, again, ["a", "b"])
    rows.sync("two", "j", [RunReport("b", RunState.EXITED, 0)], 30)
    assert wanted(rows, RunReport("a", RunState.STOPPED)) == ["c"]
    wanted(rows, RunReport("c", RunState.EXITED, 0))

    assert [one.id for one in rows.sync("two", "j", [], 40).wanted] == ["d"]


def test_a_gang_that_begins_again_by_and_by_is_not_done_with_its_first_part(rows: RunRows) -> None:
    """One core has run and exited before another is started: the other runs too."""
    rows.change(ME, [run("a"), run("b", "m-1", number=1)], [])
    wanted(rows, RunReport("a", R), RunReport("b", R))
    rows.change(ME, [], ["a", "b"])
    wanted(rows, RunReport("a", RunState.STOPPED), RunReport("b", RunState.EXITED, 0))
    rows.change(ME, [replace(run("c"), since_ms=20)], [])
    assert wanted(rows) == ["c"]
    wanted(rows, RunReport("c", R))
    rows.change(ME, [replace(run("d", "m-1", number=1), since_ms=30)], [])

    assert wanted(rows, RunReport("c", RunState.EXITED, 0)) == ["d"]


def test_a_beginning_of_which_one_core_never_began_has_done_nothing(rows: RunRows) -> None:
    """The end of the other one and that of a run before do not add up to one."""
    rows.register("two", "j", ["n-0"], 0)
    rows.change(ME, [run("a"), run("b", "m-1", number=1)], [])
    wanted(rows, RunReport("a", R), RunReport("b", R))
    second = [replace(run("c", "n-0"), since_ms=20), replace(run("d", number=1), since_ms=20)]
    rows.change(ME, second, ["a", "b"])
    assert wanted(rows, RunReport("a", RunState.EXITED, 0), RunReport("b", RunState.LOST)) == ["d"]
    assert rows.lose(ME, next(one for one in rows.executors() if one.id == "two"), 60)
    rows.change(ME, [], ["d"])
    wanted(rows, RunReport("d", RunState.EXITED, 0))
    third = [replace(run("e"), since_ms=70), replace(run("f", "m-1", number=1), since_ms=70)]
    rows.change(ME, third, [])

    assert wanted(rows) == ["e", "f"]


def test_two_beginnings_at_one_instant_have_done_nothing(rows: RunRows) -> None:
    """A clock was set back: no one can show which run was the last."""
    rows.change(ME, [run("a"), run("b", "m-1", number=1)], [])
    wanted(rows, RunReport("a", R), RunReport("b", R))
    rows.change(ME, [], ["a", "b"])
    wanted(rows, RunReport("a", RunState.EXITED, 0), RunReport("b", RunState.STOPPED))
    rows.change(ME, [run("0c"), run("d", "m-1", number=1)], [])
    wanted(rows, RunReport("d", R))
    rows.change(ME, [], ["0c", "d"])
    wanted(rows, RunReport("d", RunState.EXITED, 0))
    third = [replace(run("e"), since_ms=9), replace(run("f", "m-1", number=1), since_ms=9)]
    rows.change(ME, third, [])

    assert wanted(rows) == ["e", "f"]


def test_what_was_to_start_where_no_executor_is_any_more_is_lost(rows: RunRows) -> None:
    """It was started as its executor was removed; what begins again waits for it no longer."""
    rows.register("two", "j", ["n-0"], 0)
    rows.remove("two")
    rows.change(ME, [run("a", "n-0")], [])
    rows.change(ME, [run("b")], ["a"])
    assert wanted(rows) == []
    rows.lose_unserved(ME, ["n-0"], 50)

    assert state_of(rows, "a") is RunState.LOST
    assert wanted(rows) == ["b"]


def test_an_executor_that_is_back_loses_nothing(rows: RunRows) -> None:
    """It registered, and was told of the run, after the leader had seen its machine without one."""
    rows.change(ME, [run("a")], [])
    assert wanted(rows) == ["a"]
    rows.lose_unserved(ME, ["m-0"], 50)

    assert state_of(rows, "a") is A


def test_an_elastic_component_that_was_to_be_stopped_is_stopped_however_it_ended(
    rows: RunRows,
) -> None:
    """Others of its replicas may run in its place."""
    rows.change(ME, [replace(run("a"), core=False)], [])
    wanted(rows, RunReport("a", R))
    rows.change(ME, [replace(run("b", "m-1"), core=False)], ["a"])

    assert wanted(rows, RunReport("a", RunState.EXITED, 0)) == ["b"]
    assert state_of(rows, "a") is RunState.STOPPED


def test_a_component_does_not_start_before_its_last_run_has_ended(rows: RunRows) -> None:
    """Neither on another machine."""
    rows.change(ME, [run("a")], [])
    wanted(rows, RunReport("a", R))
    rows.change(ME, [run("b", "m-1")], ["a"])

    assert wanted(rows, RunReport("a", R)) == []
    assert wanted(rows, RunReport("a", RunState.STOPPED)) == ["b"]


def test_a_lost_executor_gets_nothing_until_the_leader_takes_it_back(rows: RunRows) -> None:
    """Its runs are lost; what it still runs is to be stopped."""
    rows.change(ME, [run("a")], [])
    wanted(rows, RunReport("a", R))
    (one,) = rows.executors()
    assert rows.lose(ME, one, 50)
    assert state_of(rows, "a") is RunState.LOST
    rows.change(ME, [run("b")], [])

    assert wanted(rows, RunReport("a", R)) == []
    assert rows.executors()[0].state is ExecutorState.BACK
    rows.welcome(ME, "one")
    assert wanted(rows, RunReport("a", RunState.STOPPED)) == ["b"]


def test_an_executor_that_has_just_reported_is_not_lost(rows: RunRows) -> None:
    """Who judges by an older look is notified."""
    (one,) = rows.executors()
    wanted(rows)

    assert not rows.lose(ME, one, 50)
    assert rows.executors()[0].state is ExecutorState.LIVE


def test_who_does_not_lead_changes_nothing(rows: RunRows) -> None:
    """Starts, losses and returns are the leader's."""
    (one,) = rows.executors()
    with pytest.raises(LeadershipLostError):
        rows.change(OTHER, [run("a")], [])
    with pytest.raises(LeadershipLostError):
        rows.lose(OTHER, one, 50)
    with pytest.raises(LeadershipLostError):
        rows.welcome(OTHER, "one")
    assert rows.of_execution("x") == []


def test_a_name_and_a_machine_belong_to_one_live_executor(rows: RunRows) -> None:
    """Another takes them when the first is lost."""
    with pytest.raises(ExecutorTakenError, match="another process reports as 'one'"):
        rows.register("one", "other", ["m-0"], 0)
    with pytest.raises(ExecutorTakenError, match="m-1 belongs to the executor 'one'"):
        rows.register("two", "j", ["m-1"], 0)
    (one,) = rows.executors()
    rows.lose(ME, one, 50)
    rows.register("two", "j", ["m-1"], 60)

    assert [(one.id, one.machines) for one in rows.executors()] == [
        ("one", ("m-0",)),
        ("two", ("m-1",)),
    ]


def test_a_machine_is_not_given_up_while_something_runs_there(rows: RunRows) -> None:
    """Else its work would be started elsewhere alongside it."""
    rows.change(ME, [run("a")], [])
    with pytest.raises(ExecutorTakenError, match="'one' still has runs on m-0"):
        rows.register("one", "i", ["m-1"], 10)
    wanted(rows, RunReport("a", RunState.EXITED, 0))

    assert not rows.register("one", "i", ["m-1"], 10).is_new
    assert rows.executors()[0].machines == ("m-1",)


def test_runs_of_applications_that_are_over_are_forgotten(store: Store) -> None:
    """Those that ended before an instant; the runs of what goes on stay."""
    for id_, over in (("x", True), ("y", False)):
        store.applications.add(ApplicationRow(id_, "t", 0, b"{}", over=over))
    rows = store.runs
    rows.change(ME, [run("a"), run("b", execution="y")], [])
    wanted(rows, RunReport("a", RunState.EXITED, 0), RunReport("b", RunState.EXITED, 0))
    rows.purge(100)
    assert len(rows.of_execution("x")) == 1
    rows.purge(101)

    assert (len(rows.of_execution("x")), len(rows.of_execution("y"))) == (0, 1)


def test_an_executor_registers_before_it_reports(rows: RunRows) -> None:
    """Neither a name nor an instance that is not known is shown anything."""
    for name, instance in (("two", "i"), ("one", "other")):
        with pytest.raises(UnknownExecutorError):
            rows.sync(name, instance, [], 100)


def test_an_executor_with_runs_is_not_forgotten(rows: RunRows) -> None:
    """Without any it is."""
    rows.change(ME, [run("a")], [])
    with pytest.raises(ExecutorTakenError, match="1 runs that have not ended"):
        rows.remove("one")
    wanted(rows, RunReport("a", RunState.EXITED, 0))

    assert rows.remove("one")
    assert not rows.remove("one")
