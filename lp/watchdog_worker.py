"""The child process of `lp.watchdog`: runs one solve and reports better solutions."""

from __future__ import annotations

import dataclasses
import math
import os
import pickle
import shutil
import signal
import sys
import threading
import time
from typing import Final

from lp.limits import Monitor, SolveLimits
from lp.solver import backend_named, solve
from lp.watchdog import Task, send

#: Seconds between two checks whether the parent is alive.
_LOOK_S: Final = 0.2


def answer(descriptor: int) -> None:
    """Solve the task on standard input; write reports and the answer to a file descriptor."""
    task: Task = pickle.load(sys.stdin.buffer)
    with os.fdopen(descriptor, "wb") as replies:
        try:
            backend_named(task.solver)
            send(replies, "started")
            found = solve(
                task.model,
                _inner(task.limits),
                solver=task.solver,
                start=task.start,
                monitor=Monitor(on_progress=lambda progress: send(replies, progress)),
            )
            send(replies, found)
        except ValueError as error:
            send(replies, error)


def end_with(parent: int, scratch: str) -> None:
    """Kill this process group once `parent` has ended, and remove the parent's scratch folder."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_S)
        _end(scratch)

    threading.Thread(target=watch, daemon=True).start()


def _end(scratch: str) -> None:
    shutil.rmtree(scratch, ignore_errors=True)
    os.killpg(0, signal.SIGKILL)


def _inner(limits: SolveLimits) -> SolveLimits:
    """The child's limits: in deterministic mode only the parent applies the time limit."""
    time_s = math.inf if limits.deterministic else limits.time_s
    return dataclasses.replace(limits, watchdog=False, time_s=time_s)


def main(descriptor: int, parent: int, scratch: str) -> None:
    """Run the parent's task; end silently if the parent has ended, even while sending the task."""
    end_with(parent, scratch)
    try:
        answer(descriptor)
    except (BrokenPipeError, EOFError, pickle.UnpicklingError):
        _end(scratch)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
