"""DemoStage: what each scene of the demo is given, and how it tells what happens."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from service.cli.client.demo.day_clock import DayClock
from service.cli.client.demo.serving import Rack
from service.cli.client.server import Server
from service.cli.client.server_process import last_lines
from service.cli.terminal.errors import CliError

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
            f"the demo waited {within_s:g} s in vain for {what}; its server wrote last:\n"
            f"{last_lines(self.log)}"
        )

    def rack_of(self, machine: str) -> Rack:
        """Return the rack in which a machine stands."""
        return next(rack for rack in self.racks if machine in rack.machines)
