"""RunDirectory: one run on disk, from its order to its output and exit.

Every step is a file that is created once, so an executor that is killed at any time and restarted
continues where it was, and starts nothing twice:

- ``run.json``: the order, written before anything is started;
- ``environment``: the variables of a run in an image, which only this user may read;
- ``supervisor``: the process that controls the run, which is the first to create this file;
- ``stop``: the run is to be stopped;
- ``ended.json``: how it ended;
- ``stdout``, ``stderr``, ``work/``: its output and its working directory.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dispatch.backends.run_records import LOG_BYTES, PIECE_BYTES
from service.cli import executor_supervisor as supervisor

#: Bytes in a MiB, in which orders state memory.
_MIB: Final = 1024 * 1024

_SHOWN: Final = 300

#: Time that podman or docker has to answer, seconds.
ENGINE_S: Final = 30.0

#: Names of variables that podman and docker read as such from a file.
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")

#: Variables of the executor that runs have too.
_KEPT: Final = ("PATH", "HOME", "LANG")


@dataclass(frozen=True, slots=True)
class RunLimits:
    """How the requested resources of runs are enforced.

    Attributes
    ----------
    memory
        Whether the requested memory of a component limits the address space of each of its
        processes.
    stop_grace_s
        Time between SIGTERM and SIGKILL.
    engine
        The program that runs images, podman or docker; empty if there is none.
    mounts
        Folders of this host that images see at the same path: ``/data``, or ``/data:ro``.
    """

    memory: bool = False
    stop_grace_s: float = 5.0
    engine: str = ""
    mounts: tuple[str, ...] = ()


class RunDirectory:
    """One run of a component.

    Parameters
    ----------
    path
        Its directory; the last part is the id of the run.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def create(
        cls, root: Path, order: Mapping[str, Any], lease: Path, limits: RunLimits
    ) -> RunDirectory:
        """Record an order; an existing run stays as it is."""
        made = cls(root / order["id"])
        made.path.mkdir(parents=True, exist_ok=True)
        if not (made.path / "run.json").exists():
            memory = order["resources"].get("memory") if limits.memory else None
            entry = {
                **order,
                "lease": str(lease),
                "stop_grace": limits.stop_grace_s,
                "environment": _environment(order),
                "memory_bytes": None if memory is None else memory * _MIB,
                "argv": ["/bin/sh", "-c", order["command"]] if order["command"] else [],
            }
            if order.get("image") is not None:
                # The container has the limits and the variables; the program that starts it has
                # none, and of variables those of this executor.
                why = _why_no_image(order, limits)
                variables = made.path / "environment"
                argv = [] if why else image_argv(order, limits, variables)
                _write_variables(variables, {**order["environment"], **_own_variables(order)})
                entry |= {"argv": argv, "memory_bytes": None, "directory": None, "why": why}
                entry["environment"] = {"AGENDA_RUN": order["id"]}
                entry["cleanup"] = [limits.engine, "rm", "--force", _container(order["id"])]
            supervisor.write_json(str(made.path / "run.json"), entry)
        return made

    @property
    def id(self) -> str:
        """The id of the run."""
        return self.path.name

    def start(self) -> None:
        """Start its supervisor unless it had one; a second supervisor would exit."""
        if (self.path / "supervisor").exists() or self._is_starting():
            return
        why = self._why_never()
        if why:
            self._settle(126, why)
            return
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", supervisor.__file__, str(self.path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def stop(self) -> None:
        """Stop the run; a run that was never started is never started after that."""
        (self.path / "stop").touch()
        if not (self.path / "supervisor").exists():
            self._settle(0, "it was stopped before it began")

    def report(self) -> dict[str, Any]:
        """Return the run's entry in the report to the server."""
        if self._process is not None:
            self._process.poll()
        end = self._end()
        if end is None:
            begun = (self.path / "supervisor").exists()
            return {"id": self.id, "state": "running" if begun else "assigned"}
        state = "exited" if self._has_succeeded(end) else "failed"
        if end.get("lost"):
            state = "lost"
        if (self.path / "stop").exists() and end.get("stopped", True):
            state = "stopped"
        detail = {} if state == "exited" else _detail(end, self.path)
        return {"id": self.id, "state": state, "code": end["code"], **detail}

    def _has_succeeded(self, end: Mapping[str, Any]) -> bool:
        """Return whether the command ended on its own with an exit code of success."""
        order = _json(self.path / "run.json") or {}
        return not end["detail"] and end["code"] in order.get("success", (0,))

    def written_since(self, stream: str, start: int) -> tuple[int, bytes]:
        """Return a piece of a stream's output from an offset on, and where the piece begins.

        If there is more output than is kept, the oldest part is skipped.
        """
        try:
            with (self.path / stream).open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                start = max(start, size - LOG_BYTES)
                file.seek(start)
                return start, file.read(PIECE_BYTES)
        except OSError:
            return start, b""

    @property
    def has_ended(self) -> bool:
        """Whether none of its processes runs any more."""
        return self._end() is not None

    def _end(self) -> dict[str, Any] | None:
        """Return how it ended; None while it runs."""
        found = _json(self.path / "ended.json")
        if found is not None:
            return found
        deciding = _json(self.path / "supervisor")
        if deciding is None and not _is_empty(self.path / "supervisor"):
            return None
        if deciding and supervisor.started_at(deciding["pid"]) == deciding["started"]:
            return None
        # It may have written its end, its last action, between the two checks.
        found = _json(self.path / "ended.json")
        if found is None:
            end_processes_of(self.id)
            if not supervisor.clean_up(_json(self.path / "run.json") or {}):
                return None  # the next report tries again
            detail = "its supervisor was killed"
            found = {"code": -signal.SIGKILL, "detail": detail, "lost": True}
            supervisor.write_json(str(self.path / "ended.json"), found)
        return found

    def _is_starting(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _settle(self, code: int, detail: str) -> None:
        """Claim a run without a supervisor and record that it ended without a start."""
        if supervisor.claim(str(self.path)):
            supervisor.write_json(str(self.path / "ended.json"), {"code": code, "detail": detail})

    def _why_never(self) -> str:
        order = _json(self.path / "run.json") or {}
        if order.get("argv"):
            return ""
        return str(order.get("why") or "the component has no command to run")


def find_engine() -> tuple[str, list[str]]:
    """Return podman or docker, whichever answers on this host, and why others do not.

    The name is empty if none answers; programs that this host does not have are left out.
    """
    faults: list[str] = []
    for name in ("podman", "docker"):
        try:
            asked = subprocess.run(
                [name, "info"], capture_output=True, timeout=ENGINE_S, check=False
            )
        except subprocess.TimeoutExpired:
            faults.append(f"{name} info did not answer within {ENGINE_S:g} s")
            continue
        except OSError:
            continue
        if asked.returncode == 0:
            return name, faults
        faults.append(f"{name} info ended with code {asked.returncode}")
    return "", faults


def _why_no_image(order: Mapping[str, Any], limits: RunLimits) -> str:
    """Return why an image cannot run here; empty if it can."""
    if not limits.engine:
        return "this host has neither podman nor docker, so it runs no images"
    for name, value in order["environment"].items():
        if not _VARIABLE.fullmatch(name):
            return f"{name!r} is not a valid name of a variable"
        if set(value) & {"\n", "\r", "\0"}:
            return f"the value of {name} has a line break, which variables of images cannot have"
    return ""


def image_argv(order: Mapping[str, Any], limits: RunLimits, variables: Path) -> list[str]:
    """Return the command that runs the image of an order.

    It has the component's CPUs and memory as limits, the network of the host, and the folders that
    this host allows. Without a command the image runs its own. The variables are in a file: in the
    environment of podman or docker they would be settings of that program.
    """
    resources = order["resources"]
    # It has had its time to end before it is removed.
    options = ["--rm", f"--name={_container(order['id'])}", "--network=host", "--stop-timeout=0"]
    if resources.get("cpu"):
        options.append(f"--cpus={resources['cpu'] / 1000:g}")
    if resources.get("memory"):
        options.append(f"--memory={resources['memory']}m")
    options += [f"--volume={path.partition(':')[0]}:{path}" for path in limits.mounts]
    if order.get("directory"):
        options.append(f"--workdir={order['directory']}")
    options.append(f"--env-file={variables}")
    command = ["-c", order["command"]] if order["command"] else []
    if command:
        options.append("--entrypoint=/bin/sh")
    return [limits.engine, "run", *options, order["image"], *command]


def _write_variables(path: Path, variables: Mapping[str, str]) -> None:
    """Write variables, one a line, where only this user reads them."""
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
        file.writelines(f"{name}={value}\n" for name, value in variables.items())


def _container(run: str) -> str:
    return f"agenda-{run}"


def end_processes_of(run: str) -> None:
    """Kill the remaining processes of a run whose supervisor was killed, found by the run's id."""
    mark = f"AGENDA_RUN={run}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)
        except OSError:
            continue


def _environment(order: Mapping[str, Any]) -> dict[str, str]:
    """Return a run's environment: a minimal one, Agenda's variables, then the requested ones."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return {**kept, **order["environment"], **_own_variables(order)}


def _own_variables(order: Mapping[str, Any]) -> dict[str, str]:
    return {
        "AGENDA_RUN": order["id"],
        "AGENDA_APPLICATION": order["execution"],
        "AGENDA_COMPONENT": order["component"],
        "AGENDA_INDEX": str(order["index"]),
        "AGENDA_MACHINE": order["machine"],
    }


def _json(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file; None if the file is missing or incomplete."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _is_empty(path: Path) -> bool:
    """Return whether a file exists and is empty, as after a power failure."""
    try:
        return path.stat().st_size == 0
    except OSError:
        return False


def _detail(end: Mapping[str, Any], path: Path) -> dict[str, str]:
    """Return the detail for users: why the run ended, or the last line of its standard error."""
    detail = end["detail"]
    if not detail and end["code"] != 0:
        try:
            lines = (path / "stderr").read_bytes()[-2000:].decode(errors="replace").split("\n")
        except OSError:
            lines = []
        detail = next((line.strip() for line in reversed(lines) if line.strip()), "")
        detail = f"exit code {end['code']}: {detail}" if detail else f"exit code {end['code']}"
    shown = "".join(one if one.isprintable() else " " for one in detail)[:_SHOWN]
    return {"detail": shown} if shown else {}
