"""Task pools: independent tasks in this process, in worker processes, or on a Dask cluster.

A task is a function of a module and its arguments, all of which can be pickled. What it returns
depends on nothing but them, so it does not matter where it runs, nor in which order tasks end. A
task whose worker dies is begun again elsewhere, from what it has kept.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Final, Protocol

from service.host.processes import end_with_parent

#: How often a task is begun again after its worker died, before it is given up.
MOST_DEATHS: Final = 3


class TaskPoolError(ValueError):
    """A pool that cannot run tasks, or not any more; the message says what would be right."""


class TaskLink(Protocol):
    """What a task is given to speak with whoever asked for it."""

    @property
    def kept(self) -> Any:
        """What an earlier run of this task has kept; None at the first."""
        ...

    def stop(self) -> bool:
        """Return whether the task is to end with the best so far."""
        ...

    def tell(self, news: Any) -> None:
        """Send news of the work; a later word may arrive before an earlier one is looked at."""
        ...

    def keep(self, state: Any) -> None:
        """Keep what a later run of this task can begin with; the last one counts."""
        ...


@dataclass(frozen=True, slots=True)
class PoolTask:
    """One task.

    Attributes
    ----------
    name
        For people.
    work
        What is done; can be pickled.
    kept
        What an earlier run has kept, or None.
    """

    name: str
    work: Callable[[TaskLink], Any]
    kept: Any = None


def _ignore(index: int, what: Any) -> None:
    """Hear what nobody asked for."""


@dataclass(frozen=True, slots=True)
class PoolWatch:
    """What whoever runs tasks hears of them, and says meanwhile.

    Attributes
    ----------
    stop
        Whether no more tasks are to begin, and those at work are to end with the best so far.
    told, kept
        Called with the index of a task and its news, or what it keeps.
    """

    stop: Callable[[], bool] = bool
    told: Callable[[int, Any], None] = _ignore
    kept: Callable[[int, Any], None] = _ignore


class TaskPool(Protocol):
    """Where tasks run."""

    def run(
        self, tasks: Sequence[PoolTask], watch: PoolWatch | None = None
    ) -> Iterator[tuple[int, Any]]:
        """Yield the index and the answer of each task as it ends.

        After a stop only those that had begun. What a task raises is raised here.

        Raises
        ------
        TaskPoolError
            If a task cannot be run: its workers die, or the cluster does not answer any more.
        """
        ...

    def close(self) -> None:
        """Give back what the pool holds; tasks at work are abandoned."""
        ...


@dataclass(frozen=True, slots=True)
class _InlineLink:
    index: int
    kept: Any
    watch: PoolWatch

    def stop(self) -> bool:
        return self.watch.stop()

    def tell(self, news: Any) -> None:
        self.watch.told(self.index, news)

    def keep(self, state: Any) -> None:
        self.watch.kept(self.index, state)


class InlinePool:
    """Runs tasks in order; one at least, even where it is to stop already."""

    def run(
        self, tasks: Sequence[PoolTask], watch: PoolWatch | None = None
    ) -> Iterator[tuple[int, Any]]:
        """Yield each task's answer as it ends, see `TaskPool`."""
        watching = watch or PoolWatch()
        for index, task in enumerate(tasks):
            if index and watching.stop():
                return
            yield index, task.work(_InlineLink(index, task.kept, watching))

    def close(self) -> None:
        """Hold nothing."""


#: Seconds between two looks at whether to stop.
_LOOK_S: Final = 0.2

#: Seconds that a worker which ended has to be taken leave of.
_LEAVE_S: Final = 5.0


@dataclass(slots=True)
class _PoolProcess:
    """One worker process.

    Attributes
    ----------
    task
        Index of the task it works on; None while it has none.
    """

    process: SpawnProcess
    pipe: Connection
    task: int | None = None


