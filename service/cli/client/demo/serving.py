"""The demo's processes: one server, and an executor for each rack of the example cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from service.cli.client.server import Server
from service.cli.client.server_process import run_server

_DOWN_WITHIN_S: Final = 40.0

#: Silence after which a rack is lost, seconds of the machine's clock.
LEASE_S: Final = 6.0

#: So much silence of the one process that dispatches never is: its time goes faster.
_NEVER_S: Final = 1e9

#: What runs one process of the demo.
_PART: Final = "service.cli.client.demo.part"

_RACKS: Final = 4
_PLAIN: Final = 28


def command_of(kind: str, *arguments: str) -> list[str]:
    """Return what starts a part of this process's demo.

    Parameters
    ----------
    kind
        ``server`` (a folder and a port follow) or ``executor`` (options of `agenda executor`).
    """
    return [sys.executable, "-m", _PART, str(os.getpid()), kind, *arguments]


def serve_day(folder: str, port: str) -> None:
    """Serve the example day of a folder on a port; does not return."""
    from service.config import ServiceConfig
    from service.server import run

    run(
        ServiceConfig(
            database=f"sqlite:///{Path(folder) / 'agenda.db'}",
            cluster=Path(folder) / "cluster.toml",
            port=int(port),
            workers=1,
            executors=True,
            lease_s=LEASE_S,
            tick_s=0.2,
            takeover_s=_NEVER_S,
            clock_file=Path(folder) / "clock.json",
        )
    )


@contextmanager
def serving(folder: Path, port: int) -> Iterator[Server]:
    """Serve the day of a folder, up when the block begins, down after it."""
    command = command_of("server", str(folder.resolve()), str(port))
    with run_server(command, port, folder / "server.log") as process:
        try:
            yield Server(f"http://127.0.0.1:{port}")
        finally:
            process.stop(_DOWN_WITHIN_S)


class Rack:
    """Some machines of the example cluster, played by one executor of this machine.

    Parameters
    ----------
    number
        From 0; a quarter of the plain machines and one with GPUs are in each rack.
    """

    def __init__(self, server: Server, folder: Path, number: int) -> None:
        share = _PLAIN // _RACKS
        plain = range(number * share, (number + 1) * share)
        self.name = f"rack-{number}"
        self.machines = (*(f"standard-{index}" for index in plain), f"gpu-{number}")
        self.state = folder / self.name
        self._url = server.url
        self._log = folder / f"{self.name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start its executor, which takes over what runs there."""
        machines = (word for name in self.machines for word in ("--machine", name))
        command = command_of(
            "executor", "--server", self._url, "--id", self.name, "--state", str(self.state),
            "--every", "0.2", "--stop-grace", "0.5", *machines,
        )  # fmt: skip
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True
            )

    def lose(self) -> None:
        """End its executor at this instant, as a cut cable would: nothing is said any more."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """End its executor in peace; what it runs ends by itself when the lease is over."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait()

    def written(self, run: str) -> str:
        """Return what a run has written to standard output so far."""
        for folder in ("runs", "over"):
            path = self.state / folder / run / "stdout"
            if path.exists():
                return path.read_text(encoding="utf-8", errors="replace")
        return ""


@contextmanager
def racks(server: Server, folder: Path) -> Iterator[list[Rack]]:
    """Run an executor for each rack, and leave none behind."""
    found = [Rack(server, folder, number) for number in range(_RACKS)]
    try:
        for rack in found:
            rack.start()
        yield found
    finally:
        for rack in found:
            rack.stop()
