"""What the processes that optimise and compare have in common: one job from standard input.

A process is told what to do in one line of JSON. It runs at a low priority, so that changes
admitted meanwhile do not wait for it. When standard input ends, the server that started it has
gone: it stops and writes down the best so far.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from service.clock import FileClock, SystemClock
from service.commits.replica import Replica, open_replica
from service.config import ServiceConfig
from service.optimizing.reporter import Reporter
from service.tasks.open_pool import open_pool
from service.tasks.task_pool import TaskPool, TaskPoolError

logger = logging.getLogger("agenda.optimizing")

#: How much this process stands back behind the server's own.
_NICE: Final = 10

#: Exit code where the row says what went wrong.
_FAILED: Final = 1


@dataclass(frozen=True, slots=True)
class JobCall:
    """What the one job of a process is given.

    Attributes
    ----------
    replica
        The Plan, not yet replayed.
    asked
        The document of the job.
    kept
        What an earlier process has kept of it, or nothing.
    reporter
        Where to report.
    pool
        Where the heavy part runs.
    """

    replica: Replica
    asked: dict[str, Any]
    kept: bytes
    reporter: Reporter
    pool: TaskPool


def carry_out(work: Callable[[JobCall], None]) -> int:
    """Carry out the one job that standard input names; return the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(name)s %(levelname)s %(message)s")
    os.nice(_NICE)
    job = msgspec.json.decode(sys.stdin.buffer.readline())
    replica = open_replica(ServiceConfig(database=job["database"]), SystemClock())
    clock = replica.store.host_clock()
    row = replica.store.optimizations.get(job["id"])
    if row is None:  # it was forgotten before it began
        replica.store.close()
        return 0
    file = job["clock_file"]
    reporter = Reporter(replica.store, row, clock, None if file is None else FileClock(Path(file)))
    reporter.start()
    try:
        call = partial(JobCall, replica, msgspec.json.decode(row.document))
        try:
            with open_pool(dask=job["dask"]) as pool:
                work(call(row.result, reporter, pool))
        except TaskPoolError as failure:
            if not reporter.newest:
                reporter.end("failed", str(failure))
                return _FAILED
            # The best that was kept outlives the workers: it is written down here.
            reporter.ask(str(failure))
            with open_pool() as pool:
                work(call(reporter.newest, reporter, pool))
    except Exception as failure:
        logger.exception("job %s failed", job["id"])
        reporter.end("failed", f"{type(failure).__name__}: {failure}")
        return _FAILED
    finally:
        replica.store.close()
    return 0
