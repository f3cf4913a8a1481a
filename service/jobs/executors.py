"""Where tasks run: this process, worker processes, or a Dask cluster, and the loop over them.

A task is a function of a module with its arguments, all of which can be pickled, that is called
with a `Link`. Its answer, never None, depends on its arguments only, so it does not matter where it
runs, nor in which order tasks end. A task whose worker dies starts again elsewhere.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Final, Protocol, TypeAlias

from service.host.processes import end_with_parent

#: How often a task starts in all, if its workers die, before it is given up.
MOST_DEATHS: Final = 3

#: Seconds between two looks at whether to stop.
_LOOK_S: Final = 0.2


class WorkerError(ValueError):
    """Workers that cannot run tasks, or no longer; the message says what would be right."""


class WorkerDiedError(Exception):
    """The worker of a task died; the task can start again."""


def _ignore(_: Any) -> None:
    """Drop what a task reports."""


@dataclass(frozen=True, slots=True)
class Link:
    """What a task and its caller say to each other.

    Attributes
    ----------
    stop
        Returns whether the task is to end with the best so far.
    tell
        Reports news of the work.
    keep
        Stores what a later run of the task can start from; the last one counts.
    kept
        What an earlier run on a worker that died has stored, or None. Only a Dask cluster stores
        it; processes start a task from its arguments.
    """

    stop: Callable[[], bool] = bool
    tell: Callable[[Any], None] = _ignore
    keep: Callable[[Any], None] = _ignore
    kept: Any = None


Task: TypeAlias = Callable[[Link], Any]


class Workers(Protocol):
    """Workers behind executors, each of which runs one task at a time.

    Attributes
    ----------
    most
        Tasks to hand out at a time.
    """

    most: int

    def submit(self, task: Task, *, first: bool) -> Future[Any]:
        """Hand out a task; unless it is the `first`, it is not run if a stop comes before."""
        ...

    def answer(self, future: Future[Any], name: str) -> Any:
        """Return the answer of a task that has ended, None for one that was not run.

        Raises
        ------
        WorkerDiedError
            If its worker died.
        WorkerError
            If no worker can run it; `name` is the task's, for people.
        """
        ...

    def attend(self, link: Link) -> None:
        """Pass on what tasks report.

        Raises
        ------
        WorkerError
            If the workers are gone.
        """
        ...

    def stop(self) -> None:
        """Ask the tasks at work to end with the best so far."""
        ...

    def close(self) -> None:
        """Release the workers; tasks at work are abandoned."""
        ...


def answers_of(
    tasks: Sequence[tuple[str, Task]], workers: Workers | None, link: Link
) -> Iterator[tuple[int, Any]]:
    """Yield the index and the answer of each task as it ends.

    After a stop the tasks at work end, and no other starts; the first always starts. What a task
    raises is raised here.

    Parameters
    ----------
    tasks
        Each with its name, for people.
    workers
        None: this process, one task after the other.
    link
        The caller's: `stop` is asked, `tell` and `keep` are called.

    Raises
    ------
    WorkerError
        If a task cannot be run: its workers die, or the cluster does not answer any more.
    """
    if workers is None:
        for index, (_, task) in enumerate(tasks):
            if index and link.stop():
                return
            yield index, task(link)
        return
    waiting = list(range(len(tasks)))[::-1]
    running: dict[Future[Any], int] = {}
    deaths: Counter[int] = Counter()
    started = stopped = False
    while waiting or running:
        if not stopped and link.stop():
            stopped = True
            del waiting[: len(waiting) - (not started)]
            workers.stop()
        while waiting and len(running) < workers.most:
            index = waiting.pop()
            running[workers.submit(tasks[index][1], first=not started)] = index
            started = True
        done, _ = wait(running, _LOOK_S, FIRST_COMPLETED)
        workers.attend(link)
        for future in done:
            index = running.pop(future)
            name = tasks[index][0]
            try:
                answer = workers.answer(future, name)
            except WorkerDiedError as error:
                deaths[index] += 1
                if deaths[index] >= MOST_DEATHS:
                    raise WorkerError(f"{name}: {MOST_DEATHS} workers died at it") from error
                if not stopped:
                    waiting.append(index)
            else:
                if answer is not None:
                    yield index, answer


class ProcessWorkers:
    """Worker processes of this host, each in an executor of its own: a death takes no other along.

    Parameters
    ----------
    most
        Number of processes; they start as there is work for them.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        # New processes, not copies: numba's threads do not survive a fork.
        self._context = multiprocessing.get_context("spawn")
        self._others = set(multiprocessing.active_children())
        # The end of this pipe is the stop, which so needs no lock that a process may die with.
        self._stop_reader, self._stop_writer = self._context.Pipe(duplex=False)
        self._idle: list[Executor] = []
        self._busy: dict[Future[Any], Executor] = {}

    def submit(self, task: Task, *, first: bool) -> Future[Any]:
        """Give a task to an idle process, or to a new one."""
        while self._idle:
            executor = self._idle.pop()
            try:
                return self._submit(executor, task)
            except BrokenProcessPool:  # its process died with nothing to do
                executor.shutdown()
        return self._submit(self._started(), task)

    def _submit(self, executor: Executor, task: Task) -> Future[Any]:
        future = executor.submit(_carry_out, task)
        self._busy[future] = executor
        return future

    def _started(self) -> Executor:
        given = (self._stop_reader, os.getpid())
        return ProcessPoolExecutor(1, self._context, initializer=_begin_process, initargs=given)

    def answer(self, future: Future[Any], name: str) -> Any:
        """Return the answer of a task that has ended."""
        executor = self._busy.pop(future)
        try:
            answer = pickle.loads(future.result())
        except BrokenProcessPool as error:
            executor.shutdown()
            raise WorkerDiedError(name) from error
        except BaseException:
            self._idle.append(executor)
            raise
        self._idle.append(executor)
        return answer

    def attend(self, link: Link) -> None:
        """Do nothing: a process reports its answer only."""

    def stop(self) -> None:
        """Ask the tasks at work to end."""
        self._stop_writer.close()

    def close(self) -> None:
        """Kill the processes."""
        for process in set(multiprocessing.active_children()) - self._others:
            process.kill()
        for executor in (*self._idle, *self._busy.values()):
            executor.shutdown()
        self._stop_reader.close()
        self._stop_writer.close()


_STOPPED: Final = threading.Event()


def _begin_process(stop_reader: Connection, parent: int) -> None:
    """Begin a worker process: ^C on the terminal is for its parent, with which it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent(parent)

    def listen() -> None:
        with suppress(EOFError, OSError):
            stop_reader.recv_bytes()
        _STOPPED.set()

    threading.Thread(target=listen, name="stop", daemon=True).start()


def _carry_out(task: Task) -> bytes:
    """Carry a task out in a worker process; return its answer, pickled.

    Raises
    ------
    WorkerError
        Instead of an exception that cannot be read back: it would look as if the worker had died.
    """
    try:
        return pickle.dumps(task(Link(_STOPPED.is_set)))
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # noqa: BLE001 - exceptions of libraries may refuse in any way
            raise WorkerError(f"{type(error).__name__}: {error}") from None
        raise
