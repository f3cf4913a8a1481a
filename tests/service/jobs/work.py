"""Tasks for tests of workers: they import nothing of tests' own, so any worker finds them."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from planner.cluster.cluster import Cluster
from planner.plan.plan import Plan
from planner.workload.compile import CompiledWorkload, compile_workload
from service.jobs.executors import Link
from service.jobs.job import lines_of_plan, whole_cluster


def squared(number: int, link: Link) -> int:
    """Return a square, after a word of news."""
    link.tell(f"squaring {number}")
    return number * number


def broken(link: Link) -> int:
    """Fail."""
    raise ValueError("no such number")


def until_stopped(link: Link) -> str:
    """Continue until asked to stop."""
    link.tell("begun")
    while not link.stop():
        time.sleep(0.05)
    return "the best so far"


def until_stopped_at(mark: Path, link: Link) -> str:
    """Make a file that is there until the task is asked to stop."""
    mark.touch()
    try:
        return until_stopped(link)
    finally:
        mark.unlink()


def deaf(link: Link) -> bool:
    """Work for ten minutes, anyone who asks for a stop."""
    time.sleep(600.0)
    return True


def dies_once(mark: Path, link: Link) -> object:
    """Keep a state and kill its worker; started again, return what was kept, or False."""
    if not mark.exists():
        link.keep({"found": 0.1 + 0.2})
        time.sleep(1.0)  # the word of it travels
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return link.kept or False


def dies(link: Link) -> None:
    """Kill anyone who works on it."""
    os.kill(os.getpid(), signal.SIGKILL)


def day_of(plan: Plan) -> tuple[Cluster, CompiledWorkload]:
    """Return the requests of a Plan, compiled, with its cluster."""
    cluster = whole_cluster(plan)
    return cluster, compile_workload(lines_of_plan(plan), cluster)
