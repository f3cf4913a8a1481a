"""Common part of the optimising and comparing processes: run one job from standard input.

A process reads its job from one line of JSON. It runs at a low priority, so that admissions do not
wait for it. The end of standard input means that its server has ended: it stops and records the
best result so far.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from planner.optimization.result import OptimizeProgress
from service.clock import Clock, FileClock, SystemClock
from service.commits.replica import Replica, open_replica
from service.config import ServiceConfig
from service.jobs.dask_workers import workers_of
from service.jobs.executors import WorkerError, Workers
from service.store import OptimizationRow, Store
from service.store.engine import UNAVAILABLE
from service.store.host_clock import HostClock
from service.store.optimizations import INTERRUPTED

logger = logging.getLogger("agenda.optimizing")

#: Niceness of this process relative to the server.
_NICE: Final = 10

#: Exit code if the row has the reason of the failure.
_FAILED: Final = 1

#: Seconds between two checks for a stop, and between two heartbeats without news.
_LOOK_S, _WORD_S = 0.3, 3.0

#: Seconds between two reports of news.
_NEWS_S: Final = 1.0

#: Seconds after which a process that has not stopped on request is ended.
_PATIENCE_S: Final = 60.0

#: Seconds for which a process tries to record its end, less than the silence limit.
_END_S: Final = 15.0

#: Most reported points of value and bound over time; beyond that, every second one is dropped.
_POINTS: Final = 200

#: Stop reason of a job that is continued later.
_SERVER_ENDED: Final = "the server ended"

#: Exit code of a process that did not stop when asked.
_STUBBORN: Final = 3


class Reporter:
    """Updates a job's row while the work continues.

    Parameters
    ----------
    clock
        Clock of heartbeats.
    plan_clock
        Clock of its end, if it is another one.

    Attributes
    ----------
    why
        Reason to stop; empty if there is none.
    newest
        State from which this or another process can continue; empty at first.
    """

    def __init__(
        self, store: Store, row: OptimizationRow, clock: HostClock, plan_clock: Clock | None = None
    ) -> None:
        self._store, self._row = store, row
        self._clock, self._plan_clock = clock, plan_clock or clock
        self._lock = threading.Lock()
        before = msgspec.json.decode(row.progress)
        self._deaths: int = before.get("deaths", 0)
        self._trace: list[tuple[float, float, float, str]] = list(
            map(tuple, before.get("trace", ()))
        )
        self._kept: bytes | None = None
        self.newest = row.result
        self._phase, self._based_on = "starting", 0
        self._news = False
        self._stopped_at: float | None = None
        self._over = threading.Event()
        self._input = -1
        self.why = ""

    def start(self) -> None:
        """Start to report, and to wait for the end of standard input."""
        self._input = sys.stdin.fileno()
        threading.Thread(target=self._talk, name="reporter", daemon=True).start()
        threading.Thread(target=self._listen, name="listener", daemon=True).start()

    def enter(self, phase: str, based_on: int) -> None:
        """Set the current phase and the version of the Plan."""
        with self._lock:
            self._phase, self._based_on, self._news = phase, based_on, True

    def tell(self, now: OptimizeProgress) -> None:
        """Record a better plan or bound."""
        with self._lock:
            self._trace.append((round(now.elapsed_s, 3), now.value, now.bound, now.source))
            if len(self._trace) > _POINTS:
                self._trace = [*self._trace[:-1:2], self._trace[-1]]
            self._news = True

    def keep(self, state: bytes) -> None:
        """Store a state from which another process can continue if this one dies."""
        with self._lock:
            self._kept = self.newest = state

    def stop(self) -> bool:
        """Return whether the work should end with the best result so far."""
        return bool(self.why)

    def ended_with(self, result: bytes, part: str) -> None:
        """Record a result; `part` describes the result of a stopped job."""
        state = INTERRUPTED if self.why == _SERVER_ENDED else "stopped" if self.why else "finished"
        self.end(state, self.why and f"{self.why}: {part}", result)

    def end(self, state: str, reason: str = "", result: bytes = b"") -> None:
        """Record the end; nothing is reported after that."""
        self._over.set()
        at_ms = self._clock.now_ms()
        row = replace(
            self._row, state=state, reason=reason, result=result, progress=self._progress_body()
        )
        if not self._write_end(replace(row, ended_ms=self._plan_clock.now_ms(), alive_ms=at_ms)):
            logger.warning("optimisation %s was deleted or abandoned before it ended", row.id)

    def _write_end(self, row: OptimizationRow) -> bool:
        """Record the end, with retries for a while if the database is unavailable."""
        until = time.monotonic() + _END_S
        while True:
            try:
                with self._store.turn():
                    return self._store.optimizations.end(row)
            except UNAVAILABLE as error:
                if time.monotonic() > until:
                    raise
                logger.warning("job %s could not determine how it ended: %s", row.id, error)
                time.sleep(_NEWS_S)

    def _progress_body(self) -> bytes:
        with self._lock:
            self._news = False
            body: dict[str, object] = {"phase": self._phase, "based_on": self._based_on}
            if self._deaths:
                body["deaths"] = self._deaths
            if self._trace:
                elapsed, value, bound, source = self._trace[-1]
                gap = OptimizeProgress(value, bound, source, elapsed).gap
                body |= {"elapsed": elapsed, "value": value, "bound": bound, "gap": gap}
                body |= {"source": source, "trace": self._trace}
            return msgspec.json.encode(body)

    def _talk(self) -> None:
        last = 0.0
        while not self._over.wait(_LOOK_S):
            quiet = time.monotonic() - last
            due = quiet >= _WORD_S or (self._news and quiet >= _NEWS_S)
            try:
                wanted = self._say() if due else self._store.optimizations.is_wanted(self._row.id)
            except UNAVAILABLE as error:  # the next report may succeed
                logger.warning("optimisation %s could not report: %s", self._row.id, error)
                continue
            if due:
                last = time.monotonic()
            if not wanted:
                self.ask("it was asked to stop")
            if self._stopped_at is not None:
                self._lose_patience(time.monotonic() - self._stopped_at)

    def _say(self) -> bool:
        self._clock.measure()
        self._clock.look()
        with self._lock:
            kept, self._kept = self._kept, None
        with self._store.turn():
            return self._store.optimizations.beat(
                self._row.id, self._clock.now_ms(), self._progress_body(), kept
            )

    def _listen(self) -> None:
        """Wait for the end of standard input, which its starter keeps open while it lives."""
        with suppress(OSError):  # an unreadable input counts as closed
            while os.read(self._input, 1024):
                pass
        self.ask(_SERVER_ENDED)

    def ask(self, why: str) -> None:
        """Ask the work to end with the best result so far; the first reason counts."""
        with self._lock:
            if not self.why:
                self.why, self._stopped_at = why, time.monotonic()

    def _lose_patience(self, waited_s: float) -> None:
        if waited_s > _PATIENCE_S and not self._over.is_set():
            self.end("failed", f"it did not stop in {_PATIENCE_S:g} s and was ended")
            os._exit(_STUBBORN)


@dataclass(frozen=True, slots=True)
class JobCall:
    """Input of the job of a process.

    Attributes
    ----------
    replica
        The Plan, not yet replayed.
    asked
        The job, as JSON.
    kept
        State stored by an earlier process, or empty.
    reporter
        Receives reports.
    workers
        Workers for the heavy part; None for this process.
    """

    replica: Replica
    asked: bytes
    kept: bytes
    reporter: Reporter
    workers: Workers | None


def carry_out(work: Callable[[JobCall], None]) -> int:
    """Carry out the job on standard input; return the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(name)s %(levelname)s %(message)s")
    os.nice(_NICE)
    job = msgspec.json.decode(sys.stdin.buffer.readline())
    replica = open_replica(ServiceConfig(database=job["database"]), SystemClock())
    clock = replica.store.host_clock()
    row = replica.store.optimizations.get(job["id"])
    if row is None:  # it was deleted before it began
        replica.store.close()
        return 0
    file = job["clock_file"]
    reporter = Reporter(replica.store, row, clock, None if file is None else FileClock(Path(file)))
    reporter.start()
    try:
        call = partial(JobCall, replica, row.document)
        try:
            with workers_of(dask=job["dask"]) as workers:
                work(call(row.result, reporter, workers))
        except WorkerError as failure:
            if not reporter.newest:
                reporter.end("failed", str(failure))
                return _FAILED
            # The best stored result outlives the workers: it is recorded here.
            reporter.ask(str(failure))
            work(call(reporter.newest, reporter, None))
    except Exception as failure:
        logger.exception("job %s failed", job["id"])
        reporter.end("failed", f"{type(failure).__name__}: {failure}")
        return _FAILED
    finally:
        replica.store.close()
    return 0
