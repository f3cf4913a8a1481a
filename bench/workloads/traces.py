"""The real days that benches plan: where they are, and how they become workloads.

The traces are not part of the project. AGENDA_TRACES names the folder that holds them; without it
a case that needs them says so and measures nothing. What the traces do not record is modelled by
the importers (docs/importers.md), with seed 0.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from planner.cluster.cluster import Cluster
from planner.files import WorkloadLine, cluster_from_json, read_line
from service.importers.lines import Imported, TraceMachines, cluster_toml, open_trace
from service.importers.swf import SwfModel, import_swf
from service.importers.swim import SwimModel, import_swim

VARIABLE: Final = "AGENDA_TRACES"

#: Figures of a case that has no traces to measure.
SKIPPED: Final[Mapping[str, object]] = {"skipped": f"{VARIABLE} is not set"}

SWIM_FILE: Final = "swim/FB-2009_samples_24_times_1hr_0.tsv.gz"
_KTH = "swf/KTH-SP2-first20000.swf.gz"

CORES: Final = 32
MEMORY_GIB: Final = 128


@dataclass(frozen=True, slots=True)
class Day:
    """A workload and the cluster it is planned on.

    Attributes
    ----------
    toml
        The cluster file.
    raw
        Workload lines as files.md writes them, windows in seconds from the origin.
    """

    toml: str
    raw: tuple[dict[str, Any], ...]

    @property
    def cluster(self) -> Cluster:
        """The cluster of the file."""
        return cluster_from_json(tomllib.loads(self.toml))

    @property
    def lines(self) -> list[WorkloadLine]:
        """The requests, read as a workload file is."""
        return [read_line(line, number) for number, line in enumerate(self.raw, start=1)]


def traces_folder() -> Path | None:
    """Return the folder of the traces, or None if none is named."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else None


def swim_day(folder: Path, machines: int, limit: int | None = None, lead_s: int = 0) -> Day:
    """Return the Facebook day on this many machines of 32 cores and 128 GiB, in steps of 10 s.

    Parameters
    ----------
    lead_s
        Seconds, whole steps, that every window and the end of the horizon are moved by.
    """
    pool = TraceMachines(machines, CORES, MEMORY_GIB)
    trace = open_trace(str(folder / SWIM_FILE))
    imported = import_swim(trace, SwimModel(pool), np.random.default_rng(0), limit)
    return day_of(pool, imported, lead_s)


def kth_gangs(folder: Path, limit: int | None = None) -> Day:
    """Return the KTH SP2's jobs as gangs on its 100 processors, in steps of 60 s."""
    imported, header = import_swf(
        open_trace(str(folder / _KTH)), SwfModel(), np.random.default_rng(0), limit
    )
    if header.processors is None:
        raise ValueError(f"{_KTH} does not say how many processors there are")
    return day_of(TraceMachines(header.processors, 1, 1), imported)


def day_of(pool: TraceMachines, imported: Imported, lead_s: int = 0) -> Day:
    """Return imported lines and their cluster, everything moved by `lead_s`."""
    if lead_s % imported.step_s:
        raise ValueError(f"a lead of {lead_s} s is not a whole number of {imported.step_s} s steps")
    moved = Imported(
        tuple(_moved(line, lead_s) for line in imported.lines),
        imported.step_s,
        imported.end_s + lead_s,
    )
    return Day(cluster_toml(pool, moved, comment="for a bench"), moved.lines)


def _moved(line: dict[str, Any], lead_s: int) -> dict[str, Any]:
    """Return a copy of a workload line whose window is later; the submission stays."""
    copied: dict[str, Any] = json.loads(json.dumps(line))
    window = copied["rdl"]["window"]
    window["start"] += lead_s
    window["end"] += lead_s
    return copied
