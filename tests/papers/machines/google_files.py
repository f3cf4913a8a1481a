"""Tiny traces in the columns of Google's, for tests of readers."""

from __future__ import annotations

import gzip
from pathlib import Path


def google(folder: Path, tasks: list[str], machines: list[str]) -> Path:
    """A folder with a tiny trace in the real one's columns."""
    header = "job_id,task_index,submit_s,sched_s,run_s,last_s,last_type,cpu,mem"
    for name, lines in (
        ("tasks_0_70756s.csv.gz", [header, *tasks]),
        ("machines.csv.gz", ["machine_id,cpu_last,mem_last", *machines]),
    ):
        with gzip.open(folder / name, "wt") as file:
            file.write("\n".join(lines) + "\n")
    return folder
