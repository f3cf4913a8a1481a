"""Runner: starts and ends the processes of jobs; each process writes its own row."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Final

import msgspec

from service.clock import Clock
from service.config import MULTIPROCESS_DIRECTORY
from service.jobs.job import ComparisonJob, OptimizationJob
from service.store import AuditRow, OptimizationRow, Store
from service.store.engine import UNAVAILABLE
from service.store.optimizations import LOST, RUNNING

logger = logging.getLogger("agenda.optimizing")

#: Most concurrent jobs of a kind on one database: each takes up to two cores and a copy of the
#: Plan.
MOST_AT_ONCE: Final = 1

#: The module of a job, by the prefix of its id.
_MODULES: Final = {
    "p-": "service.jobs.optimization",
    "c-": "service.jobs.comparison",
}

#: How often a job is continued after its process died.
MOST_DEATHS: Final = 2

#: Seconds between two checks for jobs of servers that ended.
_INHERIT_S: Final = 3.0

#: Length of the id prefix that says the kind; each kind is counted separately.
_PREFIX: Final = 2

#: Seconds that an ending server gives them to record the best result so far.
_FAREWELL_S: Final = 15.0


class Runner:
    """The jobs that this server process has started.

    Parameters
    ----------
    database
        URL of the database, also for the processes.
    clock
        The Plan's clock, for times in rows and the audit; heartbeats use the hosts' clocks.
    dask
        Address of a Dask scheduler for the heavy part; None to run it in the processes.
    clock_file
        File of the Plan's clock, if a file sets it.
    """

    def __init__(
        self,
        database: str,
        store: Store,
        clock: Clock,
        dask: str | None = None,
        clock_file: Path | None = None,
    ) -> None:
        self._database, self._dask = database, dask
        self._plan_clock, self._clock_file = clock, clock_file
        self.rows = store.optimizations
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._waiters: list[threading.Thread] = []
        self._clock = store.host_clock()
        self._closing = threading.Event()
        self._heir = threading.Thread(target=self._inherit, name="heir", daemon=True)

    def now_ms(self) -> int:
        """Return the time by the common clock of all servers, Unix ms."""
        self._clock.measure()
        return self._clock.now_ms()

    def plan_now_ms(self) -> int:
        """Return the time by the Plan's clock, Unix ms."""
        return self._plan_clock.now_ms()

    def start(
        self,
        id_: str,
        asked: OptimizationJob | ComparisonJob,
        audited: AuditRow | None = None,
    ) -> None:
        """Store a request with its audit row, and start it.

        Raises
        ------
        service.store.TooManyError
            If the largest number already runs.
        """
        now_ms = self.now_ms()
        created_ms = self.plan_now_ms()
        row = OptimizationRow(id_, created_ms, msgspec.json.encode(asked), now_ms)
        self.rows.add(row, MOST_AT_ONCE, id_[:_PREFIX], audited)
        self._launch(id_)

    def resume(self) -> None:
        """Continue the jobs of ended servers, now and whenever another one ends."""
        self._take_over()
        self._heir.start()

    def _take_over(self) -> None:
        for prefix in _MODULES:
            row = self.rows.take_over(prefix, self.now_ms())
            if row is not None and row.id not in self._processes:  # one of ours reports again
                died = "its process stopped reporting" if row.state == RUNNING else ""
                self._go_on(row, died)
        self.rows.note_lost(self.now_ms(), self.plan_now_ms())

    def _inherit(self) -> None:
        while not self._closing.wait(_INHERIT_S):
            try:
                self._take_over()
            except UNAVAILABLE:  # the next check may succeed
                logger.warning("jobs of servers that ended wait for the database", exc_info=True)
            except Exception:
                logger.exception("jobs of servers that ended were not taken over; retrying")

    def _go_on(self, row: OptimizationRow, died: str = "") -> None:
        """Restart a job from its stored state, but not for ever if its process `died`."""
        progress = msgspec.json.decode(row.progress)
        deaths = progress.get("deaths", 0) + bool(died)
        if deaths > MOST_DEATHS:
            ending = f"{died}, as {MOST_DEATHS} times before; ask again"
            self.rows.lose(row.id, self.plan_now_ms(), ending)
            return
        logger.info("job %s continues: %s", row.id, died or "its server ended")
        told = msgspec.json.encode({**progress, "deaths": deaths})
        self.rows.beat(row.id, self._clock.now_ms(), told)
        self._launch(row.id)

    def _launch(self, id_: str) -> None:
        """Start the process of a job with an existing row."""
        file = None if self._clock_file is None else str(self._clock_file)
        job = {"id": id_, "database": self._database, "dask": self._dask, "clock_file": file}
        environment = {k: v for k, v in os.environ.items() if k != MULTIPROCESS_DIRECTORY}
        try:
            # Its own session: ^C on the server's terminal reaches it only as the end of its input.
            process = subprocess.Popen(
                [sys.executable, "-m", _MODULES[id_[:_PREFIX]]],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            ending = f"its process could not be started: {error}"
            self.rows.lose(id_, self.plan_now_ms(), ending)
            return
        self._processes[id_] = process
        waiter = threading.Thread(target=self._wait, args=(id_, process), daemon=True)
        self._waiters = [one for one in self._waiters if one.is_alive()] + [waiter]
        with contextlib.suppress(BrokenPipeError):  # it ended immediately; its waiter reports it
            assert process.stdin is not None
            process.stdin.write(msgspec.json.encode(job) + b"\n")
            process.stdin.flush()
        waiter.start()

    def process(self, id_: str) -> subprocess.Popen[bytes]:
        """Return the running process of a job started by this server process.

        Raises
        ------
        KeyError
            If there is none.
        """
        return self._processes[id_]

    def _wait(self, id_: str, process: subprocess.Popen[bytes]) -> None:
        """Continue a job at once if its process was killed, instead of after its silence."""
        code = process.wait()
        self._processes.pop(id_, None)
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()
        try:
            self._follow(id_, code)
        except UNAVAILABLE:  # it is silent, and is continued for that reason
            logger.warning("the outcome of job %s waits for the database", id_, exc_info=True)

    def _follow(self, id_: str, code: int) -> None:
        if code > 0:
            self.rows.lose(id_, self.plan_now_ms(), LOST)
        if code >= 0:
            return
        row = self.rows.get(id_)
        died = f"its process was ended by signal {-code}"
        # A job with a requested stop is continued too, and ends with the best stored result. While
        # this server ends, the next server continues it.
        if row is not None and row.state == RUNNING and not self._closing.is_set():
            self._go_on(row, died)

    def close(self) -> None:
        """Ask all jobs to stop and record the best result so far; end those that do not in time."""
        self._closing.set()
        if self._heir.ident is not None:
            self._heir.join()
        until = time.monotonic() + _FAREWELL_S
        processes = list(self._processes.values())
        for process in processes:
            if process.stdin is not None:
                with contextlib.suppress(OSError):
                    process.stdin.close()
        for process in processes:
            try:
                process.wait(max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
        for waiter in self._waiters:
            waiter.join(1.0)
