"""Runner: starts the processes that optimise, and ends them; each writes its own row."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
import time
from typing import Final

import msgspec

from service.clock import SystemClock
from service.config import MULTIPROCESS_DIRECTORY
from service.optimizing.comparison_job import ComparisonJob
from service.optimizing.job import OptimizationJob
from service.store import OptimizationRow, Store
from service.store.rows.optimizations import LOST

#: Most optimisations at once on one database: each takes up to two cores and a copy of the Plan.
MOST_AT_ONCE: Final = 1

#: The module that an optimisation runs in.
_OPTIMIZER: Final = "service.optimizing.worker"

#: Length of the part of an id that says its kind; each kind is counted apart.
_PREFIX: Final = 2

#: Seconds that a server which ends gives them to write down the best so far.
_FAREWELL_S: Final = 15.0


class Runner:
    """The optimisations that this server process has started.

    Parameters
    ----------
    database
        URL, as the processes open it too.
    """

    def __init__(self, database: str, store: Store) -> None:
        self._database = database
        self.rows = store.optimizations
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._waiters: list[threading.Thread] = []
        self._clock = store.host_clock(SystemClock())

    def now_ms(self) -> int:
        """Return the time by the clock that processes of all servers tell, Unix ms."""
        self._clock.measure()
        return self._clock.now_ms()

    def start(
        self, id_: str, asked: OptimizationJob | ComparisonJob, worker: str = _OPTIMIZER
    ) -> None:
        """Keep a request and start on it, in the module `worker`.

        Raises
        ------
        service.store.TooManyError
            If the most that may run are running.
        """
        now_ms = self.now_ms()
        document = msgspec.json.encode(asked.to_json())
        row = OptimizationRow(id_, now_ms, document, now_ms)
        self.rows.add(row, MOST_AT_ONCE, id_[:_PREFIX])
        job = {"id": id_, "database": self._database, "asked": asked.to_json()}
        environment = {k: v for k, v in os.environ.items() if k != MULTIPROCESS_DIRECTORY}
        try:
            # A session of its own: ^C on the server's terminal reaches it as the end of its input.
            process = subprocess.Popen(
                [sys.executable, "-m", worker],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            self.rows.lose(id_, now_ms, f"its process could not be started: {error}")
            return
        self._processes[id_] = process
        waiter = threading.Thread(target=self._wait, args=(id_, process), daemon=True)
        self._waiters = [one for one in self._waiters if one.is_alive()] + [waiter]
        with contextlib.suppress(BrokenPipeError):  # it ended at once; its waiter says so
            assert process.stdin is not None
            process.stdin.write(msgspec.json.encode(job) + b"\n")
            process.stdin.flush()
        waiter.start()

    def process(self, id_: str) -> subprocess.Popen[bytes]:
        """Return the process of one that this server process has started and that runs.

        Raises
        ------
        KeyError
            If there is none.
        """
        return self._processes[id_]

    def _wait(self, id_: str, process: subprocess.Popen[bytes]) -> None:
        """Note at once when a process is gone without a word, instead of after its silence."""
        code = process.wait()
        self._processes.pop(id_, None)
        if code < 0:
            ending = f"its process was ended by signal {-code}; ask again"
            self.rows.lose(id_, self._clock.now_ms(), ending)
        elif code:
            self.rows.lose(id_, self._clock.now_ms(), LOST)

    def close(self) -> None:
        """Tell all to stop and write down the best so far; end those that do not in time."""
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
