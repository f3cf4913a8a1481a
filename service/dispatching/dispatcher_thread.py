"""DispatcherThread: one of the server's processes leads the dispatch, and ticks.

Every process takes applications and shows the outcome of them; the leader in the database ticks.
A tick holds the Plan only while the follower reads it, and writes all changes in one transaction.
A leader that is silent for too long is replaced by another process.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import Final

from dispatch.backends.kubernetes.api import KubernetesError
from dispatch.backends.slurm.control.errors import SlurmError
from dispatch.cycle.cycle import Cycle
from dispatch.loop import load_kernels
from planner.files.errors import FileError
from service.commits.replica import Replica
from service.dispatching.kubernetes_jobs import KubernetesJobs
from service.dispatching.machine_watch import MachineWatch
from service.dispatching.pace import Pace
from service.dispatching.releaser import Releaser
from service.dispatching.run_starter import RunStarter
from service.dispatching.tenure import Tenure
from service.metrics import Telemetry
from service.store import ApplicationRows, LeadershipLostError
from service.store.engine import UNAVAILABLE
from service.store.host_clock import HostClock
from service.store.runs import RunRows

logger = logging.getLogger("agenda.service")

#: For how long a Slurm's accounting that does not answer holds up the first tick, s.
_HISTORY_WAIT_S: Final = 10.0


class DispatcherThread:
    """The dispatcher of one process; idle while another process leads.

    Parameters
    ----------
    replica, clock
        The Plan, the store and the time.
    pace
        Time between ticks.
    releaser
        Releases unneeded capacity to the Plan.
    watch
        Tells the Plan which machines are lost.
    telemetry
        Metrics that count ticks.
    kubernetes
        The Jobs of a Kubernetes cluster, which this process follows while it leads.

    Attributes
    ----------
    store
        The database.
    rows, runs
        The applications on disk, and the runs of executors.
    """

    def __init__(
        self,
        replica: Replica,
        clock: HostClock,
        pace: Pace,
        releaser: Releaser,
        watch: MachineWatch,
        telemetry: Telemetry,
        kubernetes: KubernetesJobs | None = None,
    ) -> None:
        self._replica = replica
        self.store = replica.store
        self.rows: ApplicationRows = replica.store.applications
        self.runs: RunRows = replica.store.runs
        self._clock = clock
        self._pace = pace
        self._releaser = releaser
        self._watch = watch
        self._telemetry = telemetry
        self._kubernetes = kubernetes
        self._has_engine = pace.slurm is not None or kubernetes is not None
        self._holder = f"{os.getpid()}-{os.urandom(8).hex()}"
        self._leads_until_ms = -1
        self._number = 0
        self._tenure: Tenure | None = None
        self._run_starter = RunStarter(replica)
        #: When a tenure could not begin first, for lack of an answer of Slurm; None if it could.
        self._refused_s: float | None = None
        #: Why promises cannot be carried out yet; empty once they could.
        self._waits_for = "the dispatcher loads its kernels" if self._has_engine else ""
        self._wake, self._closing = threading.Event(), threading.Event()
        self._has_loaded = threading.Event()
        self._ticking = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="agenda-dispatcher", daemon=True)

    def start(self) -> None:
        """Tick from now on, in a thread of its own."""
        if self._pace.tick_s > 0 and self._thread.ident is None:
            self._thread.start()

    def leads(self) -> bool:
        """Return whether this process dispatches now."""
        return self._leads_until_ms > self._clock.now_ms()

    @property
    def waits_for(self) -> str:
        """Why no promise can be carried out yet; empty once this process or another has begun.

        With Slurm or Kubernetes a leader must have read its state. A later silence does not revoke
        this.
        """
        return self._waits_for

    def check(self) -> list[str] | None:
        """Return inconsistencies of the state kept between ticks; None if nothing is kept here."""
        with self._ticking:
            return None if self._tenure is None else self._tenure.check()

    def nudge(self) -> None:
        """Tick soon: something has changed that should not wait."""
        self._wake.set()

    def close(self) -> None:
        """Finish the tick under way and let another process lead.

        A thread that still loads kernels is left: it compiles for a minute where they are new, and
        ends without a tick.
        """
        self._closing.set()
        self._wake.set()
        if self._has_loaded.is_set() and self._thread.ident is not None:
            self._thread.join()
        if self._leads_until_ms >= 0:
            self.rows.give_up_leadership(self._holder)
        if self._tenure is not None:
            self._tenure.close()
        if self._kubernetes is not None:
            self._kubernetes.close()

    def _run(self) -> None:
        # Kernels are loaded before leadership is requested: a first tick that compiles them would
        # take longer than other processes wait for a leader.
        try:
            load_kernels()
        except Exception:
            logger.exception("kernels could not be loaded; the first tick tries again")
        self._has_loaded.set()  # before it looks whether to close, as `close` does the other way
        self._note_begin("the dispatcher has not read the state of the cluster yet")
        pause_s = self._pace.tick_s
        while not self._closing.is_set():
            try:
                self.tick()
                pause_s = self._pace.tick_s
            except UNAVAILABLE:
                logger.exception("a tick of the dispatcher waits for the database")
                self._let_leadership_lapse()
            except (SlurmError, KubernetesError) as error:
                engine = "Slurm" if isinstance(error, SlurmError) else "Kubernetes"
                logger.warning("the dispatcher waits for %s: %s", engine, error)
                self._note_begin(f"the dispatcher waits for {engine}: {error}")
                pause_s = min(2 * pause_s, self._pace.longest_pause_s)
            except Exception:
                logger.exception("a tick of the dispatcher failed; the dispatcher restarts")
                self._end_tenure()
            self._wake.wait(pause_s)
            self._wake.clear()

    def tick(self) -> Cycle | None:
        """Run one cycle; return it, or None if another process leads or there is nothing to do.

        Any thread may call it.
        """
        with self._ticking:
            clock_ms = self._clock.now_ms()
            before, self._number = self._number, self._lead(clock_ms)
            _say_who_leads(before, self._number)
            self._telemetry.leads.set(self._number > 0)
            if self._tenure is not None and self._tenure.number != self._number:
                self._end_tenure()
            if not self._number:
                if not self._clock.fault:  # another process leads
                    self._note_begin("")
                return None
            now_ms = self._replica.plan_ms(clock_ms)
            try:
                tenure = self._tenure_at(now_ms)
                if tenure is None:
                    return None
                with self._telemetry.ticks.time():
                    cycle = tenure.tick(now_ms)
            except LeadershipLostError:
                _say_who_leads(self._number, 0)
                self._leads_until_ms, self._number = -1, 0
                self._end_tenure()
                self._telemetry.leads.set(0)
                return None
            self._telemetry.below.set(len(cycle.below))
            if tenure.has_looked:
                self._note_begin("")
            return cycle

    def _end_tenure(self) -> None:
        """Drop the state of a tenure, and stop its watches of Kubernetes."""
        self._tenure = None
        if self._kubernetes is not None:
            self._kubernetes.close()

    def _note_begin(self, waits_for: str) -> None:
        """Record what the dispatcher waits for before it can first carry out a promise."""
        if self._waits_for:
            self._waits_for = waits_for

    def _let_leadership_lapse(self) -> None:
        """Say that this process leads no longer, where that is over without the database."""
        if self._number and not self.leads():
            _say_who_leads(self._number, 0)
            self._number = 0
            self._telemetry.leads.set(0)

    def _lead(self, clock_ms: int) -> int:
        """Return the number of this process's tenure, 0 without one.

        Leadership is taken or renewed where that is due, by the clock that all hosts share.
        """
        left_ms, whole_ms = self._leads_until_ms - clock_ms, self._pace.leadership_ms
        if self._number and whole_ms // 2 < left_ms <= whole_ms:
            return self._number
        self._clock.measure()
        if self._clock.fault:
            if self._number:
                self.rows.give_up_leadership(self._holder)
            return 0
        now_ms = self._clock.now_ms()
        number = self.rows.lead(self._holder, now_ms, now_ms + whole_ms)
        self._leads_until_ms = now_ms + whole_ms if number else -1
        return number

    def _still_leads(self) -> bool:
        """Return whether this tenure continues, asked in a tick that may have taken long.

        Leadership that no other process has taken is renewed; it is unknown while the database is
        unavailable.
        """
        if self.leads():
            return True
        try:
            same = self._lead(self._clock.now_ms()) == self._number
        except UNAVAILABLE:
            return False
        if not same:  # the next tick finds out whose turn it is
            self._leads_until_ms = -1
        return same

    def _tenure_at(self, now_ms: int) -> Tenure | None:
        """Return the tenure with applications submitted or ended since; None with nothing to do."""
        self._run_starter.start_due(now_ms, self._number)
        rows = self.rows.open(fresh=self._tenure is not None)
        if self._tenure is None:
            if not rows and self._pace.lease_s is None and not self._has_engine:
                return None
            self._tenure = self._begin_tenure()
        for row in rows:
            try:
                self._tenure.submit(row, now_ms)
            except FileError:  # of another version; the others are not affected
                logger.exception("application %s cannot be read, and is not dispatched", row.id)
        for id_ in self.rows.ids_to_end():
            self._tenure.end(id_, now_ms)
        return self._tenure

    def _begin_tenure(self) -> Tenure:
        """Return a new tenure; a silent accounting of Slurm holds it up for some seconds only."""
        now_s = time.monotonic()
        waited_s = 0.0 if self._refused_s is None else now_s - self._refused_s
        if self._kubernetes is not None:
            self._kubernetes.begin(self.nudge)
        try:
            tenure = Tenure(
                self._replica,
                self._number,
                self._releaser,
                self._watch,
                self._telemetry,
                self._pace,
                leads=self._still_leads,
                needs_history=waited_s < _HISTORY_WAIT_S,
                kubernetes=self._kubernetes,
            )
        except SlurmError:
            self._refused_s = now_s if self._refused_s is None else self._refused_s
            raise
        self._refused_s = None
        return tenure


def _say_who_leads(before: int, after: int) -> None:
    """Record where this process begins to lead the dispatch, or does so no longer."""
    if before == after:
        return
    if before:
        logger.warning("this process no longer leads the dispatch (tenure %d)", before)
    if after:
        logger.info("this process leads the dispatch (tenure %d)", after)
