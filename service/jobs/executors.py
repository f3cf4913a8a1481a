"""Workers for tasks: this process, worker processes, or a Dask cluster; and the loop over tasks.

A task is a picklable module-level function with its arguments, which is called with a `Link`. Its
answer, never None, depends only on its arguments, so that it does not matter where tasks run, nor
in which order they end. A task whose worker dies is restarted elsewhere.
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

#: Most starts of a task whose workers die.
MOST_DEATHS: Final = 3

#: Seconds between two checks for a stop.
_LOOK_S: Final = 0.2


class WorkerError(ValueError):
    """Workers cannot run tasks, or no longer; the message says how to fix it."""


class WorkerDiedError(Exception):
    """The worker of a task died; the task can be restarted."""


def _ignore(_: Any) -> None:
    """Ignore a report."""


@dataclass(frozen=True, slots=True)
class Link:
    """Communication between a task and its caller.

    Attributes
    ----------
    stop
        Returns whether the task should end with the best result so far.
    tell
        Reports progress.
    keep
        Stores a state from which a later run of the task can continue; the last one counts.
    kept
        State stored by an earlier run on a dead worker, or None. Only a Dask cluster stores it;
        processes restart a task from its arguments.
    """

    stop: Callable[[], bool] = bool
    tell: Callable[[Any], None] = _ignore
    keep: Callable[[Any], None] = _ignore
    kept: Any = None


Task: TypeAlias = Callable[[Link], Any]


class Workers(Protocol):
    """Workers, each of which runs one task at a time.

    Attributes
    ----------
    most
        Most concurrently submitted tasks.
    """

    most: int

    def submit(self, task: Task, *, first: bool) -> Future[Any]:
        """Submit a task; unless it is the `first`, it is not run after a stop."""
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
        """Forward the reports of tasks.

        Raises
        ------
        WorkerError
            If the workers are gone.
        """
        ...

    def stop(self) -> None:
        """Ask running tasks to end with the best result so far."""
        ...

    def close(self) -> None:
        """Release the workers; running tasks are abandoned."""
        ...


def answers_of(
    tasks: Sequence[tuple[str, Task]], workers: Workers | None, link: Link
) -> Iterator[tuple[int, Any]]:
    """Yield the index and the answer of each task as it ends.

    After a stop, running tasks end and no other starts; the first always starts. Exceptions of
    tasks are raised here.

    Parameters
    ----------
    tasks
        Each with its name, for people.
    workers
        None to run tasks one by one in this process.
    link
        The caller's link: its `stop`, `tell` and `keep` are called.

    Raises
    ------
    WorkerError
        If a task cannot be run, because its workers die or the cluster does not answer.
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
    """Worker processes of this host, each in its own executor, so that a death affects no other.

    Parameters
    ----------
    most
        Number of processes, which start when there is work.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        # New processes, not copies: numba's threads do not survive a fork.
        self._context = multiprocessing.get_context("spawn")
        self._others = set(multiprocessing.active_children())
        # Closing this pipe signals the stop, without a lock that a dying process could hold.
        self._stop_reader, self._stop_writer = self._context.Pipe(duplex=False)
        self._idle: list[Executor] = []
        self._busy: dict[Future[Any], Executor] = {}

    def submit(self, task: Task, *, first: bool) -> Future[Any]:
        """Give a task to an idle process, or to a new one."""
        while self._idle:
            executor = self._idle.pop()
            try:
                return self._submit(executor, task)
            except BrokenProcessPool:  # its process died while idle
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
        """Do nothing: a process reports only its answer."""

    def stop(self) -> None:
        """Ask running tasks to end."""
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
    """Initialise a worker process: it ignores ^C, which is for its parent, and ends with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent(parent)

    def listen() -> None:
        with suppress(EOFError, OSError):
            stop_reader.recv_bytes()
        _STOPPED.set()

    threading.Thread(target=listen, name="stop", daemon=True).start()


def _carry_out(task: Task) -> bytes:
    """Run a task in a worker process; return its pickled answer.

    Raises
    ------
    WorkerError
        Instead of an exception that cannot be unpickled, which would look like a dead worker.
    """
    try:
        return pickle.dumps(task(Link(_STOPPED.is_set)))
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # noqa: BLE001 - exceptions of libraries may refuse in any way
            raise WorkerError(f"{type(error).__name__}: {error}") from None
        raise
