"""The demo's processes and clock: a server, an executor per rack, and helpers for the scenes.

Run as ``demo_stage PARENT server|executor``, it is one process of the demo. It ends with the demo
however that ends: a demo that is killed cannot stop the processes that it has started."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from service.cli.kit.errors import CliError
from service.cli.kit.server import Server
from service.cli.server_process import last_lines, run_server
from service.clock import Clock, FileClock, SystemClock, instant_of, set_pace
from service.host.processes import end_with_parent

_DAY_MS = 86_400_000


class DayClock:
    """A clock that starts at the midnight (UTC) at which yesterday began, and runs at a set speed.

    It starts yesterday so that the clock of a later server on the same database is never behind it.

    Parameters
    ----------
    folder
        Where the file of the clock is kept.
    machine
        The underlying clock; the machine's when absent.
    """

    def __init__(self, folder: Path, machine: Clock | None = None) -> None:
        self.path = folder / "clock.json"
        self._machine = machine or SystemClock()
        now_ms = self._machine.now_ms()
        self.midnight_ms = now_ms - now_ms % _DAY_MS - _DAY_MS
        set_pace(self.path, self.midnight_ms, 1.0, self._machine)
        self._clock = FileClock(self.path, self._machine)

    def now_ms(self) -> int:
        """Return the time, ms since 1970."""
        return self._clock.now_ms()

    def since_midnight_s(self) -> float:
        """Return the time since midnight, seconds."""
        return (self.now_ms() - self.midnight_ms) / 1000

    def go(self, speed: float) -> None:
        """Continue from the present time at `speed` seconds per second."""
        set_pace(self.path, self.now_ms(), speed, self._machine)

    def wait_until(self, hour: float) -> None:
        """Block until that hour of the day."""
        while self.since_midnight_s() < hour * 3600:
            time.sleep(0.05)

    def text(self) -> str:
        """Return the time of the day, such as ``06:12``."""
        return f"{instant_of(self.now_ms()):%H:%M}"


_DOWN_WITHIN_S: Final = 40.0

#: Time without a report after which a rack counts as lost, seconds of the machine's clock.
LEASE_S: Final = 6.0

#: Takeover time of the only process that dispatches; practically never, as its clock runs faster.
_NEVER_S: Final = 1e9

#: The module that runs one process of the demo.
_PART: Final = "service.cli.demo_stage"

_RACKS: Final = 4
_PLAIN: Final = 28


def command_of(kind: str, *arguments: str) -> list[str]:
    """Return the command that starts a process of this demo.

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
    """Run the server of a folder's day; it is ready when the block begins and stops after it."""
    command = command_of("server", str(folder.resolve()), str(port))
    with run_server(command, port, folder / "server.log") as process:
        try:
            yield Server(f"http://127.0.0.1:{port}")
        finally:
            process.stop(_DOWN_WITHIN_S)


class Rack:
    """Some machines of the example cluster, simulated by one executor on this machine.

    Parameters
    ----------
    number
        From 0; each rack has a quarter of the plain machines and one machine with GPUs.
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
        """Start its executor, which takes over the runs there."""
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
        """Kill its executor, which sends no more reports, as after a network failure."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """Stop its executor; its runs end by themselves when the lease is over."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait()

    def written(self, run: str) -> str:
        """Return the standard output of a run so far."""
        for folder in ("runs", "over"):
            path = self.state / folder / run / "stdout"
            if path.exists():
                return path.read_text(encoding="utf-8", errors="replace")
        return ""


@contextmanager
def racks(server: Server, folder: Path) -> Iterator[list[Rack]]:
    """Run an executor for each rack, and stop all of them afterwards."""
    found = [Rack(server, folder, number) for number in range(_RACKS)]
    try:
        for rack in found:
            rack.start()
        yield found
    finally:
        for rack in found:
            rack.stop()


T = TypeVar("T")

_PAUSE_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class DemoStage:
    """The server, its racks and its clock.

    Attributes
    ----------
    server, racks, clock
        What the scenes act on.
    log
        The server's log file.
    """

    server: Server
    racks: list[Rack]
    clock: DayClock
    log: Path

    def tell(self, text: str) -> None:
        """Print one line with the time of the day."""
        click.echo(f"{self.clock.text()}  {text}")

    def get(self, path: str, **query: object) -> Any:
        """Return the server's answer to a GET."""
        return self.server.call("GET", path, query=query or None).good()

    def post(self, path: str, body: object) -> Any:
        """Return the server's answer to a POST."""
        return self.server.call("POST", path, body).good()

    def version(self) -> int:
        """Return the version of the Plan."""
        version: int = self.get("/v1/plan", step="1d")["version"]
        return version

    def seen(self, what: str, look: Callable[[], T | None], within_s: float = 180.0) -> T:
        """Poll until `look` returns a value, and return it.

        Raises
        ------
        CliError
            If there is none in time; the message names `what`.
        """
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            if found := look():
                return found
            time.sleep(_PAUSE_S)
        raise CliError(
            f"the demo waited {within_s:g} s without success for {what}; its server wrote last:\n"
            f"{last_lines(self.log)}"
        )

    def rack_of(self, machine: str) -> Rack:
        """Return the rack of a machine."""
        return next(rack for rack in self.racks if machine in rack.machines)


def main(arguments: Sequence[str]) -> None:
    """Run the part of the demo that the arguments name, until the demo ends."""
    parent, kind, *rest = arguments
    end_with_parent(int(parent))
    if kind == "server":
        serve_day(*rest)
    else:
        from service.cli.executor import executor

        executor.main(rest, prog_name="agenda executor")


if __name__ == "__main__":
    main(sys.argv[1:])
