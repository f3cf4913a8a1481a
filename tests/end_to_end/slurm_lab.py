"""A server on a real Slurm, and a file that runs write to."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from dispatch.backends.slurm.control.errors import SlurmError
from dispatch.backends.slurm.control.records import SlurmJob
from service.cli.server_process import ServerProcess
from tests.end_to_end.server_process import Client, serving
from tests.own_slurm import OwnSlurm, own_slurm
from tests.patience import eventually

NODES = 6
CLUSTER = f"""
step = "1s"
horizon = "1h"

[[machines]]
name = "n"
count = {NODES}
resources = {{ cpu = 4, memory = "2000 MiB" }}
"""
#: The node of each machine.
MACHINES = {f"n-{index}": f"n{index + 1}" for index in range(NODES)}


class SlurmLab:
    """A server on a Slurm, and a file that runs write to."""

    def __init__(
        self,
        folder: Path,
        stack: ExitStack,
        cluster: str = CLUSTER,
        machines: dict[str, str] = MACHINES,
    ) -> None:
        self.folder = folder
        self.slurm: OwnSlurm = own_slurm()
        self._stack = stack
        self.cluster = folder / "cluster.toml"
        self.cluster.write_text(cluster)
        self.machines = machines
        self.settings = self.slurm.settings_file(folder / "slurm.toml", machines)
        self.prefix = self.settings.read_text().split('"')[1]
        self.server: ServerProcess | None = None
        self.port: int | None = None

    def serve(self) -> None:
        """Start the server, at the same port each time."""
        database = self.folder / "agenda.db"
        self.server = self._stack.enter_context(
            serving(database, self.cluster, port=self.port, slurm=str(self.settings))
        )
        self.port = self.server.port

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Return the body of an answer that is not a problem."""
        assert self.port is not None
        status, found = Client(self.port).call(method, path, body)
        assert status < 300, found
        return found

    def reserve(self, id_: str, rdl: str, tenant: str = "root") -> dict[str, Any]:
        """Reserve; return the answer."""
        body = {"id": id_, "rdl": rdl, "tenant": tenant}
        return dict(self.call("POST", "/v1/reservations", body))

    def submit(self, id_: str, *components: dict[str, Any], **more: Any) -> None:
        """Submit an application."""
        whole = {"name": id_, "components": list(components), **more}
        body = {"id": id_, "tenant": "root", "application": whole}
        self.call("POST", "/v1/applications", body)

    def application(self, id_: str) -> dict[str, Any]:
        """Return an application."""
        return dict(self.call("GET", f"/v1/applications/{id_}"))

    def running(self, id_: str, component: str = "") -> list[SlurmJob]:
        """Return the jobs of an application that run."""
        stem = f"{self.prefix}/{id_}/{component}"
        return [
            job for job in self.slurm.jobs(self.prefix) if job.is_up and job.name.startswith(stem)
        ]

    def jobs(self, id_: str) -> list[SlurmJob]:
        """Return all jobs of an application."""
        return self.slurm.jobs(f"{self.prefix}/{id_}/")

    def slots(self, id_: str) -> set[str]:
        """Return the machines that the Plan holds for a reservation."""
        found = self.call("GET", f"/v1/reservations/{id_}")
        text = json.dumps(found["atoms"])
        return {name for name in self.machines if f'"{name}"' in text}

    def is_unreserved(self) -> bool:
        """Return whether no reservation of an earlier test holds anything any more."""
        states = ("accepted", "active")
        pages = (self.call("GET", f"/v1/reservations?state={state}") for state in states)
        return not any(page["reservations"] for page in pages)

    def close(self) -> None:
        """Leave nothing behind."""
        self.slurm.clear(self.prefix)
        self.slurm.wait_for_nodes()


def part(name: str, count: int, command: str, *, core: bool = True, cpu: int = 4) -> dict[str, Any]:
    """Return a component."""
    return {
        "name": name, "count": count, "core": core, "resources": {"cpu": cpu}, "command": command,
    }  # fmt: skip


def resume(lab: SlurmLab, node: str) -> None:
    """End a drain; Slurm itself ends that of a node that was down before and is back meanwhile."""
    try:
        lab.slurm.commands.run("scontrol", "update", f"nodename={node}", "state=resume")
    except SlurmError:
        if any(one.name == node and "DRAIN" in one.flags for one in lab.slurm.commands.nodes()):
            raise


def until(look: Callable[[], Any], limit_s: float = 240) -> Any:
    """Wait, looking as often as a busy machine bears."""
    return eventually(look, limit_s=limit_s, pause_s=0.3)
