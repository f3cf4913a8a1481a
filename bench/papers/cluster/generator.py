"""Workloads for Zoe's experiments: a documented generator, and one that samples Google's trace.

The papers give figures, not parameters. What they state is kept: 80 % batch and 20 % interactive;
of the batch 80 % elastic; components of a few millicores to 6 cores and of a few MB to some tens
of GB; run times of some tens of seconds to three weeks; a few core components, tens to thousands
of elastic ones, hundreds for interactive, cores of rigid ones to a thousand; arrivals in bursts
with pauses between them. Everything else is ours: lognormal bodies cut at those ends, and gaps
scaled so that the offered load on the scarcest resource is what is requested.
"""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass, replace
from math import log
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.papers.cluster.workload import Submission
from dispatch.pool.claims import Claim, ClaimPart

BATCH_ELASTIC, BATCH_RIGID, INTERACTIVE = "B-E", "B-R", "Int"

#: Resources in the order of the claims' amounts; millicores and MiB.
KINDS = ("cpu", "memory")
_CORES, _MIB = 1000, 1024

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ZoeWorkload:
    """What is drawn.

    Attributes
    ----------
    applications
        How many.
    interactive
        Share of them that have a person in the loop, with priority 1.
    rigid
        Share of the batch that has core components only.
    load
        Offered work on the scarcest resource over what the pool can do in the time of arrivals.
    machines, cores, memory_gib
        The cluster; 100 machines of 32 cores and 128 GiB in the papers.
    widest
        Largest share of the cluster one application may ask for at most.
    most_rigid
        Most components of a rigid application, all of them core; figure 2 goes to a thousand.
    trace
        Folder of Google's 2011 trace to sample from, or None for the drawn distributions.
    """

    applications: int = 80_000
    interactive: float = 0.2
    rigid: float = 0.2
    load: float = 0.85
    machines: int = 100
    cores: int = 32
    memory_gib: int = 128
    widest: float = 0.25
    most_rigid: int = 1_000
    trace: Path | None = None

    @property
    def total(self) -> dict[str, int]:
        """The pool, by resource."""
        return {kind: self.machines * amount for kind, amount in self.machine.items()}

    @property
    def machine(self) -> dict[str, int]:
        """One machine, by resource."""
        return {"cpu": self.cores * _CORES, "memory": self.memory_gib * _MIB}


@dataclass(frozen=True, slots=True)
class _Drawn:
    """Columns of shape (applications,)."""

    cpu: Floats
    memory: Floats
    core: Floats
    elastic: Floats
    run: Floats
    gap: Floats


def zoe_workload(options: ZoeWorkload, random: np.random.Generator) -> list[Submission]:
    """Return submissions in order of time, drawn by `random`."""
    count = options.applications
    interactive = random.random(count) < options.interactive
    rigid = ~interactive & (random.random(count) < options.rigid)
    drawn = (
        _draw(count, interactive, random)
        if options.trace is None
        else _sample_trace(options, interactive, random)
    )
    # A rigid application does with core components what an elastic one does with both.
    core = np.where(rigid, np.minimum(drawn.core + drawn.elastic, options.most_rigid), drawn.core)
    elastic = np.where(rigid, 0, drawn.elastic)
    cpu, memory = np.ceil(drawn.cpu * _CORES), np.ceil(drawn.memory * _MIB)
    room = options.widest * np.minimum(options.total["cpu"] / cpu, options.total["memory"] / memory)
    core = np.minimum(core, np.floor(room))
    elastic = np.minimum(elastic, np.floor(room) - core)
    share = np.maximum(cpu / options.total["cpu"], memory / options.total["memory"])
    work = (core + elastic) * drawn.run
    loads = [np.sum(work * cpu) / options.total["cpu"], np.sum(work * memory)]
    loads[1] /= options.total["memory"]
    assert share.max() <= options.widest
    gaps = drawn.gap * (max(loads) / options.load) / drawn.gap.sum()
    at = np.cumsum(gaps) - gaps[0]
    columns = np.stack([at, drawn.run, core, elastic, cpu, memory], axis=1).tolist()
    kinds = np.where(interactive, INTERACTIVE, np.where(rigid, BATCH_RIGID, BATCH_ELASTIC))
    pairs = zip(columns, kinds.tolist(), strict=True)
    return [_submission(index, row, kind) for index, (row, kind) in enumerate(pairs)]


