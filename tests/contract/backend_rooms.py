"""Rooms in which a backend is held to its contract: what runs there ends as the test wants."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from dispatch.backends.executors import ExecutorBackend, RunOrder
from dispatch.backends.in_memory import InMemoryBackend
from dispatch.backends.interface import Backend
from dispatch.backends.run_records import RunReport, RunState
from dispatch.backends.slurm.backend import SlurmBackend
from dispatch.backends.slurm.component_jobs import ComponentOrder
from dispatch.backends.slurm.control.job_names import job_name
from dispatch.backends.slurm.control.slurm import open_slurm
from dispatch.executions.assignment import Delta, Key
from rdl.resources import Resources
from service.store import Store
from tests.own_slurm import own_slurm

MACHINES = ("m-0", "m-1")


class BackendRoom(Protocol):
    """A backend, and a hand in what it runs."""

    backend: Backend

    def turn(self) -> None:
        """Let what was requested happen."""

    def end(self, key: Key, *, failed: bool = False) -> None:
        """Let a component end by itself."""

    def lose(self, machine: str) -> None:
        """Lose a machine and what runs there."""

    def restore(self, machine: str) -> None:
        """Bring a machine back."""

    def starts(self, key: Key) -> int:
        """Return how often a component has been started."""


class MemoryRoom:
    """Nothing runs."""

    def __init__(self) -> None:
        self.backend = InMemoryBackend(MACHINES)

    def turn(self) -> None:
        """See `BackendRoom.turn`."""

    def end(self, key: Key, *, failed: bool = False) -> None:
        """See `BackendRoom.end`."""
        self.backend.end(key, 10, failed=failed)

    def lose(self, machine: str) -> None:
        """See `BackendRoom.lose`."""
        self.backend.lose(machine, 10)

    def restore(self, machine: str) -> None:
        """See `BackendRoom.restore`."""
        self.backend.restore(machine, 10)

    def starts(self, key: Key) -> int:
        """See `BackendRoom.starts`."""
        return sum(row.key == key for row in self.backend.state().rows)


class ExecutorRoom:
    """One executor for each machine, played by the test; runs are what it says they are."""

    def __init__(self, folder: Path) -> None:
        self._rows = (store := Store(f"sqlite:///{folder / 'agenda.db'}")).runs
        self._tenure = store.applications.lead("me", 0, 10**12)
        self._runs: dict[str, dict[str, RunReport]] = {name: {} for name in MACHINES}
        self._silent: set[str] = set()
        self._clock_s = 0.0
        self._begun: dict[Key, int] = {}
        for name in MACHINES:
            self._rows.register(name, "i", [name], 0)
        self.backend = self._backend()

    def _backend(self) -> ExecutorBackend:
        return ExecutorBackend(
            self._rows,
            self._tenure,
            MACHINES,
            lambda _: RunOrder(b"{}", False),
            5.0,
            steady_s=lambda: self._clock_s,
        )

    def turn(self) -> None:
        """See `BackendRoom.turn`."""
        self._clock_s += 1.0
        self.backend.welcome_back()
        for name in MACHINES:
            if name in self._silent:
                continue
            answer = self._rows.sync(name, "i", list(self._runs[name].values()), 20)
            runs = {one.id: one for one in answer.wanted}
            for id_ in set(self._runs[name]) - set(runs):
                del self._runs[name][id_]
            for id_, run in runs.items():
                if id_ not in self._runs[name]:
                    key = (run.execution, run.component, run.number)
                    self._begun[key] = self._begun.get(key, 0) + 1
                    self._runs[name][id_] = RunReport(id_, RunState.RUNNING)
            self._rows.sync(name, "i", list(self._runs[name].values()), 20)

    def end(self, key: Key, *, failed: bool = False) -> None:
        """See `BackendRoom.end`."""
        (run,) = [
            one for one in self._rows.of_execution(key[0])
            if (one.execution, one.component, one.number) == key and one.is_open
        ]  # fmt: skip
        state, code = (RunState.FAILED, 3) if failed else (RunState.EXITED, 0)
        self._runs[run.machine][run.id] = RunReport(run.id, state, code, f"exit code {code}")

    def lose(self, machine: str) -> None:
        """See `BackendRoom.lose`."""
        self._silent.add(machine)
        self._runs[machine].clear()

    def restore(self, machine: str) -> None:
        """See `BackendRoom.restore`."""
        self._silent.discard(machine)

    def starts(self, key: Key) -> int:
        """See `BackendRoom.starts`."""
        return self._begun.get(key, 0)


class SlurmRoom:
    """Two nodes of a real Slurm; a component waits for a file that says how it ends."""

    def __init__(self, folder: Path, *, start_s: float = 300.0) -> None:
        self.nodes = {"m-0": "n1", "m-1": "n2"}
        self.slurm = own_slurm()
        self._folder = folder
        settings = self.slurm.settings(self.nodes)
        self.settings = replace(settings, start_s=start_s)
        self._open = open_slurm(self.settings)
        self.backend = self.backend_of(1)

    def backend_of(self, tenure: int) -> SlurmBackend:
        """Return a backend on the same Slurm, as of a leader in a tenure."""
        return SlurmBackend(self._open, self._order, tenure=tenure)

    def _order(self, delta: Delta) -> ComponentOrder:
        stem = shlex.quote(str(self._stem((delta.execution, delta.component, delta.index))))
        command = (
            f"echo $AGENDA_MACHINE >> {stem}.starts; "
            f"while [ ! -e {stem}.end ]; do sleep 0.1; done; exit $(cat {stem}.end)"
        )
        resources = Resources.of({"cpu": 1000, "memory": 50})
        return ComponentOrder("job", "ads", command, resources, (), False, None, 0)

    def _stem(self, key: Key) -> Path:
        return self._folder / "-".join(map(str, key))

    def turn(self) -> None:
        """See `BackendRoom.turn`."""

    def end(self, key: Key, *, failed: bool = False) -> None:
        """See `BackendRoom.end`."""
        ready = self._stem(key).with_suffix(".ready")
        ready.write_text("3" if failed else "0")
        ready.rename(ready.with_suffix(".end"))  # it is looked for: never there and empty

    def lose(self, machine: str) -> None:
        """See `BackendRoom.lose`."""
        node = f"nodename={self.nodes[machine]}"
        self.slurm.commands.run("scontrol", "update", node, "state=down", "reason=test")

    def restore(self, machine: str) -> None:
        """See `BackendRoom.restore`."""
        self.slurm.commands.run(
            "scontrol", "update", f"nodename={self.nodes[machine]}", "state=resume"
        )

    def starts(self, key: Key) -> int:
        """See `BackendRoom.starts`."""
        path = self._stem(key).with_suffix(".starts")
        return len(path.read_text().splitlines()) if path.exists() else 0

    def job_of(self, key: Key) -> int:
        """Return the newest job of a component."""
        name = job_name(self.settings.prefix, key)
        return max(job.id for job in self.slurm.jobs(self.settings.prefix) if job.name == name)

    def close(self) -> None:
        """Leave nothing behind."""
        for machine in self.nodes:
            self.restore(machine) if self._is_down(machine) else None
        self.slurm.clear(self.settings.prefix)

    def _is_down(self, machine: str) -> bool:
        nodes = {node.name: node for node in self.slurm.commands.nodes()}
        return not nodes[self.nodes[machine]].is_up


@contextmanager
def backend_room(kind: str, folder: Path) -> Iterator[BackendRoom]:
    """Yield a room of a kind, with nothing in it."""
    if kind == "in_memory":
        yield MemoryRoom()
    elif kind == "executor":
        yield ExecutorRoom(folder)
    else:
        room = SlurmRoom(folder)
        try:
            yield room
        finally:
            room.close()
