"""Tasks in this process and in worker processes: answers, failures, stops, workers that die."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from service.jobs.dask_workers import workers_of
from service.jobs.executors import Link, ProcessWorkers, Task, WorkerError, Workers, answers_of
from tests.service.jobs import work


@pytest.fixture(params=[1, 2])
def workers(request: pytest.FixtureRequest) -> Iterator[Workers | None]:
    """Return this process and two others."""
    with workers_of(request.param) as made:
        yield made


@pytest.fixture
def processes() -> Iterator[ProcessWorkers]:
    """Return two worker processes."""
    made = ProcessWorkers(2)
    yield made
    made.close()


def squares(count: int) -> list[tuple[str, Task]]:
    """Return this many tasks."""
    return [(f"square of {n}", partial(work.squared, n)) for n in range(count)]


def test_each_task_is_answered_once(workers: Workers | None) -> None:
    """Whatever the order in which tasks end."""
    assert sorted(answers_of(squares(5), workers, Link())) == [(n, n * n) for n in range(5)]


def test_in_this_process_news_and_what_is_kept_reach_the_caller() -> None:
    """As they come."""
    heard: list[Any] = []
    assert dict(answers_of(squares(2), None, Link(tell=heard.append))) == {0: 0, 1: 1}
    assert heard == ["squaring 0", "squaring 1"]


def test_what_a_task_raises_is_raised_where_it_was_requested(workers: Workers | None) -> None:
    """With its own class and words; the workers take other tasks afterwards."""
    with pytest.raises(ValueError, match="no such number"):
        list(answers_of([("broken", work.broken)], workers, Link()))
    assert dict(answers_of(squares(2), workers, Link())) == {0: 0, 1: 1}


def test_after_a_stop_those_at_work_end_and_no_more_start(
    processes: ProcessWorkers, tmp_path: Path
) -> None:
    """Two work at a time: two answers of five, each the best so far."""
    tasks = [(str(n), partial(work.until_stopped_at, tmp_path / str(n))) for n in range(5)]
    both = Link(lambda: len(list(tmp_path.iterdir())) == 2)
    assert dict(answers_of(tasks, processes, both)) == dict.fromkeys((0, 1), "the best so far")


def test_the_first_starts_though_it_is_to_stop_already(processes: ProcessWorkers) -> None:
    """It answers with the best so far; nothing else starts."""
    tasks = [(str(n), work.until_stopped) for n in range(3)]
    assert dict(answers_of(tasks, processes, Link(lambda: True))) == {0: "the best so far"}


def test_a_task_whose_worker_is_killed_starts_again(
    processes: ProcessWorkers, tmp_path: Path
) -> None:
    """In another process, from its arguments; the task alongside it does not notice."""
    tasks = [("dies once", partial(work.dies_once, tmp_path / "mark")), *squares(1)]
    assert sorted(answers_of(tasks, processes, Link())) == [(0, False), (1, 0)]


def test_a_task_that_kills_its_workers_is_given_up(processes: ProcessWorkers) -> None:
    """With its name."""
    with pytest.raises(WorkerError, match="deadly: 3 workers died at it"):
        list(answers_of([("deadly", work.dies)], processes, Link()))


def test_processes_at_work_end_when_they_are_closed(processes: ProcessWorkers) -> None:
    """The second ^C does not wait for a task that does not look whether to stop."""
    before = set(multiprocessing.active_children())
    processes.submit(work.deaf, first=True)
    assert set(multiprocessing.active_children()) > before
    processes.close()
    assert set(multiprocessing.active_children()) == before
