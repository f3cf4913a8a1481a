"""Starts servers under test from one process that has loaded what all of them load.

A new interpreter takes three seconds of a core to import the product and to load its kernels, and
tests start dozens of servers. A server is a new interpreter, as users start it (`agenda serve`), in
tests/docs and tests/end_to_end/calls/test_local.py.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[2]

_MOST = 1 << 20


class ForkedProcess:
    """A process that was begun here: like `subprocess.Popen`, as far as tests use it.

    Attributes
    ----------
    pid
        Its id; it leads a session of its own.
    returncode, stdin
        As of `subprocess.Popen`.
    """

    def __init__(self, words: socket.socket) -> None:
        self._words, self._ends = words, threading.Lock()
        self.stdin: IO[bytes] | None = None
        self.pid = int(words.recv(_MOST))
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Return its exit code, or None while it runs."""
        if self.returncode is None and select.select([self._words], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code once it has ended.

        Raises
        ------
        subprocess.TimeoutExpired
            After `timeout` seconds.
        """
        if self.returncode is None:
            if not select.select([self._words], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("a forked process", timeout or 0.0)
            with self._ends:  # another thread may have heard of it
                if self.returncode is None:
                    self.returncode = int(self._words.recv(_MOST))
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)


@cache
def _forking() -> socket.socket:
    """Start the process that forks, once for each that tests; it ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    code = f"from tests.end_to_end.fork_server import become; exec(become({theirs.fileno()}))"
    with theirs:
        subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, pass_fds=[theirs.fileno()])
    return ours


def fork(
    code: str,
    arguments: Sequence[str],
    streams: Sequence[int],
    environment: Mapping[str, str] = os.environ,
) -> ForkedProcess:
    """Run Python with arguments in a session of its own, where the product is loaded already.

    Parameters
    ----------
    streams
        Descriptors of its input, output and errors.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    begun = {
        "code": code,
        "argv": ["-c", *arguments],
        "cwd": os.getcwd(),
        "environ": {**environment},
    }
    with theirs:
        descriptors = [*streams, theirs.fileno()]
        socket.send_fds(_forking(), [json.dumps(begun).encode()], descriptors)
    return ForkedProcess(ours)


def fork_with_log(code: str, arguments: Sequence[str], log: Path) -> ForkedProcess:
    """Run Python as `fork` does, without input; its output is appended to a file."""
    with Path(os.devnull).open() as nothing, log.open("ab") as output:
        return fork(code, arguments, (nothing.fileno(), output.fileno(), output.fileno()))


def fork_module(command: Sequence[str], env: Mapping[str, str], **_: Any) -> ForkedProcess:
    """Do what `subprocess.Popen` does for ``python -m MODULE`` with a pipe as input, no output."""
    code = f"import runpy; runpy.run_module({command[2]!r}, run_name='__main__', alter_sys=True)"
    theirs, ours = os.pipe()
    with Path(os.devnull).open("w") as nothing:
        process = fork(code, command[3:], (theirs, nothing.fileno(), 2), env)
    os.close(theirs)
    process.stdin = os.fdopen(ours, "wb")
    return process


def become(descriptor: int) -> str:
    """Load the product, then fork for each request; return, in a child, what it is to run."""
    _load()
    signals, wakes = socket.socketpair()
    for one in (signals, wakes):
        one.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes.fileno())
    running: dict[int, socket.socket] = {}
    with socket.socket(fileno=descriptor) as requests:
        while True:
            ready = select.select([requests, signals], [], [])[0]
            if signals in ready:
                signals.recv(_MOST)
                _tell_ends(running)
            if requests not in ready:
                continue
            message, descriptors, _, _ = socket.recv_fds(requests, _MOST, 4)
            if not message:
                sys.exit()
            words = socket.socket(fileno=descriptors.pop())
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                for one in (signals, wakes, *running.values()):
                    one.close()
                return _begin(json.loads(message), descriptors, words)
            for stream in descriptors:
                os.close(stream)
            running[pid] = words


def _load() -> None:
    """Load what every server loads, as far as it depends on no setting."""
    from service.config import MULTIPROCESS_DIRECTORY
    from tests.end_to_end.checked_ticks import check_ticks

    with tempfile.TemporaryDirectory() as nowhere:
        os.environ[MULTIPROCESS_DIRECTORY] = nowhere  # metrics are kept in files of each process
        import service.app
        import service.connections.gunicorn_worker
        import service.server  # noqa: F401
        from planner.workload.warm_up import load_kernels
        from service.dispatching.tenure import Tenure

        check_ticks(Tenure)
        load_kernels()
    del os.environ[MULTIPROCESS_DIRECTORY]
    gc.collect()
    gc.freeze()


def _tell_ends(running: dict[int, socket.socket]) -> None:
    """Tell who began them of the processes that have ended."""
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if not pid:
            return
        with running.pop(pid) as words, contextlib.suppress(OSError):  # nobody may wait for it
            words.sendall(str(os.waitstatus_to_exitcode(status)).encode())


def _begin(begun: dict[str, Any], streams: list[int], words: socket.socket) -> str:
    """Make this process what was asked for, and say so; return its code."""
    os.setsid()
    with words:
        words.sendall(str(os.getpid()).encode())
    for descriptor, stream in enumerate(streams):
        os.dup2(stream, descriptor)
        os.close(stream)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(0), os.fdopen(1, "w", 1), os.fdopen(2, "w", 1))
    os.chdir(begun["cwd"])
    os.environ.clear()
    os.environ.update(begun["environ"])
    tempfile.tempdir = None
    sys.argv[:] = begun["argv"]
    return str(begun["code"])
