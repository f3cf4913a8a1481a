"""`slurm_scale`: what a look at Slurm, its reservations and 1,000 components cost.

`AGENDA_SLURM_NODES=32 .ci/slurm python -m bench slurm_scale`: with AGENDA_SLURM_PLANNED=3968
there are 4,000 nodes. Those with a slurmd run components; all are looked at and reserved.
"""

from __future__ import annotations

import os
import re
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from bench.workloads.processor_time import mean_tick, measured_cpu
from bench.workloads.slurm_server import serving_slurm
from bench.workloads.swim_hour import CPUS
from dispatch.backends.slurm.backend import AT_ONCE, submit_all
from dispatch.backends.slurm.control.commands import JobRequest, SlurmCommands
from dispatch.backends.slurm.reserved.reservation_keeper import PlanPiece, ReservationKeeper

NAME = "slurm_scale"

COMPONENTS: Final = 1000
RESERVATIONS: Final = 100
SUBMISSIONS: Final = 64

#: Pause between two looks of this case itself, s: they cost slurmctld as much as others.
_LOOK_S: Final = 10

#: After how long components that have not ended are left, s.
MOST_S: Final = 200

_SLURM: Final = "AGENDA_SLURM"


def run(small: bool) -> dict[str, object]:
    """Measure looks, reservations and components."""
    slurm = os.environ.get(_SLURM)
    params: dict[str, object] = {"components": COMPONENTS, "reservations": RESERVATIONS}
    if slurm is None:
        return {"params": params, "figures": {"skipped": f"{_SLURM} is not set: use .ci/slurm"}}
    commands = SlurmCommands(timeout_s=60)
    names = [node.name for node in commands.nodes()]
    daemons = [name for name in names if name.startswith("n")]
    params |= {"nodes": len(names), "daemons": len(daemons)}
    figures: dict[str, object] = {
        "look_ms": _median_ms(lambda: (commands.jobs(), commands.nodes()))
    }
    figures |= _submissions(commands, daemons, 16 if small else SUBMISSIONS)
    figures |= _reservations(commands, names, 10 if small else RESERVATIONS)
    figures["alone"] = _alone(commands, daemons, 20 if small else COMPONENTS)
    figures |= _components(Path(slurm), commands, daemons, 20 if small else COMPONENTS)
    return {"params": params, "figures": figures}


def _median_ms(what: Callable[[], object], times: int = 7) -> float:
    taken = []
    for _ in range(times):
        began_s = time.perf_counter()
        what()
        taken.append(1000 * (time.perf_counter() - began_s))
    return round(statistics.median(taken), 1)


def _submissions(commands: SlurmCommands, daemons: list[str], count: int) -> dict[str, object]:
    """Return what submitting a job takes where jobs go one by one, and some at a time."""

    def ms_each(at_once: int) -> float:
        jobs = [
            JobRequest(
                f"scale-submit-{at_once}-{number}", "#!/bin/sh\n", "scavenge",
                daemons[number % len(daemons)], 1, 0, "", "", "/tmp", "/dev/null", "/dev/null",
            )
            for number in range(count)
        ]  # fmt: skip
        began_s = time.perf_counter()
        ids = [id_ for id_ in submit_all(commands, jobs, at_once) if isinstance(id_, int)]
        taken_ms = 1000 * (time.perf_counter() - began_s) / len(jobs)
        commands.cancel(ids)
        return round(taken_ms, 1)

    return {"submit_one_by_one_ms": ms_each(1), f"submit_{AT_ONCE}_at_once_ms": ms_each(AT_ONCE)}


