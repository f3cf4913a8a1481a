"""Solves in a process of their own: whatever ends them, nothing of them is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from lp.limits import Monitor, SolveLimits
from lp.result import SolveStatus, StopReason
from lp.solver import solve
from tests.lp.models import knapsack
from tests.patience import eventually

pytestmark = pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")


def below(pid: int) -> set[int]:
    """Return all processes below one."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        own = {int(word) for one in threads for word in (one / "children").read_text().split()}
    except OSError:  # it has ended meanwhile
        return set()
    return own.union(*map(below, own))


def is_cbc(pid: int) -> bool:
    """Return whether a process is CBC."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip() == "cbc"
    except OSError:
        return False


def alive(pids: Iterable[int]) -> list[int]:
    """Return those that still run; who waits to be reaped does not."""
    found = []
    for pid in pids:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z":
            found.append(pid)
    return found


@pytest.mark.parametrize("watchdog", [True, False])
def test_a_stop_ends_a_solver_that_is_a_program_too(
    watchdog: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CBC cannot be asked to stop: it is ended with all that it started, and leaves no file."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before, seen = below(os.getpid()), set[int]()

    def stop() -> bool:
        seen.update(below(os.getpid()) - before)
        return any(is_cbc(pid) for pid in seen)

    limits = SolveLimits(time_s=600.0, watchdog=watchdog)
    answer = solve(
        knapsack(200, 30, 3), limits, solver="pulp:CBC", monitor=Monitor(should_stop=stop)
    )
    assert (answer.status, answer.stop) == (SolveStatus.NO_ANSWER, StopReason.STOPPED)
    eventually(lambda: not alive(seen))
    assert list(tmp_path.iterdir()) == []


_CALLER = """
import sys
from lp.limits import SolveLimits
from lp.solver import solve
from tests.lp.models import knapsack
solve(knapsack(200, 30, 3), SolveLimits(time_s=600.0, watchdog=True), solver=sys.argv[1])
"""


@pytest.mark.parametrize("solver", ["highs", "pulp:CBC"])
def test_a_caller_that_is_killed_leaves_no_solver_behind(solver: str, tmp_path: Path) -> None:
    """After kill -9 of who waited, the solver's processes end by themselves, and their folder."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": str(tmp_path)}
    caller = subprocess.Popen([sys.executable, "-c", _CALLER, solver], env=env)
    found = set[int]()

    def started() -> bool:
        found.update(below(caller.pid))
        return bool(found) and (solver == "highs" or any(map(is_cbc, found)))

    try:
        eventually(started)
    finally:
        os.kill(caller.pid, signal.SIGKILL)
        caller.wait()
    eventually(lambda: not alive(found))
    assert list(tmp_path.iterdir()) == []
