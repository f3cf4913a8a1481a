"""ProcessPool: tasks in worker processes of this host."""

from __future__ import annotations

import contextlib
import os
import pickle
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Final

from service.tasks.process_worker import work_off
from service.tasks.task_pool import MOST_DEATHS, PoolTask, PoolWatch, TaskPoolError

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
