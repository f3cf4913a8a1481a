"""`slurm_recovery`: what who works with Slurm waits for while slurmctld is restarted.

`AGENDA_SLURM_NODES=2 .ci/slurm python -m bench slurm_recovery`: slurmctld is told to end and is
started again some times; the slowest of each phase, in s.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from dispatch.backends.slurm.control.commands import SlurmCommands
from dispatch.backends.slurm.control.errors import SlurmError

NAME = "slurm_recovery"

#: For how long slurmctld is unavailable after it has ended, s, in turn.
AWAY_S: Final = (0, 1, 3)

_SLURM: Final = "AGENDA_SLURM"

#: Longest wait for what slurmctld must do after it was started, s.
_WITHIN_S: Final = 120.0


def run(small: bool) -> dict[str, object]:
    """Restart slurmctld; figures in s."""
    slurm = os.environ.get(_SLURM)
    params: dict[str, object] = {"away_s": AWAY_S}
    if slurm is None:
        return {"params": params, "figures": {"skipped": f"{_SLURM} is not set: use .ci/slurm"}}
    rounds = [_restart(Path(slurm), away_s) for away_s in AWAY_S[: 1 if small else None]]
    figures: dict[str, object] = {
        name: round(max(one[name] for one in rounds), 1) for name in rounds[0]
    }
    return {"params": params, "figures": figures}


def _restart(slurm: Path, away_s: float) -> dict[str, float]:
    """Restart slurmctld once; return how long each phase took."""
    commands = SlurmCommands()
    pid_file, found = slurm / "pids" / "slurmctld", dict[str, float]()
    pid, began_s = int(pid_file.read_text()), time.monotonic()
    os.kill(pid, signal.SIGTERM)
    while _is_there(pid):
        time.sleep(0.05)
    found["told to end until it is gone"] = time.monotonic() - began_s
    found["a command while it is away"] = _seconds_of(commands.nodes)
    time.sleep(away_s)
    with (slurm / "log" / "slurmctld").open("ab") as log:
        words = ["slurmctld", "-D", "-f", str(slurm / "slurm.conf")]
        process = subprocess.Popen(words, stdout=log, stderr=log, start_new_session=True)
    pid_file.write_text(f"{process.pid}\n")
    began_s = time.monotonic()
    _until(lambda: bool(commands.nodes()))
    found["start until commands are answered"] = time.monotonic() - began_s
    job = int(commands.run("sbatch", "--parsable", "--output=/dev/null", "--wrap=true").strip())
    began_s = time.monotonic()
    _until(lambda: any(one.id == job and one.state != "PENDING" for one in commands.jobs()))
    found["a job submitted then, until it starts"] = time.monotonic() - began_s
    return found


def _is_there(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def _seconds_of(call: Callable[[], object]) -> float:
    """Return how long a call takes that fails, or does not."""
    began_s = time.monotonic()
    with contextlib.suppress(SlurmError):
        call()
    return time.monotonic() - began_s


def _until(is_so: Callable[[], bool]) -> None:
    """Look again until it is so; what Slurm refuses until then is raised after `_WITHIN_S`."""
    deadline_s = time.monotonic() + _WITHIN_S
    while True:
        try:
            if is_so():
                return
            refusal: SlurmError | None = None
        except SlurmError as error:
            refusal = error
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"Slurm has not answered within {_WITHIN_S:g} s") from refusal
        time.sleep(0.05)
