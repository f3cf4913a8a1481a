"""Run a server in its own process: start it, wait until it is ready, stop it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final

from service.cli.kit.errors import CliError

_STOP_WITHIN_S: Final = 60.0
_READY_WITHIN_S: Final = 1_800.0
_SAID_AFTER_S: Final = 20.0
_SHOWN_LINES: Final = 10


@dataclass(frozen=True, slots=True)
class ServerProcess:
    """A running server, the leader of its own process group.

    Attributes
    ----------
    port
        Its port on loopback.
    """

    process: subprocess.Popen[bytes]
    port: int

    def stop(self, within_s: float = _STOP_WITHIN_S) -> bool:
        """Stop the server, killing it after `within_s`; return whether it ended on its own."""
        self.process.terminate()
        try:
            self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return False
        return True

    def kill(self) -> None:
        """Kill every process of the server immediately, as a power failure would."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def free_port() -> int:
    """Return a free port on loopback."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def is_free(port: int) -> bool:
    """Return whether a port on loopback is free."""
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


@contextmanager
def run_server(
    command: Sequence[str], port: int, log: Path, *, ready_s: float = _READY_WITHIN_S
) -> Iterator[ServerProcess]:
    """Start a server, wait until it is ready, and stop all its processes afterwards.

    Parameters
    ----------
    command
        The command of a server that listens on `port` of loopback and answers ``GET /readyz``.
    log
        File to which the server's output is appended.
    ready_s
        Longest wait for readiness, seconds. A first start compiles loops for a minute of a core,
        on a busy machine for many; a server that ends is not waited for.

    Raises
    ------
    CliError
        If the server ends before it is ready, or is not ready in time.
    """
    with log.open("ab") as output:
        # A separate session: ^C reaches only this process, which then stops the server properly.
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    server = ServerProcess(process, port)
    try:
        _wait_until_ready(server, log, ready_s)
        yield server
    finally:
        server.kill()


def _wait_until_ready(server: ServerProcess, log: Path, within_s: float) -> None:
    began = time.monotonic()
    said = False
    while (passed := time.monotonic() - began) < within_s:
        if server.process.poll() is not None:
            raise CliError(f"the server did not start:\n{last_lines(log)}")
        if _is_ready(server.port):
            return
        if passed > _SAID_AFTER_S and not said:
            said = True
            sys.stderr.write("the server compiles its loops, the first time only\n")
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
