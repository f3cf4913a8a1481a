"""`slurm_swim`: an hour of SWIM jobs on a real Slurm, alone and with Agenda's Plan (Rayon 6.4).

`.ci/slurm python -m bench slurm_swim` starts the Slurm; AGENDA_SLURM_NODES=8 says how many nodes.
The hour takes `3600 / COMPRESSION` seconds in each of four ways (AGENDA_SLURM_WAYS names fewer);
every figure is from Slurm's accounting. Jobs that have not ended `AFTER_S` after it are cancelled.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from bench.workloads.slurm_hour import MARGIN_S, SlurmHour
from bench.workloads.slurm_server import serving_slurm
from bench.workloads.swim_hour import CPUS, HourJob, swim_hour
from bench.workloads.traces import SKIPPED, traces_folder
from dispatch.backends.slurm.control.commands import SlurmCommands
from dispatch.backends.slurm.control.records import SlurmJob

NAME = "slurm_swim"

COMPRESSION: Final = 15
AFTER_S: Final = 45
#: The way, and the agent of its Agenda.
WAYS: Final = {"priority": None, "reservations": None, "agenda": "gree-l", "early": "earliest"}

#: Names the folder of a Slurm, as `.ci/slurm` says.
_SLURM: Final = "AGENDA_SLURM"


def run(small: bool) -> dict[str, object]:
    """Play the hour in each way; figures by way."""
    folder, slurm = traces_folder(), os.environ.get(_SLURM)
    nodes = len(SlurmCommands().nodes()) if slurm else 0
    params = {"compression": COMPRESSION, "nodes": nodes, "margin_s": MARGIN_S, "after_s": AFTER_S}
    if folder is None:
        return {"params": params, "figures": SKIPPED}
    if slurm is None:
        return {"params": params, "figures": {"skipped": f"{_SLURM} is not set: use .ci/slurm"}}
    jobs = swim_hour(folder, COMPRESSION, 20 if small else None)
    hour_s = jobs[-1].submitted_s if small else 3600 / COMPRESSION
    load = sum(job.work_s for job in jobs) / (nodes * hour_s)
    figures: dict[str, object] = {"jobs": len(jobs), "load": round(load, 2)}
    chosen = os.environ.get("AGENDA_SLURM_WAYS")
    for way in chosen.split(",") if chosen else WAYS:
        figures[way] = _played(way, Path(slurm), nodes, jobs, hour_s)
        print(way, figures[way], file=sys.stderr, flush=True)
    return {"params": params, "figures": figures}


def _played(
    way: str, slurm: Path, nodes: int, jobs: Sequence[HourJob], hour_s: float
) -> dict[str, object]:
    """Play the hour in one way; return what the accounting says of it."""
    hour = SlurmHour(way)
    agent = WAYS[way]
    if agent is None:
        return _hour_of(hour, nodes, jobs, hour_s)
    with serving_slurm(slurm, [f"n{index + 1}" for index in range(nodes)], agent) as hour.server:
        return _hour_of(hour, nodes, jobs, hour_s)


def _hour_of(
    hour: SlurmHour, nodes: int, jobs: Sequence[HourJob], hour_s: float
) -> dict[str, object]:
    hour.play(jobs)
    time.sleep(max(0.0, hour.began_s + hour_s + AFTER_S - time.time()))
    hour.end()
    time.sleep(3)  # the accounting is a little behind
    return figures_of(hour, hour.records(), nodes, jobs, hour_s)


def figures_of(
    hour: SlurmHour,
    records: Sequence[SlurmJob],
    nodes: int,
    jobs: Sequence[HourJob],
    hour_s: float,
) -> dict[str, object]:
    """Return the figures of Rayon 6.4 from the runs of jobs, by the name of each."""
    runs: dict[str, list[SlurmJob]] = defaultdict(list)
    for record in records:
        runs[record.name.partition("-")[2]].append(record)
    ended = {
        id_: run.ends_s - hour.began_s
        for id_, some in runs.items()
        for run in some
        if run.state == "COMPLETED"
    }
    production = [job for job in jobs if job.deadline_s is not None]
    in_time = {j.id for j in production if ended.get(j.id, 1e9) <= (j.deadline_s or 0)}
    other = [job for job in jobs if job.deadline_s is None]
    done = [job for job in other if job.id in ended]
    waits = [ended[job.id] - job.submitted_s - job.run_s for job in done]
    by_end = [job for job in other if ended.get(job.id, 1e9) <= hour_s]
    begun = [run for some in runs.values() for run in some if run.started_s]
    busy = sum(_held_s(run, hour, hour_s, jobs_by_id=_by_id(jobs)) for run in begun)
    return {
        "production": len(production),
        "promised": len(hour.promised),
        "promised_kept": len(hour.promised & in_time),
        "in_time": len(in_time),
        "best_effort": len(other),
        "best_effort_done": len(by_end),
        "best_effort_work": round(sum(j.work_s for j in by_end) / (nodes * hour_s), 3),
        "wait_p50_s": round(statistics.median(waits), 1) if waits else None,
        "wait_mean_s": round(statistics.mean(waits), 1) if waits else None,
        "not_ended": len(other) - len(done),
        "preempted": sum(run.state in {"PREEMPTED", "REQUEUED"} for run in begun),
        "used": round(busy / (nodes * hour_s), 3),
    }


def _by_id(jobs: Sequence[HourJob]) -> dict[str, HourJob]:
    return {job.id: job for job in jobs}


def _held_s(run: SlurmJob, hour: SlurmHour, hour_s: float, jobs_by_id: dict[str, HourJob]) -> float:
    """Return the node time that a run had within the hour."""
    job = jobs_by_id[run.name.partition("-")[2]]
    end_s = min(run.ends_s or 1e12, hour.began_s + hour_s)
    return max(0.0, end_s - run.started_s) * job.nodes * job.cpus / CPUS
