"""The demo's processes and time: a server, an executor for each rack, and what scenes are given.

Run as ``demo_stage PARENT server|executor`` it is one process of the demo, which ends with the demo
however that ends: a demo that is killed cannot end what it has started."""

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
    """Shows the midnight (UTC) with which yesterday began, and continues as fast as it is reported.

    Yesterday, so that a server that is started on the same database later is never before it.

    Parameters
    ----------
    folder
        Where the file is kept.
    machine
        The clock that time passes by; the machine's when absent.
    """

    def __init__(self, folder: Path, machine: Clock | None = None) -> None:
        self.path = folder / "clock.json"
        self._machine = machine or SystemClock()
        now_ms = self._machine.now_ms()
        self.midnight_ms = now_ms - now_ms % _DAY_MS - _DAY_MS
        set_pace(self.path, self.midnight_ms, 1.0, self._machine)
        self._clock = FileClock(self.path, self._machine)

    def now_ms(self) -> int:
        """Return what it shows, ms since 1970."""
        return self._clock.now_ms()

    def since_midnight_s(self) -> float:
        """Return how much of the day is over, seconds."""
        return (self.now_ms() - self.midnight_ms) / 1000

    def go(self, speed: float) -> None:
        """Continue from what it shows, `speed` seconds a second."""
        set_pace(self.path, self.now_ms(), speed, self._machine)

    def wait_until(self, hour: float) -> None:
        """Return when it shows that hour of the day, or a later one."""
        while self.since_midnight_s() < hour * 3600:
            time.sleep(0.05)

    def text(self) -> str:
        """Return the time of the day, such as ``06:12``."""
        return f"{instant_of(self.now_ms()):%H:%M}"


_DOWN_WITHIN_S: Final = 40.0

#: Silence after which a rack is lost, seconds of the machine's clock.
LEASE_S: Final = 6.0

#: So much silence of the one process that dispatches never is: its time goes faster.
_NEVER_S: Final = 1e9

#: What runs one process of the demo.
_PART: Final = "service.cli.demo_stage"

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


T = TypeVar("T")

_PAUSE_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class DemoStage:
    """The server, its racks and its time.

    Attributes
    ----------
    server, racks, clock
        What the scenes act on.
    log
        What the server writes.
    """

    server: Server
    racks: list[Rack]
    clock: DayClock
    log: Path

    def tell(self, text: str) -> None:
        """Print one line with the time of the day."""
        click.echo(f"{self.clock.text()}  {text}")

    def get(self, path: str, **query: object) -> Any:
        """Return what the server answers."""
        return self.server.call("GET", path, query=query or None).good()

    def post(self, path: str, body: object) -> Any:
        """Return what the server answers to a change."""
        return self.server.call("POST", path, body).good()

    def version(self) -> int:
        """Return the version of the Plan."""
        version: int = self.get("/v1/plan", step="1d")["version"]
        return version

    def seen(self, what: str, look: Callable[[], T | None], within_s: float = 180.0) -> T:
        """Look again and again until something is there, and return it.

        Raises
        ------
        CliError
            If it does not come in time, saying what was waited for.
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
        """Return the rack in which a machine stands."""
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
