"""A lab of two machines: a real server, executors as processes, and a file that runs write to."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from service.cli.server_process import ServerProcess
from tests.end_to_end.server_process import Client, serving

CLUSTER = """
step = "1s"
horizon = "1h"

[[machines]]
name = "lab"
count = 2
resources = { cpu = 2, memory = "512 MiB" }
"""

#: Longer than a server takes to start on a busy machine, and as short as it may be.
LONG_S, SHORT_S = 120.0, 4.0


class Lab:
    """A server, its executors, and a file that runs write to."""

    def __init__(self, folder: Path, stack: ExitStack, cluster: str = CLUSTER) -> None:
        self.cluster = folder / "cluster.toml"
        self.cluster.write_text(cluster)
        self.enter(folder)
        self._stack = stack
        self._executors: list[subprocess.Popen[bytes]] = []
        self.server: ServerProcess | None = None
        self.port: int | None = None

    def enter(self, folder: Path) -> None:
        """Keep in another folder what executors and runs write from now on."""
        self.folder = folder
        self.notes = folder / "notes"
        self.notes.touch()

    def leave(self) -> None:
        """End executors that run nothing, and let the server forget them."""
        for process in self._executors:
            end(process)
        self._executors.clear()
        for one in self.call("GET", "/v1/executors")["executors"]:
            self.call("DELETE", f"/v1/executors/{one['id']}")

    def serve(self, lease_s: float) -> None:
        """Start the server, at the same port each time."""
        entered = serving(
            self.cluster.with_name("agenda.db"),
            self.cluster,
            port=self.port,
            executors=True,
            lease_s=lease_s,
        )
        self.server = self._stack.enter_context(entered)
        self.port = self.server.port

    def execute(
        self,
        *machines: str,
        name: str = "one",
        address: str = "127.0.0.1",
        path: str = "",
        options: Sequence[str] = (),
    ) -> subprocess.Popen[bytes]:
        """Start an executor; programs are looked for in the folder `path` first."""
        named = [part for machine in machines for part in ("--machine", machine)]
        command = [
            sys.executable, "-m", "service.cli.main", "executor", *named, *options, "--id", name,
            "--server", f"http://127.0.0.1:{self.port}", "--state", str(self.folder / name),
            "--every", "0.1", "--stop-grace", "0.5", "--address", address,
        ]  # fmt: skip
        with (self.folder / f"{name}.log").open("ab") as log:
            environment = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}".lstrip(":")}
            process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        self._stack.callback(end, process)
        self._executors.append(process)
        return process

    def call(self, method: str, path: str, body: object = None) -> Any:
        """Return the body of an answer that is not a problem."""
        assert self.port is not None
        status, found = Client(self.port).call(method, path, body)
        assert status < 300, found
        return found

    def submit(self, command: str, **application: Any) -> str:
        """Submit an application of one core component; return its id."""
        core = {"name": "work", "count": 1, "core": True, "resources": {"cpu": 1}}
        parts = [{**core, "command": command, **application.pop("component", {})}]
        whole = {"name": "job", "components": parts, **application}
        return str(self.call("POST", "/v1/applications", {"application": whole})["id"])

    def state(self, id_: str) -> str:
        """Return the state of an application."""
        return str(self.call("GET", f"/v1/applications/{id_}")["state"])

    def runs(self, id_: str) -> list[dict[str, Any]]:
        """Return its runs."""
        return list(self.call("GET", f"/v1/applications/{id_}/runs")["runs"])

    def lines(self) -> list[str]:
        """Return what runs wrote."""
        return self.notes.read_text().split("\n")[:-1]

    def story(self, ids: Sequence[str]) -> str:
        """Return what runs, executors and servers wrote and the outcome of runs, for a failure."""
        files = [self.notes, *sorted(self.folder.glob("*.log"))]
        written = [f"--- {file.name}\n{file.read_text()}" for file in files]
        return "\n".join([*written, *(f"--- {id_}\n{self.runs(id_)}" for id_ in ids)])


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process that a test has begun."""
    process.kill()
    process.wait()
