"""Tasks in worker processes: answers, news, failures, stops, and workers that die."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from service.jobs.pool import InlinePool, PoolTask, PoolWatch, ProcessPool, TaskPool, TaskPoolError
from tests.service.jobs import work


@pytest.fixture(params=["inline", "processes"])
def pool(request: pytest.FixtureRequest) -> Iterator[TaskPool]:
    """Return this process and two others."""
    made: TaskPool = InlinePool() if request.param == "inline" else ProcessPool(2)
    yield made
    made.close()


@pytest.fixture
def processes() -> Iterator[ProcessPool]:
    """Return two worker processes."""
    made = ProcessPool(2)
    yield made
    made.close()


def squares(count: int) -> list[PoolTask]:
    """Return so many tasks."""
    return [PoolTask(f"square of {n}", partial(work.squared, n)) for n in range(count)]


def test_each_task_is_answered_once_and_its_news_is_heard(pool: TaskPool) -> None:
    """Whatever the order in which tasks end."""
    heard: list[tuple[int, Any]] = []
    watch = PoolWatch(told=lambda index, news: heard.append((index, news)))
    assert sorted(pool.run(squares(5), watch)) == [(n, n * n) for n in range(5)]
    assert sorted(heard) == [(n, f"squaring {n}") for n in range(5)]


def test_what_a_task_raises_is_raised_where_it_was_asked_for(pool: TaskPool) -> None:
    """With its own class and words; the pool takes other tasks afterwards."""
    with pytest.raises(ValueError, match="no such number"):
        list(pool.run([PoolTask("broken", work.broken)]))
    assert dict(pool.run(squares(2))) == {0: 0, 1: 1}


def test_after_a_stop_those_at_work_end_and_no_more_begin(processes: ProcessPool) -> None:
    """Two work at a time: two answers of five, each the best so far."""
    begun: list[int] = []
    watch = PoolWatch(lambda: len(begun) > 1, lambda index, news: begun.append(index))
    tasks = [PoolTask(str(n), work.until_stopped) for n in range(5)]
    assert dict(processes.run(tasks, watch)) == dict.fromkeys((0, 1), "the best so far")


def test_a_task_whose_worker_is_killed_goes_on_from_what_it_kept(
    processes: ProcessPool, tmp_path: Path
) -> None:
    """The second run is given what the first has kept, bit by bit; so is whoever asked."""
    kept: list[Any] = []
    watch = PoolWatch(kept=lambda index, state: kept.append(state))
    task = PoolTask("dies once", partial(work.dies_once, tmp_path / "mark"))
    assert list(processes.run([task], watch)) == [(0, {"found": 0.1 + 0.2})]
    assert kept == [{"found": 0.1 + 0.2}]


def test_a_task_that_kills_its_workers_is_given_up(processes: ProcessPool) -> None:
    """With its name, and how the last one ended."""
    with pytest.raises(TaskPoolError, match="deadly: 3 workers ended at it, the last by signal 9"):
        list(processes.run([PoolTask("deadly", work.dies)]))
