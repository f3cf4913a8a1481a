"""Supervisor: run one command, store its output and exit code, and stop it in time.

Each run has its own supervisor process, so that the executor may be killed and restarted while the
run continues. The supervisor ends the run when a file `stop` appears in the run's directory, and
when the executor's lease is over: the server then counts the run as lost and starts it elsewhere.

It is called as ``python -I -S supervisor.py DIRECTORY`` and imports only a small part of the
standard library. Linux only: it asks the kernel to kill the command when the supervisor dies.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

#: Interval at which the command, the lease and the stop file are polled, seconds.
LOOK_S = 0.1

#: Pause before a container that could not be removed is removed again, and the time of one try,
#: seconds.
_CLEAN_UP_S = 1.0
_REMOVE_S = 10.0

#: Option of prctl(2) for the signal that a process gets when its parent ends.
_PR_SET_PDEATHSIG = 1

#: Exit code of a shell that cannot run a command, and of a command that ran for too long.
_CANNOT_RUN = 126
_TIMED_OUT = 124


def claim(directory: str) -> bool:
    """Claim a run for this process; return False if another process has claimed it.

    The file names the process and its start time, so that a later process with the same pid is not
    mistaken for it. The file appears with its whole content: a run with an empty one could never be
    ended.
    """
    path = os.path.join(directory, "supervisor")
    draft = _draft(path, {"pid": os.getpid(), "started": started_at(os.getpid())})
    try:
        os.link(draft, path)
    except FileExistsError:
        return False
    finally:
        os.unlink(draft)
    return True


def started_at(pid: int) -> str:
    """Return a value that distinguishes a process from later ones with its pid; empty if it has
    ended."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        with open("/proc/sys/kernel/random/boot_id") as boot:
            # A zombie counts as ended.
            return "" if fields[0] in "ZX" else f"{boot.read().strip()} {fields[19]}"
    except OSError:
        return ""


def write_json(path: str, value: Mapping[str, Any]) -> None:
    """Replace a file by JSON, atomically and durably."""
    os.replace(_draft(path, value), path)
    folder = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _draft(path: str, value: Mapping[str, Any]) -> str:
    """Write JSON durably to a temporary file next to a path; return the name of that file."""
    draft = f"{path}.{os.getpid()}"
    with open(draft, "w") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    return draft


def lease_is_over(path: str) -> bool:
    """Return whether an executor has not renewed its lease in time; True if it is unknown."""
    try:
        with open(path) as file:
            return time.monotonic() > float(json.load(file)["until"])
    except (OSError, ValueError, KeyError):
        return True


def supervise(directory: str) -> None:
    """Run the command of ``run.json`` to its end."""
    if not claim(directory):
        return
    with open(os.path.join(directory, "run.json")) as file:
        run = json.load(file)
    end = os.path.join(directory, "ended.json")
    try:
        child = _begin(directory, run)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        write_json(end, {"code": _CANNOT_RUN, "detail": f"it could not be started: {error}"})
        return
    detail = ""
    stopping = late = False
    kill_at = float("inf")
    timeout = run.get("timeout")
    late_at = float("inf") if timeout is None else time.monotonic() + timeout
    while child.poll() is None:
        why = "" if stopping else _why_stop(directory, run["lease"])
        if why:
            stopping, detail = True, why
            kill_at = time.monotonic() + run["stop_grace"]
            _signal(child.pid, signal.SIGTERM)
        elif not (stopping or late) and time.monotonic() >= late_at:
            late, detail = True, f"it ran for longer than its timeout of {timeout:g} s"
            kill_at = time.monotonic() + run["stop_grace"]
            _signal(child.pid, signal.SIGTERM)
        if time.monotonic() >= kill_at:
            _signal(child.pid, signal.SIGKILL)
        try:
            child.wait(LOOK_S)
        except subprocess.TimeoutExpired:
            continue
    _signal(child.pid, signal.SIGKILL)  # the remaining processes of its group
    while not clean_up(run):
        time.sleep(_CLEAN_UP_S)
    lost = stopping and not os.path.exists(os.path.join(directory, "stop"))
    code = _TIMED_OUT if late and not stopping else child.returncode
    told = {"code": code, "detail": detail, "lost": lost, "stopped": stopping}
    write_json(end, told)


def clean_up(run: Mapping[str, Any]) -> bool:
    """Remove the container of a run that had one; return whether none is left.

    It may outlive the program that began it, so a run has not ended before this succeeds.
    """
    if not run.get("cleanup"):
        return True
    try:
        done = subprocess.run(
            run["cleanup"], capture_output=True, text=True, timeout=_REMOVE_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0 or "no such container" in done.stderr.lower()


def _why_stop(directory: str, lease: str) -> str:
    if os.path.exists(os.path.join(directory, "stop")):
        return "it was stopped"
    return "its executor fell silent" if lease_is_over(lease) else ""


def _begin(directory: str, run: Mapping[str, Any]) -> subprocess.Popen[bytes]:
    work = os.path.join(directory, "work")
    os.makedirs(work, exist_ok=True)
    with (
        open(os.path.join(directory, "stdout"), "ab") as out,
        open(os.path.join(directory, "stderr"), "ab") as err,
    ):
        return subprocess.Popen(
            run["argv"],
            cwd=run.get("directory") or work,
            env={**(os.environ if run.get("cleanup") else {}), **run["environment"]},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
            preexec_fn=_limits(run.get("memory_bytes")),
        )


def _limits(memory_bytes: int | None) -> Callable[[], None]:
    """Return the function that sets the limits of a command in its process before it begins."""
    prctl = ctypes.CDLL(None).prctl

    def limit() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if memory_bytes is not None:
            resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))

    return limit


def _signal(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return


if __name__ == "__main__":
    supervise(sys.argv[1])
