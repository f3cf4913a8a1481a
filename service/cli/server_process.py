"""A server in a process of its own: started, waited for, ended."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final

from service.cli.kit.errors import CliError

_STOP_WITHIN_S: Final = 60.0
_SHOWN_LINES: Final = 10


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A running server, the leader of its own process group.

    Attributes
    ----------
    port
        Port on loopback that it serves.
    """

    process: subprocess.Popen[bytes]
    port: int

    def stop(self, within_s: float = _STOP_WITHIN_S) -> bool:
        """Ask the server to end; return whether it did, or had to be killed after `within_s`."""
        self.process.terminate()
        try:
            self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        return True

    def kill(self) -> None:
        """End every process of the server at this instant, as a loss of power would."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def free_port() -> int:
    """Return a port of loopback on which no one listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def is_free(port: int) -> bool:
    """Return whether no one listens on a port of loopback."""
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


@contextmanager
def run_server(
    command: Sequence[str], port: int, log: Path, *, ready_s: float = 300.0
) -> Iterator[ServerProcess]:
    """Start a server, wait until it is ready, and leave none of its processes behind.

    Parameters
    ----------
    command
        What serves `port` on loopback and answers ``GET /readyz``.
    log
        File to which the server's output is appended.
    ready_s
        Longest wait for readiness, seconds.

    Raises
    ------
    CliError
        If the server ends before it is ready, or is not ready in time.
    """
    with log.open("ab") as output:
        # A session of its own: ^C reaches this process only, which then ends the server in order.
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    server = ServerProcess(process, port)
    try:
        _wait_until_ready(server, log, ready_s)
        yield server
    finally:
        server.kill()


def _wait_until_ready(server: ServerProcess, log: Path, within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if server.process.poll() is not None:
            raise CliError(f"the server did not start:\n{last_lines(log)}")
        if _is_ready(server.port):
            return
        time.sleep(0.05)
    raise CliError(f"the server is not ready after {within_s:g} s; see {log}")


def last_lines(log: Path) -> str:
    """Return the last lines of a server's log."""
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return "\n".join(lines[-_SHOWN_LINES:])


def _is_ready(port: int) -> bool:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False  # nothing listens yet
    finally:
        connection.close()
