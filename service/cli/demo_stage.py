"""The demo's server and clock, and helpers for the scenes.

Run as ``demo_stage PARENT FOLDER PORT``, it is the server of the demo. It ends with the demo,
however that ends: a demo that is killed cannot stop the processes that it has started."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from service.cli.kit.errors import CliError
from service.cli.kit.server import Server
from service.cli.server_process import last_lines, run_server
from service.clock import Clock, FileClock, SystemClock, instant_of, set_pace, unix_ms
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

    def skip_to(self, at: str) -> None:
        """Continue from an RFC 3339 instant, if it is to come, in real time."""
        set_pace(self.path, max(self.now_ms(), unix_ms(datetime.fromisoformat(at))), 1.0,
                 self._machine)  # fmt: skip

    def wait_until(self, hour: float) -> None:
        """Block until that hour of the day."""
        while self.since_midnight_s() < hour * 3600:
            time.sleep(0.05)

    def text(self) -> str:
        """Return the time of the day, such as ``06:12``."""
        return f"{instant_of(self.now_ms()):%H:%M}"


_DOWN_WITHIN_S: Final = 40.0

#: Takeover time of the only process that dispatches; practically never, as its clock runs faster.
_NEVER_S: Final = 1e9

#: The module that runs the server of the demo.
_PART: Final = "service.cli.demo_stage"

_RACKS: Final = 4
_PLAIN: Final = 28


def command_of(folder: Path, port: int) -> list[str]:
    """Return the command that serves the example day of a folder, until this process ends."""
    return [sys.executable, "-m", _PART, str(os.getpid()), str(folder.resolve()), str(port)]


def serve_day(folder: Path, port: int) -> None:
    """Serve the example day of a folder on a port, with work on this host; does not return."""
    from service.config import ServiceConfig
    from service.server import run

    run(
        ServiceConfig(
            database=f"sqlite:///{folder / 'agenda.db'}",
            cluster=folder / "cluster.toml",
            port=port,
            workers=1,
            executors=True,
            local=folder / "runs",
            tick_s=0.2,
            takeover_s=_NEVER_S,
            clock_file=folder / "clock.json",
        )
    )


@contextmanager
def serving(folder: Path, port: int) -> Iterator[Server]:
    """Run the server of a folder's day; it is ready when the block begins and stops after it."""
    with run_server(command_of(folder, port), port, folder / "server.log") as process:
        try:
            yield Server(f"http://127.0.0.1:{port}")
        finally:
            process.stop(_DOWN_WITHIN_S)


@dataclass(frozen=True, slots=True)
class Rack:
    """A rack of the example cluster: a quarter of the plain machines, and one with GPUs.

    Attributes
    ----------
    number
        From 0.
    """

    number: int

    @classmethod
    def of(cls, machine: str) -> Rack:
        """Return the rack of a machine."""
        return next(rack for rack in map(cls, range(_RACKS)) if machine in rack.machines)

    @property
    def name(self) -> str:
        """Its name."""
        return f"rack-{self.number}"

    @property
    def groups(self) -> dict[str, list[str]]:
        """Its machines, by group of the cluster."""
        share = _PLAIN // _RACKS
        plain = range(self.number * share, (self.number + 1) * share)
        return {
            "standard": [f"standard-{index}" for index in plain],
            "gpu": [f"gpu-{self.number}"],
        }

    @property
    def machines(self) -> list[str]:
        """The names of its machines."""
        return [name for names in self.groups.values() for name in names]


T = TypeVar("T")

_PAUSE_S: Final = 0.1


@dataclass(frozen=True, slots=True)
class DemoStage:
    """The server, its clock and its folder: what the scenes act on."""

    server: Server
    clock: DayClock
    folder: Path

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
            f"{last_lines(self.folder / 'server.log')}"
        )

    def lose(self, group: str, names: list[str], reason: str) -> str:
        """Lose machines of a group for half a day; return the id of the outage."""
        outage = {"machines": group, "names": names, "kind": "loss", "end": "+12h"}
        id_: str = self.post("/v1/cluster/outages", {**outage, "reason": reason})["outage"]["id"]
        return id_

    def repair(self, outage: str) -> None:
        """End an outage."""
        self.server.call("DELETE", f"/v1/cluster/outages/{outage}").good()


def main(arguments: Sequence[str]) -> None:
    """Serve the day of a folder on a port, until the demo ends."""
    parent, folder, port = arguments
    end_with_parent(int(parent))
    serve_day(Path(folder), int(port))


if __name__ == "__main__":
    main(sys.argv[1:])
