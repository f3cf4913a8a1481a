"""`agenda` run in this process, and the files it is run on."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from click.testing import CliRunner, Result

from service.cli.main import main

#: A hundred machines of one core, 800 steps of a second.
SECONDS: Final = """
step = "1s"
horizon = "800s"

[[machines]]
name = "m"
count = 100
resources = { cpu = 1 }
"""

#: Ten machines of four cores, 600 steps of a minute.
MINUTES: Final = """
step = "1m"
horizon = "10h"
[[machines]]
name = "m"
count = 10
resources = { cpu = 4 }
"""


#: The header of `sacct --parsable2`.
SACCT: Final = "JobID|JobName|User|Start|End|AllocCPUS|ReqMem|State\n"


def sacct(days: int = 30, minutes: int = 60) -> str:
    """Return the accounting of a nightly job, and of another that ran twice."""
    lines = [SACCT]
    for day in range(days):
        begin = datetime(2026, 10, 1, 2, 10) + timedelta(days=day)  # noqa: DTZ001 - as sacct writes
        end = begin + timedelta(minutes=minutes + day * 7 % 5)
        lines.append(
            f"{day}|etl-{begin:%Y-%m-%d}|ada|{begin:%Y-%m-%dT%H:%M:%S}|{end:%Y-%m-%dT%H:%M:%S}|"
            "8|32G|COMPLETED\n"
        )
    for day in (1, 2):
        lines.append(
            f"9{day}|adhoc|bob|2026-10-0{day}T12:00:00|2026-10-0{day}T13:00:00|2|4G|COMPLETED\n"
        )
    return "".join(lines)


def agenda(*arguments: object) -> Result:
    """Run `agenda`: standard output and error are kept apart, and a fault is raised as it is."""
    return CliRunner().invoke(
        main, [str(argument) for argument in arguments], catch_exceptions=False
    )


def write_day(folder: Path, cluster: str, lines: Iterable[Mapping[str, Any]]) -> tuple[Path, Path]:
    """Write a cluster file and a workload file into a folder; return both paths."""
    described, workload = folder / "cluster.toml", folder / "day.jsonl"
    described.write_text(cluster)
    workload.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return described, workload
