"""What a worker process of a `ProcessPool` does: tasks from a pipe, answers and news back."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from service.host.processes import end_with_parent
from service.tasks.task_pool import TaskLink, TaskPoolError


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
