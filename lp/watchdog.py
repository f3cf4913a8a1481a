"""Solve in a child process that is killed when the solver overruns its limit.

Solvers check their time limit only at certain points: a long factorisation or presolve loop can
exceed it by minutes, and a solver's crash ends its process. The child reports every better
solution, so the best one survives both.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pickle
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from lp.arrays import ModelArrays
from lp.limits import Monitor, Progress, SolveLimits, WarmStart
from lp.result import Solution, SolveStatus, StopReason

_POLL_S = 0.05
_START_ALLOWANCE_S = 5.0
_HEADER = 8


@dataclass(frozen=True, slots=True)
class Task:
    """The task of the child process (`lp.watchdog_worker`)."""

    model: ModelArrays
    limits: SolveLimits
    solver: str
    start: WarmStart


def solve_watched(
    model: ModelArrays, limits: SolveLimits, solver: str, start: WarmStart, monitor: Monitor
) -> Solution:
    """Solve in a child process; see `lp.solver.solve`.

    Returns
    -------
    Solution
        The child's solution; or, if the child was killed, stopped by the monitor or crashed, the
        best reported solution as FEASIBLE (NO_ANSWER or FAILED without one) with that stop reason.
    """
    plain = dataclasses.replace(model, blocks=dict(model.blocks), row_blocks=dict(model.row_blocks))
    watch = _Watch(model, limits, solver, monitor)
    with (
        tempfile.TemporaryDirectory(prefix="agenda-lp-") as scratch,
        _child(scratch) as (
            child,
            replies,
        ),
    ):
        watch.send(child, Task(plain, limits, solver, start))
        return watch.follow(replies)


@contextlib.contextmanager
def _child(scratch: str) -> Iterator[tuple[subprocess.Popen[bytes], IO[bytes]]]:
    """Start the child in its own process group; on exit, kill the whole group."""
    read_end, write_end = os.pipe()
    child = subprocess.Popen(
        [sys.executable, "-m", "lp.watchdog_worker", str(write_end), str(os.getpid()), scratch],
        stdin=subprocess.PIPE,
        pass_fds=[write_end],
        # PuLP's solvers are programs that leave their files in TMPDIR when killed.
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": scratch},
        start_new_session=True,
    )
    os.close(write_end)
    try:
        # Unbuffered: a message already in a buffer would not wake the selector.
        with os.fdopen(read_end, "rb", buffering=0) as replies:
            yield child, replies
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # the group has ended
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()


class _Watch:
    """The parent's side: reads reports until the result, the deadline, a stop or a crash."""

    def __init__(
        self, model: ModelArrays, limits: SolveLimits, solver: str, monitor: Monitor
    ) -> None:
        self._model = model
        self._limits = limits
        self._solver = solver
        self._monitor = monitor
        self._best: Progress | None = None

    def send(self, child: subprocess.Popen[bytes], task: Task) -> None:
        if child.stdin is None:
            raise RuntimeError("the child process has no standard input")
        # A child that died at its start is detected when its reports end.
        with contextlib.suppress(BrokenPipeError), child.stdin:
            pickle.dump(task, child.stdin)

    def follow(self, replies: IO[bytes]) -> Solution:
        began = time.monotonic()
        allowance = _START_ALLOWANCE_S + self._limits.time_s + self._limits.watchdog_grace_s
        deadline = began + allowance
        with selectors.DefaultSelector() as selector:
            selector.register(replies, selectors.EVENT_READ)
            while True:
                if selector.select(timeout=_POLL_S):
                    message = _receive(replies)
                    if isinstance(message, Solution):
                        return message
                    if message is None:
                        return self._cut(StopReason.CRASHED, time.monotonic() - began)
                    deadline = self._note(message, deadline)
                if time.monotonic() > deadline:
                    return self._cut(StopReason.KILLED, time.monotonic() - began)
                if self._monitor.should_stop is not None and self._monitor.should_stop():
                    return self._cut(StopReason.STOPPED, time.monotonic() - began)

    def _note(self, message: object, deadline: float) -> float:
        """Record a report; return the deadline, which the first one (the solver's start) sets."""
        if isinstance(message, ValueError):
            raise message
        if isinstance(message, Progress):
            if message.values is None and self._best is not None:
                self._best = dataclasses.replace(self._best, bound=message.bound)
            else:
                self._best = message
            if self._monitor.on_progress is not None:
                self._monitor.on_progress(message)
            return deadline
        return time.monotonic() + self._limits.time_s + self._limits.watchdog_grace_s

    def _cut(self, stop: StopReason, elapsed_s: float) -> Solution:
        texts = {
            StopReason.KILLED: "killed past its time limit",
            StopReason.STOPPED: "stopped by the caller",
            StopReason.CRASHED: "the solver's process died",
        }
        status = SolveStatus.FAILED if stop is StopReason.CRASHED else SolveStatus.NO_ANSWER
        solution = Solution(status, stop, self._solver, solve_s=elapsed_s, message=texts[stop])
        if self._best is None or self._best.values is None:
            return solution
        return dataclasses.replace(
            solution,
            status=SolveStatus.FEASIBLE,
            objective=self._model.objective(self._best.values),
            bound=self._best.bound,
            values=self._best.values,
        )


def send(stream: IO[bytes], message: object) -> None:
    """Write a message that the receiver reads completely or not at all."""
    body = pickle.dumps(message)
    stream.write(len(body).to_bytes(_HEADER, "big") + body)
    stream.flush()


def _receive(stream: IO[bytes]) -> object | None:
    """Return the next message; None at the end of the stream, even inside a message."""
    header = _read_exactly(stream, _HEADER)
    if header is None:
        return None
    body = _read_exactly(stream, int.from_bytes(header, "big"))
    return None if body is None else pickle.loads(body)


def _read_exactly(stream: IO[bytes], size: int) -> bytes | None:
    parts = bytearray()
    while len(parts) < size:
        part = stream.read(size - len(parts))
        if not part:
            return None
        parts += part
    return bytes(parts)
