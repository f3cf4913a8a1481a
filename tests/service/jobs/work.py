"""Tasks for tests of pools: they import nothing of tests' own, so any worker finds them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from planner.cluster.cluster import Cluster
from planner.plan.plan import Plan
from planner.workload.compile import CompiledWorkload, compile_workload
from service.jobs.job import lines_of_plan, whole_cluster
from service.jobs.pool import TaskLink


def squared(number: int, link: TaskLink) -> int:
    """Return a square, after a word of news."""
    link.tell(f"squaring {number}")
    return number * number


def broken(link: TaskLink) -> int:
    """Fail."""
    raise ValueError("no such number")


def until_stopped(link: TaskLink) -> str:
    """Go on until asked to stop."""
    link.tell("begun")
    while not link.stop():
        time.sleep(0.05)
    return "the best so far"


def dies_once(mark: Path, link: TaskLink) -> object:
    """Keep a state and kill its worker; begun again, return what was kept."""
    if not mark.exists():
        link.keep({"found": 0.1 + 0.2})
        time.sleep(1.0)  # the word of it travels
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return link.kept


def dies(link: TaskLink) -> None:
    """Kill whoever works on it."""
    os.kill(os.getpid(), signal.SIGKILL)


def day_of(plan: Plan) -> tuple[Cluster, CompiledWorkload]:
    """Return the requests of a Plan, compiled, with its cluster."""
    cluster = whole_cluster(plan)
    return cluster, compile_workload(lines_of_plan(plan), cluster)
