"""`exact_rcpsp`: published optimal makespans of PSPLIB j30 and the Patterson set, found and proven.

Instances are RDL graphs on one machine (bench/workloads/rcpsp.py). Needs AGENDA_TRACES. `wrong`
lists those whose makespan is not the published one, `open` those found but not proven in the time a
window has.
"""

from __future__ import annotations

import csv
import time
from pathlib import Path
from typing import Final

from bench.workloads.rcpsp import read_archive, shortest
from bench.workloads.traces import SKIPPED, traces_folder

NAME = "exact_rcpsp"

SETS: Final = {"j30": "j30_dev", "patterson": "patterson"}
SECONDS: Final = 30.0
SMALL: Final = 4


def run(small: bool) -> dict[str, object]:
    """Solve both sets; small: a few of each."""
    folder = traces_folder()
    params = {"seconds_a_window": SECONDS, "sets": dict(SETS)}
    if folder is None:
        return {"params": params, "figures": dict(SKIPPED)}
    figures = {name: _set(folder / "rcpsp", stem, small) for name, stem in SETS.items()}
    return {"params": params, "figures": figures}


def published(folder: Path, stem: str) -> dict[str, int]:
    """Return the published optimum of every instance that has one."""
    with (folder / f"{stem}_optimum.csv").open(encoding="utf-8") as stream:
        rows = list(csv.DictReader(stream))
    return {row["problem"]: int(row["optimum"]) for row in rows if row["optimum"].isdigit()}


def _set(folder: Path, stem: str, small: bool) -> dict[str, object]:
    optima = published(folder, stem)
    projects = [one for one in read_archive(folder / f"{stem}.tar.gz") if one.name in optima]
    if small:
        projects = projects[:: max(1, len(projects) // SMALL)][:SMALL]
    wrong, unproven, slowest = [], [], 0.0
    began = time.perf_counter()
    for project in projects:
        before = time.perf_counter()
        found = shortest(project, SECONDS)
        slowest = max(slowest, time.perf_counter() - before)
        if found.length != optima[project.name]:
            wrong.append([project.name, found.length, optima[project.name]])
        elif not found.proven:
            unproven.append(project.name)
    return {
        "instances": len(projects),
        "optimal_and_proven": len(projects) - len(wrong) - len(unproven),
        "wrong": wrong,
        "open": unproven,
        "seconds": round(time.perf_counter() - began, 1),
        "slowest_s": round(slowest, 1),
    }
