"""RunDirectory: one run on disk, from the order to what it wrote and how it ended.

Every step is a file that is made once, so an executor that is killed at any instant and started
again continues from where it was, and starts nothing twice:

- ``run.json``: the order, written before anything is started;
- ``supervisor``: the process that decides on the run; anyone who makes this file first does;
- ``stop``: the run is not wanted any more;
- ``ended.json``: how it ended;
- ``stdout``, ``stderr``, ``work/``: what it wrote, and where it ran.
"""

from __future__ import annotations

import json
import os
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


@dataclass(frozen=True, slots=True)
class RunLimits:
    """How runs are held to what they asked for.

    Attributes
    ----------
    memory
        Whether the memory that a component asked for is the most address space of each of its
        processes.
    stop_grace_s
        Time between SIGTERM and SIGKILL.
    """

    memory: bool = False
    stop_grace_s: float = 5.0


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
        """Record an order; one that is there already stays as it is."""
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
            }
            supervisor.write_json(str(made.path / "run.json"), entry)
        return made

    @property
    def id(self) -> str:
        """The id of the run."""
        return self.path.name

    def start(self) -> None:
        """Start its supervisor, unless there was one; it does nothing if there is one."""
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
        """Have it end; one that was never started never is."""
        (self.path / "stop").touch()
        if not (self.path / "supervisor").exists():
            self._settle(0, "it was stopped before it began")

    def report(self) -> dict[str, Any]:
        """Return what a server is notified of it."""
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
        """Return whether a command ended by itself with a code that is no failure."""
        order = _json(self.path / "run.json") or {}
        return not end["detail"] and end["code"] in order.get("success", (0,))

    def written_since(self, stream: str, start: int) -> tuple[int, bytes]:
        """Return what it wrote to a stream from a place on: where that begins, and a piece of it.

        Of more than is kept the oldest is left out.
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
        """Whether nothing of it runs any more."""
        return self._end() is not None

    def _end(self) -> dict[str, Any] | None:
        """Return how it ended; None while it continues."""
        found = _json(self.path / "ended.json")
        if found is not None:
            return found
        deciding = _json(self.path / "supervisor")
        if deciding is None and not _is_empty(self.path / "supervisor"):
            return None
        if deciding and supervisor.started_at(deciding["pid"]) == deciding["started"]:
            return None
        # Between the two looks it may have written how it ended, as the last thing it did.
        found = _json(self.path / "ended.json")
        if found is None:
            end_processes_of(self.id)
            detail = "its supervisor was killed"
            found = {"code": -signal.SIGKILL, "detail": detail, "lost": True}
            supervisor.write_json(str(self.path / "ended.json"), found)
        return found

    def _is_starting(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _settle(self, code: int, detail: str) -> None:
        """Decide on a run that no one has decided on: it ends without a start."""
        if supervisor.claim(str(self.path)):
            supervisor.write_json(str(self.path / "ended.json"), {"code": code, "detail": detail})

    def _why_never(self) -> str:
        order = _json(self.path / "run.json") or {}
        if order.get("image") is not None:
            return "this executor runs commands, not images"
        return "" if order.get("command") else "the component has no command to run"


def end_processes_of(run: str) -> None:
    """Kill what is left of a run whose supervisor was killed: its processes carry its id."""
    mark = f"AGENDA_RUN={run}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes().split(b"\0"):
                os.kill(int(process.name), signal.SIGKILL)
        except OSError:
            continue


def _environment(order: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment of a run: a plain one, its own names, then what it asked for."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    own = {
        "AGENDA_RUN": order["id"],
        "AGENDA_APPLICATION": order["execution"],
        "AGENDA_COMPONENT": order["component"],
        "AGENDA_INDEX": str(order["index"]),
        "AGENDA_MACHINE": order["machine"],
    }
    return {**kept, **order["environment"], **own}


def _json(path: Path) -> dict[str, Any] | None:
    """Return a JSON object of a file; None if it is not there, or only begun."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _is_empty(path: Path) -> bool:
    """Return whether there is a file without a byte: one that a loss of power has left behind."""
    try:
        return path.stat().st_size == 0
    except OSError:
        return False


def _detail(end: Mapping[str, Any], path: Path) -> dict[str, str]:
    """Return what a person should know: why it ended, or the last line it wrote as an error."""
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