def _reservations(commands: SlurmCommands, names: list[str], count: int) -> dict[str, object]:
    """Return what making, changing and deleting reservations takes, each on an equal share."""
    share = max(1, len(names) // count)
    now_s = int(time.time())
    keeper = ReservationKeeper(commands, "scale", "root")

    def pieces(longer_s: int) -> list[PlanPiece]:
        return [
            PlanPiece(
                now_s + 3600, now_s + 7200 + longer_s, f"r{number}",
                tuple(names[number * share % len(names) :][:share]),
            )
            for number in range(count)
        ]  # fmt: skip

    def keep(wanted: list[PlanPiece]) -> float:
        began_s = time.perf_counter()
        while not keeper.keep(wanted, now_s):
            pass
        return round(1000 * (time.perf_counter() - began_s) / count, 2)

    made, changed = keep(pieces(0)), keep(pieces(600))
    unchanged_ms = _median_ms(lambda: keeper.keep(pieces(600), now_s))
    return {
        "nodes_each": share,
        "create_ms": made,
        "change_ms": changed,
        "unchanged_pass_ms": unchanged_ms,
        "delete_ms": keep([]),
    }


def _alone(commands: SlurmCommands, daemons: list[str], count: int) -> dict[str, object]:
    """Run as many jobs of a second and one CPU as plain `sbatch` on the same nodes."""
    jobs = [
        JobRequest(
            f"alone/many/{number}", "#!/bin/sh\nsleep 1\n", "scavenge",
            daemons[number % len(daemons)], 1, 0, "", "", "/tmp", "/dev/null", "/dev/null",
        )
        for number in range(count)
    ]  # fmt: skip
    with ThreadPoolExecutor(1) as pool, measured_cpu() as cpu_s:
        asked = pool.submit(submit_all, commands, jobs)
        found = _until_ended(commands, count)
        asked.cancel()
        ids = [id_ for id_ in asked.result() if isinstance(id_, int)]
    commands.cancel(ids)
    while any(job.is_open for job in commands.jobs()):
        time.sleep(1)
    return {**found, "cpu_s": cpu_s}


def _until_ended(commands: SlurmCommands, count: int) -> dict[str, object]:
    """Look until the components have ended, or for long enough; return how many did."""
    began_s = time.time()
    most = ended = 0
    while ended < count and time.time() - began_s < MOST_S:
        time.sleep(_LOOK_S)
        jobs = [job for job in commands.jobs() if "/many/" in job.name]
        most = max(most, sum(job.is_up for job in jobs))
        ended = sum(job.state == "COMPLETED" for job in jobs)
    return {"ended": ended, "seconds": round(time.time() - began_s, 1), "most_at_once": most}


def _components(
    slurm: Path, commands: SlurmCommands, daemons: list[str], count: int
) -> dict[str, object]:
    """Run components of one CPU on the nodes with a slurmd; return how quickly they end."""
    with serving_slurm(slurm, daemons) as server:
        part = {"name": "w", "count": count, "core": False, "resources": {"cpu": 1}}
        core = {**part, "name": "c", "count": 1, "core": True, "command": "sleep 100000"}
        whole = {"name": "many", "components": [core, {**part, "command": "sleep 1"}]}
        before, began_s = _calls(commands), time.time()
        server.call("POST", "/v1/applications", {"id": "many", "application": whole}).good()
        with measured_cpu() as cpu_s:
            found = _until_ended(commands, count)
        taken_s = time.time() - began_s
        server.call("DELETE", "/v1/applications/many").good()
        asked = {name: found - before.get(name, 0) for name, found in _calls(commands).items()}
        most_asked = dict(sorted(asked.items(), key=lambda one: -one[1])[:6])
        return {
            **found,
            "cpu_s": cpu_s,
            "calls_per_s": round(sum(asked.values()) / taken_s, 1),
            "calls": most_asked,
            **mean_tick(server),
            "slots": len(daemons) * CPUS,
        }


def _calls(commands: SlurmCommands) -> dict[str, int]:
    """Return how often slurmctld was asked, by kind of message."""
    text = commands.run("sdiag").partition("statistics by user")[0]
    found = re.findall(r"^\s*(\w+)\s*\(\s*\d+\)\s+count:(\d+)", text, re.M)
    return {name: int(count) for name, count in found}