def without_interactive(submissions: list[Submission]) -> list[Submission]:
    """Return the batch alone, at the times it has."""
    return [one for one in submissions if one.label != INTERACTIVE]


def without_elastic(submissions: list[Submission]) -> list[Submission]:
    """Return the same applications with every component core: each begins whole or not at all."""
    return [
        replace(one, claim=replace(one.claim, core=one.claim.core + one.claim.elastic, elastic=()))
        for one in submissions
    ]


def _submission(index: int, row: list[float], label: str) -> Submission:
    at, run, core, elastic, cpu, memory = row
    amounts = (int(cpu), int(memory))
    claim = Claim(
        f"a{index}",
        (ClaimPart(int(core), amounts),),
        (ClaimPart(int(elastic), amounts),) if elastic else (),
        at,
        run,
        1 if label == INTERACTIVE else 0,
    )
    profile = f"{label}-{int(core)}+{int(elastic)}"
    return Submission(claim, at, run, label, profile)


def _lognormal(
    random: np.random.Generator, median: Floats | float, spread: float, count: int
) -> Floats:
    return np.asarray(np.exp(np.log(median) + spread * random.standard_normal(count)))


def _draw(count: int, interactive: NDArray[np.bool_], random: np.random.Generator) -> _Drawn:
    wide = np.where(interactive, 5.0, 20.0)
    most = np.where(interactive, 300.0, 5_000.0)
    return _Drawn(
        cpu=np.clip(_lognormal(random, 0.5, 1.0, count), 0.005, 6.0),
        memory=np.clip(_lognormal(random, 1.0, 1.2, count), 0.004, 48.0),
        core=np.floor(np.clip(_lognormal(random, 3.0, 0.6, count), 1, 30)),
        elastic=np.floor(np.clip(_lognormal(random, wide, 1.3, count), 1, most)),
        run=np.clip(
            _lognormal(random, np.where(interactive, 1800.0, 600.0), 1.6, count),
            30.0,
            21 * 86_400.0,
        ),
        gap=_bursts(count, random),
    )


def _bursts(count: int, random: np.random.Generator) -> Floats:
    """Gaps between arrivals: seven of ten within a burst, a hundred times shorter in the median."""
    within = random.random(count) < 0.7
    medians = np.where(within, log(1.0), log(100.0))
    return np.asarray(np.exp(medians + 1.0 * random.standard_normal(count)))


def _sample_trace(
    options: ZoeWorkload, interactive: NDArray[np.bool_], random: np.random.Generator
) -> _Drawn:
    """Draw whole jobs of the trace, with replacement: requests, tasks and times stay together."""
    assert options.trace is not None
    table = read_google_jobs(options.trace)
    count = options.applications
    rows = table[random.integers(0, len(table), count)]
    tasks = np.clip(rows[:, 2], 1, np.where(interactive, 300, 5_000))
    core = np.floor(np.clip(_lognormal(random, 3.0, 0.6, count), 1, 30))
    gaps = np.diff(np.sort(table[:, 4]), prepend=0.0)
    return _Drawn(
        cpu=np.clip(rows[:, 0] * options.cores, 0.005, 6.0),
        memory=np.clip(rows[:, 1] * options.memory_gib, 0.004, 48.0),
        core=np.minimum(core, tasks),
        elastic=np.maximum(tasks - core, 0),
        run=np.clip(rows[:, 3], 30.0, 21 * 86_400.0),
        gap=np.maximum(gaps[random.integers(0, len(gaps), count)], 1e-3),
    )


def read_google_jobs(folder: Path) -> Floats:
    """Return the jobs of the first day that ran to their end, one a row.

    Columns are cores and memory of the median task (shares of the largest machine), tasks, run
    time of the longest task in s, and time of submission in s.

    Raises
    ------
    OSError
        If the folder has no `jobs_0_70756s.csv.gz`.
    """
    columns = ("cpu_med", "mem_med", "n_tasks", "task_run_max_s", "submit_s")
    found: list[tuple[float, ...]] = []
    with gzip.open(folder / "jobs_0_70756s.csv.gz", "rt", newline="") as lines:
        for row in csv.DictReader(lines):
            if all(row[column] for column in columns) and float(row["submit_s"]) > 0:
                found.append(tuple(float(row[column]) for column in columns))
    table = np.array(found)
    return np.asarray(table[(table[:, 0] > 0) & (table[:, 1] > 0) & (table[:, 3] > 0)])
