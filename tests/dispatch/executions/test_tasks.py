"""Tasks: each bundle runs one at a time, and an execution ends when every task has ended."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatch.backends.in_memory import InMemoryBackend
from dispatch.executions.states import ExecutionState
from dispatch.executions.tasks import TaskBook
from tests.builders import a_cluster
from tests.dispatch.cycle.world import World, a_world, an_application

_FOUR = a_cluster().machines("plain", 4, cpu=1).build()


def running(world: World, name: str = "job") -> dict[int, tuple[str, str, int]]:
    """Return the component that runs each task, by task."""
    execution = world.table.get(name)
    assert execution is not None
    found = [
        (held.task, (name, part.component.name, held.index))
        for part in execution.parts
        for held in part.held
        if not held.ended
    ]
    assert all(task is not None for task, _ in found)
    assert len({task for task, _ in found}) == len(found)
    return {task: key for task, key in found if task is not None}


def counts(world: World) -> dict[str, int]:
    """Return how many tasks are done, have failed and are left."""
    execution = world.table.get("job")
    assert execution is not None
    assert execution.tasks is not None
    return execution.tasks.to_json()


def test_each_component_runs_one_task_after_the_other() -> None:
    """On its machine; elastic ones leave when no task waits, and the last end ends the job."""
    world = a_world(_FOUR)
    world.submit(an_application("job", 1, 2, tasks=5))
    world.tick(1)
    assert sorted(running(world)) == [0, 1, 2]
    for task in (0, 1, 2):
        world.backend.end(running(world)[task], 2000)
    world.tick(2)
    assert sorted(running(world)) == [3, 4]
    assert counts(world) == {"count": 5, "done": 3, "failed": 0, "left": 2}
    for task in (3, 4):
        world.backend.end(running(world)[task], 3000)
    world.tick(3)
    assert world.state("job") is ExecutionState.COMPLETED


def test_a_task_that_fails_is_run_again_and_others_go_on() -> None:
    """After its pause, as often as there are retries; then the job fails when the rest is done."""
    world = a_world(_FOUR)
    job = world.submit(an_application("job", 2, tasks=3, retries=1, backoff_ms=3000))
    world.tick(1)
    world.backend.end(running(world)[1], 2000, failed=True)
    world.tick(2)
    assert sorted(running(world)) == [0, 2]
    assert job.state is ExecutionState.RUNNING
    world.backend.end(running(world)[2], 3000)
    world.tick(3)
    assert sorted(running(world)) == [0]
    world.tick(5)
    assert sorted(running(world)) == [0, 1]
    world.backend.end(running(world)[1], 6000, failed=True)
    world.tick(6)
    assert (job.state, counts(world)["failed"]) == (ExecutionState.RUNNING, 1)
    world.backend.end(running(world)[0], 7000)
    world.tick(7)
    assert (job.state, counts(world)) == (
        ExecutionState.FAILED,
        {"count": 3, "done": 2, "failed": 1, "left": 0},
    )
    assert job.reason.startswith("1 of 3 tasks failed; the last was task 1")


def test_a_lost_machine_costs_no_task_a_retry() -> None:
    """What ran there is run again, and what had been done is not."""
    world = a_world(_FOUR)
    world.submit(an_application("job", 1, 2, tasks=4))
    world.tick(1)
    world.backend.end(running(world)[0], 2000)
    world.tick(2)
    execution = world.table.get("job")
    assert execution is not None
    machine = next(held.machine for part in execution.parts for held in part.held if held.task == 1)
    world.backend.lose(machine, 3000)
    for at_s in range(3, 9):
        world.tick(at_s)
    assert sorted(running(world)) == [1, 2, 3]
    assert counts(world) == {"count": 4, "done": 1, "failed": 0, "left": 3}


def test_one_whose_tasks_had_all_ended_ends_without_a_run() -> None:
    """As after a leader that could not say so any more."""
    world = a_world(_FOUR)
    good = world.submit(an_application("good", 1, 1, tasks=2))
    bad = world.submit(an_application("bad", 1, 1, tasks=2))
    assert good.tasks is not None
    assert bad.tasks is not None
    good.tasks.restore([0, 1], [], [])
    bad.tasks.restore([0], [1], [])
    for at_s in range(1, 4):
        world.tick(at_s)
        assert world.backend.state().rows == ()
    assert (good.state, bad.state) == (ExecutionState.COMPLETED, ExecutionState.FAILED)
    assert bad.reason == "1 of 2 tasks failed"


def test_one_whose_last_task_ends_while_it_is_requeued_ends() -> None:
    """No event of a run is left to end it."""
    world = a_world(_FOUR)
    job = world.submit(an_application("job", 2, tasks=2))
    world.tick(1)
    world.backend.end(running(world)[0], 2000)
    world.tick(2)
    world.table.requeue(job, 3000, "a machine was lost")
    world.backend.end(running(world)[1], 3000)
    for at_s in range(3, 7):
        world.tick(at_s)
    assert (job.state, counts(world)["done"]) == (ExecutionState.COMPLETED, 2)


@given(st.data())
@settings(deadline=None)
def test_every_task_succeeds_once_or_has_used_its_retries(data: st.DataObject) -> None:
    """Whatever ends, fails and is lost meanwhile."""
    tasks, retries = data.draw(st.integers(1, 8)), data.draw(st.integers(0, 2))
    world = a_world(_FOUR)
    job = world.submit(
        an_application(
            "job",
            data.draw(st.integers(1, 2)),
            data.draw(st.integers(0, 2)),
            tasks=tasks,
            retries=retries,
            backoff_ms=1000,
        )
    )
    succeeded: list[int] = []
    failures: list[int] = []
    for at_s in range(1, 400):
        world.tick(at_s)
        if job.is_over:
            break
        for task, key in running(world).items():
            what = data.draw(st.sampled_from(["runs", "ends", "fails"]), label=f"task {task}")
            if what == "runs" and at_s < 60:
                continue
            fails = what == "fails"
            (failures if fails else succeeded).append(task)
            world.backend.end(key, at_s * 1000 + 500, failed=fails)
        backend = world.backend
        assert isinstance(backend, InMemoryBackend)
        if at_s < 20 and data.draw(st.booleans(), label="a machine is lost"):
            machine = data.draw(st.sampled_from(sorted(world.pool.names)))
            backend.lose(machine, at_s * 1000 + 700)
            backend.restore(machine, at_s * 1000 + 800)
    gone = {task for task in failures if failures.count(task) > retries}
    assert job.is_over
    assert sorted(succeeded) == sorted(set(range(tasks)) - gone)
    assert all(failures.count(task) <= retries + 1 for task in failures)
    expected = ExecutionState.FAILED if gone else ExecutionState.COMPLETED
    assert job.state is expected


@pytest.mark.parametrize("retries", [0, 2])
def test_a_new_leader_continues_with_what_is_left(retries: int) -> None:
    """Tasks that succeeded, that run, and that have failed too often are not started."""
    book = TaskBook(6, retries, 1000)
    book.restore([0], [1, 1, 2, 1], [3])
    left = []
    while (task := book.take(0)) is not None:
        left.append(task)
    assert left == ([4, 5] if retries == 0 else [2, 4, 5])
    assert (book.done, book.failed) == (1, 2 if retries == 0 else 1)


def test_tasks_that_an_earlier_attempt_has_done_count_as_done() -> None:
    """They are not started, by a later leader neither."""
    book = TaskBook(4, 0, 1000)
    book.skip([0, 2])
    assert (book.done, [book.take(0), book.take(0), book.take(0)]) == (2, [1, 3, None])
    book.restore([1], [], [])
    assert (book.done, [book.take(0), book.take(0)]) == (3, [3, None])