class ProcessPool:
    """Runs so many tasks at once, each in a process of its own that takes one after the other.

    Attributes
    ----------
    pids
        Process ids of the workers.
    """

    def __init__(self, workers: int) -> None:
        self._most = workers
        self._members: dict[Connection, _PoolProcess] = {}

    @property
    def pids(self) -> list[int]:
        """Process ids of the workers."""
        return [one.process.pid for one in self._members.values() if one.process.pid]

    def run(
        self, tasks: Sequence[PoolTask], watch: PoolWatch | None = None
    ) -> Iterator[tuple[int, Any]]:
        """Yield each task's answer as it ends, see `TaskPool`."""
        watching = watch or PoolWatch()
        run = _PoolRun(tasks, deque(range(len(tasks))), {i: t.kept for i, t in enumerate(tasks)})
        stopped = False
        while run.waiting or any(one.task is not None for one in self._members.values()):
            if not stopped and watching.stop():
                stopped = True
                run.waiting.clear()
                self._send_stop()
            self._hand_out(run)
            for pipe in wait(list(self._members), _LOOK_S):
                assert isinstance(pipe, Connection)
                yield from self._hear(self._members[pipe], run, watching, stopped=stopped)

    def close(self) -> None:
        """End the workers."""
        for one in self._members.values():
            one.process.kill()
            one.process.join(_LEAVE_S)
            one.pipe.close()
        self._members.clear()

    def _hand_out(self, run: _PoolRun) -> None:
        """Give each idle worker a task, and start workers while there is work for them."""
        idle = [one for one in self._members.values() if one.task is None]
        while run.waiting and (idle or len(self._members) < self._most):
            one = idle.pop() if idle else self._start()
            one.task = run.waiting.popleft()
            with contextlib.suppress(BrokenPipeError):  # it died; its pipe says so next
                one.pipe.send((pickle.dumps(run.tasks[one.task].work), run.kept[one.task]))

    def _start(self) -> _PoolProcess:
        context = get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=work_off, args=(theirs, os.getpid()), daemon=True)
        process.start()
        theirs.close()
        self._members[ours] = _PoolProcess(process, ours)
        return self._members[ours]

    def _send_stop(self) -> None:
        for one in self._members.values():
            with contextlib.suppress(BrokenPipeError):
                one.pipe.send(None)

    def _hear(
        self, one: _PoolProcess, run: _PoolRun, watch: PoolWatch, *, stopped: bool
    ) -> Iterator[tuple[int, Any]]:
        try:
            what, body = one.pipe.recv()
        except (EOFError, OSError):
            self._bury(one, run, stopped=stopped)
            return
        assert one.task is not None
        index = one.task
        if what == "told":
            watch.told(index, body)
        elif what == "kept":
            run.kept[index] = body
            watch.kept(index, body)
        elif what == "raised":
            one.task = None
            raise pickle.loads(body)
        else:
            one.task = None
            yield index, pickle.loads(body)

    def _bury(self, one: _PoolProcess, run: _PoolRun, *, stopped: bool) -> None:
        """Have the task of a worker that died begun again.

        Raises
        ------
        TaskPoolError
            If it took too many workers with it.
        """
        del self._members[one.pipe]
        one.process.join(_LEAVE_S)
        one.pipe.close()
        if one.task is None or stopped:
            return
        run.deaths[one.task] += 1
        if run.deaths[one.task] >= MOST_DEATHS:
            code = one.process.exitcode
            how = f"signal {-code}" if code and code < 0 else f"exit code {code}"
            name = run.tasks[one.task].name
            raise TaskPoolError(f"{name}: {MOST_DEATHS} workers ended at it, the last by {how}")
        run.waiting.appendleft(one.task)


class _PoolRun:
    """The tasks of one run: which wait, what they have kept, how many workers died at each."""

    def __init__(
        self, tasks: Sequence[PoolTask], waiting: deque[int], kept: dict[int, Any]
    ) -> None:
        self.tasks, self.waiting, self.kept = tasks, waiting, kept
        self.deaths: Counter[int] = Counter()


class _PipeLink:
    """Speaks with the pool's process over the pipe that the task came by."""

    def __init__(self, say: Callable[[str, Any], None], kept: Any, stopped: threading.Event):
        self._say, self._stopped = say, stopped
        self.kept = kept

    def stop(self) -> bool:
        return self._stopped.is_set()

    def tell(self, news: Any) -> None:
        self._say("told", news)

    def keep(self, state: Any) -> None:
        self._say("kept", state)


def work_off(pipe: Connection, parent: int) -> None:
    """Carry out tasks until the pipe ends; ^C on the terminal is for the pool's process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent(parent)
    stopped, waiting = threading.Event(), threading.Semaphore(0)
    tasks: list[tuple[bytes, Any]] = []

    def hear() -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                asked = pipe.recv()
                if asked is None:
                    stopped.set()
                else:
                    tasks.append(asked)
                    waiting.release()
        os._exit(0)  # nobody is there any more to answer to

    threading.Thread(target=hear, name="hear", daemon=True).start()
    saying = threading.Lock()

    def say(what: str, body: Any) -> None:
        with saying:
            pipe.send((what, body))

    while True:
        waiting.acquire()
        work, kept = tasks.pop()
        say(*_answer_to(work, _PipeLink(say, kept, stopped)))


def _answer_to(work: bytes, link: TaskLink) -> tuple[str, Any]:
    """Return how a task ended, and its answer or what it raised; both pickled."""
    try:
        return "done", pickle.dumps(pickle.loads(work)(link))
    except Exception as error:  # noqa: BLE001 - it is raised where the task was asked for
        return "raised", pickled_error(error)


def pickled_error(error: Exception) -> bytes:
    """Return an exception as bytes; one that cannot be read back is told by its text."""
    try:
        raw = pickle.dumps(error)
        pickle.loads(raw)
    except Exception:  # noqa: BLE001 - exceptions of libraries may refuse in any way
        return pickle.dumps(TaskPoolError(f"{type(error).__name__}: {error}"))
    return raw
