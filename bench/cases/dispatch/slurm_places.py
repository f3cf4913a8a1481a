"""`slurm_places`: who chooses the node of best-effort work on a real Slurm, and what it waits.

`AGENDA_SLURM_NODES=6 .ci/slurm python -m bench slurm_places`: the same jobs of one node at the same
times, three ways. `slurm` names no node. `best fit` names one at once (``--nodelist``): where it
fits with the least left over, else where it fits first, as far as who submits can know. `agenda`
has a server send each when a machine has room for it, by its best fit. Waits are from Slurm's
accounting, whose times are whole seconds.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.workloads.slurm_server import serving_slurm
from bench.workloads.swim_hour import CPUS
from dispatch.backends.slurm.control.commands import SlurmCommands, instant_word
from service.cli.client.server import Server

NAME = "slurm_places"

JOBS: Final = 90
WAYS: Final = ("slurm", "best fit", "agenda")

#: CPUs and seconds of the jobs, in turn, and the pause between two of them, s: load 0.95 on six
#: nodes of four CPUs, a second of Slurm's own for each counted in.
_CPUS_OF: Final = (1, 1, 2, 1, 4, 1, 3, 1, 2, 4)
_RUN_S: Final = (2, 7, 3, 11, 4, 2, 5)
_PAUSE_S: Final = 0.5

_SLURM: Final = "AGENDA_SLURM"
_SUBMITTERS: Final = 8


@dataclass(frozen=True, slots=True)
class NodeJob:
    """One job: its number, when it is asked for (s from the begin), CPUs and seconds."""

    number: int
    asked_s: float
    cpus: int
    run_s: int


def run(small: bool) -> dict[str, object]:
    """Play the jobs in each way; figures by way."""
    slurm = os.environ.get(_SLURM)
    params: dict[str, object] = {"jobs": JOBS}
    if slurm is None:
        return {"params": params, "figures": {"skipped": f"{_SLURM} is not set: use .ci/slurm"}}
    commands = SlurmCommands(timeout_s=30)
    nodes = sorted(node.name for node in commands.nodes())
    jobs = [
        NodeJob(
            number, number * _PAUSE_S, _CPUS_OF[number % len(_CPUS_OF)],
            _RUN_S[number % len(_RUN_S)],
        )
        for number in range(10 if small else JOBS)
    ]  # fmt: skip
    load = sum(job.cpus * (job.run_s + 1) for job in jobs) / (len(jobs) * _PAUSE_S)
    params |= {"nodes": len(nodes), "load": round(load / (CPUS * len(nodes)), 2)}
    figures: dict[str, object] = {}
    for way in WAYS[:2]:
        choice = _BestFit(nodes) if way == "best fit" else None
        stem = f"places-{way.replace(' ', '-')}-"
        figures[way] = _played(commands, jobs, _submitter(commands, stem, choice), stem)
    with serving_slurm(Path(slurm), nodes) as server:
        figures[WAYS[2]] = _played(commands, jobs, _sender(server), "agenda/p")
    return {"params": params, "figures": figures}


class _BestFit:
    """When each CPU of each node is free, as far as who submits can know."""

    def __init__(self, nodes: Sequence[str]) -> None:
        self._free_s = {node: [0.0] * CPUS for node in nodes}

    def node_for(self, job: NodeJob) -> str:
        """Return the node for a job, and count it there."""

        def begin_s(node: str) -> float:
            return max(job.asked_s, sorted(self._free_s[node])[job.cpus - 1])

        def rank(node: str) -> tuple[float, int]:
            return begin_s(node), sum(one <= begin_s(node) for one in self._free_s[node])

        best = min(self._free_s, key=rank)
        end_s = begin_s(best) + job.run_s + 1
        kept = sorted(self._free_s[best])[job.cpus :]
        self._free_s[best] = [end_s] * job.cpus + kept
        return best


def _submitter(
    commands: SlurmCommands, stem: str, choice: _BestFit | None
) -> Callable[[NodeJob], None]:
    """Return what submits a job to Slurm."""

    def submit(job: NodeJob) -> None:
        node = [] if choice is None else [f"--nodelist={choice.node_for(job)}"]
        commands.run(
            "sbatch", "--parsable", f"--job-name={stem}{job.number}", "--partition=scavenge",
            "--nodes=1", "--ntasks=1", f"--cpus-per-task={job.cpus}", "--output=/dev/null",
            "--chdir=/tmp", *node, given=f"#!/bin/sh\nexec sleep {job.run_s}\n",
        )  # fmt: skip

    return submit


def _sender(server: Server) -> Callable[[NodeJob], None]:
    """Return what submits a job to a server, as an application of one component."""

    def submit(job: NodeJob) -> None:
        work = {
            "name": "w", "count": 1, "core": True, "resources": {"cpu": job.cpus},
            "command": f"sleep {job.run_s}",
        }  # fmt: skip
        application = {"name": "p", "components": [work]}
        body = {"id": f"p{job.number}", "application": application}
        server.call("POST", "/v1/applications", body).good()

    return submit


def _played(
    commands: SlurmCommands,
    jobs: Sequence[NodeJob],
    submit: Callable[[NodeJob], None],
    stem: str,
) -> dict[str, object]:
    """Submit each job at its time, wait until all have ended, and return what they waited."""
    began_s, asked_at = time.time(), dict[int, float]()
    with ThreadPoolExecutor(_SUBMITTERS) as pool:
        futures = []
        for job in jobs:
            time.sleep(max(0.0, began_s + job.asked_s - time.time()))
            asked_at[job.number] = time.time()
            futures.append(pool.submit(submit, job))
        for future in futures:
            future.result()
    while any(job.is_open or job.is_ending for job in commands.jobs()):
        time.sleep(0.5)
    time.sleep(3)  # the accounting is a little behind
    waits: dict[int, float] = {}
    ends_s = began_s
    for record in commands.accounted_runs(instant_word(int(began_s) - 1)):
        if record.name.startswith(stem) and record.state == "COMPLETED":
            number = int(record.name.removeprefix(stem).partition("/")[0])
            waits[number] = record.started_s - asked_at[number]
            ends_s = max(ends_s, record.ends_s)
    large = [wait for number, wait in waits.items() if jobs[number].cpus == CPUS]
    return {
        "ended": len(waits),
        "wait_mean_s": round(statistics.mean(waits.values()), 1),
        "wait_p90_s": round(sorted(waits.values())[len(waits) * 9 // 10], 1),
        "wait_whole_nodes_mean_s": round(statistics.mean(large), 1) if large else None,
        "waited_over_5_s": sum(wait > 5 for wait in waits.values()),
        "seconds": round(ends_s - began_s, 1),
    }
