"""`start`: how long the command line makes its user wait (`agenda --help`, `agenda plan`).

Every run is a new process, as a user's is; the best of several is reported with the worst, because
the best is what the program costs and the rest is what the machine was doing meanwhile.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

NAME = "start"

_AGENDA = (sys.executable, "-c", "import sys; from service.cli.main import main; sys.exit(main())")


def run(small: bool) -> dict[str, object]:
    """Time `agenda --help` and `agenda plan` of 100 requests with a warm kernel cache."""
    rounds, count = (2, 20) if small else (7, 100)
    with tempfile.TemporaryDirectory() as folder:
        cluster, workload = _day(Path(folder), count)
        plan = ["plan", str(cluster), str(workload), "--agent", "gree-l"]
        plan += ["--out", str(Path(folder) / "plan.json")]
        _seconds(plan)  # compiles the kernels where no cache holds them yet
        help_s = [_seconds(["--help"]) for _ in range(rounds)]
        plan_s = [_seconds(plan) for _ in range(rounds)]
        bare_s = [_bare_seconds() for _ in range(rounds)]
    return {
        "params": {"requests": count, "rounds": rounds},
        "figures": {
            "help_s": round(min(help_s), 3),
            "help_worst_s": round(max(help_s), 3),
            "plan_s": round(min(plan_s), 3),
            "plan_worst_s": round(max(plan_s), 3),
            "bare_python_s": round(min(bare_s), 3),
        },
    }


def _day(folder: Path, count: int) -> tuple[Path, Path]:
    """Write the example day, cut to its first `count` requests."""
    from service.example_day import write_example_day

    cluster, workload = write_example_day(folder)
    lines = workload.read_text(encoding="utf-8").splitlines(keepends=True)
    workload.write_text("".join(lines[:count]), encoding="utf-8")
    return cluster, workload


def _seconds(arguments: Sequence[str]) -> float:
    return _timed([*_AGENDA, *arguments])


def _bare_seconds() -> float:
    return _timed([sys.executable, "-c", "pass"])


def _timed(command: Sequence[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began
