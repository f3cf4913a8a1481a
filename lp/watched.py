"""What runs in the child process of `lp.watchdog`: one solve, its better answers on the way."""

from __future__ import annotations

import dataclasses
import math
import os
import pickle
import sys

from lp.limits import Monitor, SolveLimits
from lp.solver import backend_named, solve
from lp.watchdog import Task, send


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


def _inner(limits: SolveLimits) -> SolveLimits:
    """The child's limits: in deterministic mode the clock belongs to the parent alone."""
    time_s = math.inf if limits.deterministic else limits.time_s
    return dataclasses.replace(limits, watchdog=False, time_s=time_s)


if __name__ == "__main__":
    answer(int(sys.argv[1]))
