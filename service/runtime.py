"""Runtime: the shared state of the calls of one process.

It owns the Plan and its store, and starts the threads that change them: the planner
(`service.commits.planner`) and the dispatcher (`service.dispatching.dispatcher_thread`). A read
holds the Plan's lock while it copies its data; a commit holds it only while it is prepared and
applied, so that no read waits for planning.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import Any, Final

from planner.cluster.memory_share import MemoryShares
from planner.plan.plan import Plan
from rdl.compile.compiler import compile_expression
from rdl.durations import rfc3339_text
from rdl.expressions import Absolute, AfterSubmission, Expression, Moment, Offset
from rdl.work_graph import WorkGraph
from service.clock import Clock, SystemClock, instant_of, unix_ms
from service.commits.planner import Planner
from service.commits.replay import ReplayError
from service.commits.replica import Offer, Replica, open_replica
from service.commits.screening import context_of
from service.config import ServiceConfig
from service.dispatching.dispatcher_thread import DispatcherThread
from service.dispatching.kubernetes_jobs import KubernetesJobs
from service.dispatching.machine_watch import MachineWatch
from service.dispatching.pace import Pace
from service.dispatching.releaser import Releaser
from service.exposition import PlanExposition
from service.host.shared_counts import SharedCounts
from service.jobs.apply import apply_found
from service.jobs.runner import Runner
from service.jobs.schedule_thread import ScheduleThread
from service.metrics import Telemetry
from service.plan_bounds import PlanBounds
from service.problems import problem
from service.random_ids import RandomIds
from service.shown_rows import ShownRows
from service.store import Store
from service.store.archive import ArchiveRows
from service.store.audit import AuditRows
from service.store.engine import UNAVAILABLE, OutdatedError
from service.store.host_clock import HostClock
from service.store.notifications import LOG
from service.store.tokens import TokenBook, TokenRows
from service.streaming.plan_stream import PieceMemory, PresentStates
from service.streaming.stream_hub import StreamHub
from service.warm_up import load_beside, warm_up
from service.webhooks.addresses import read_networks
from service.webhooks.collection import EventCollector
from service.webhooks.webhook_thread import WebhookThread
from service.windows import WindowBook

logger = logging.getLogger("agenda.service")

_RETRY: Final = {"Retry-After": "1"}
#: Seconds between two attempts to replay the Plan from an unavailable database.
_NEXT_REPLAY_S: Final = 1.0


#: Random bytes of ids made by the server: of ten million ids, two are equal with a probability of 3
#: in a million, and the second gets 409. Ids are half of the data of a picture with thousands of
#: reservations.
_ID_BYTES: Final = 8


class Runtime:
    """The Plan of a process, with everything that reads and changes it.

    Parameters
    ----------
    replica, clock
        The Plan, and the common clock of all hosts.
    loaded
        Called once, by the planner thread, when the Plan is replayed or the replay has failed,
        before planning.
    waiting
        Counts of waiting requests of all processes of the server; None if there is no other
        process.
    ended
        Called once, by the planner thread, if it ends without being closed.

    Attributes
    ----------
    config, telemetry
        Settings and counters.
    planner
        Carries out every change of the Plan.
    dispatcher
        Brings the machines in line with the Plan.
    optimizations
        Starts the processes that look for a better Plan.
    token_book
        Cache of tokens.
    windows
        Cache of the windows of reservations.
    shown_rows
        Cache of reservations as shown in lists.
    yarn
        Requests of YARN clients.
    exposition
        Figures of the Plan for Prometheus.
    bounds
        Upper bounds of the Plan's value.
    recent
        Events of the newest commits.
    webhooks
        Delivers events to webhooks.
    schedule
        Starts the scheduled optimisations of the cluster file.
    streams
        Feeds event streams.
    stream_pieces, present
        Caches of their events of the log, and of current states outside the log.
    """

    def __init__(
        self,
        config: ServiceConfig,
        replica: Replica,
        clock: HostClock,
        loaded: Callable[[], None] | None = None,
        waiting: SharedCounts | None = None,
        ended: Callable[[], None] | None = None,
    ) -> None:
        self.config = config
        self._loaded = loaded
        self._ended = ended
        self._has_ended = False
        self.telemetry = Telemetry()
        self.windows = WindowBook()
        self.shown_rows = ShownRows(self.windows)
        self._replica = replica
        self.recent = replica.recent
        self._clock = clock
        self.token_book = TokenBook(replica.store.tokens)
        self.planner = Planner(config, replica, clock, self.telemetry, waiting)
        self.optimizations = Runner(
            config.database, replica.store, clock, config.dask, config.clock_file
        )
        self.yarn = replica.store.yarn
        self.exposition = PlanExposition(replica, clock)
        self.bounds = PlanBounds(self.reading)
        releaser = Releaser(self.planner)
        self.dispatcher = DispatcherThread(
            replica,
            clock,
            Pace(
                config.tick_s,
                config.takeover_s,
                config.lease_s if config.executors else None,
                config.slurm,
                86_400 * config.ended_days,
            ),
            releaser,
            MachineWatch(self.planner, replica),
            self.telemetry,
            None
            if config.kubernetes is None
            else KubernetesJobs(config.kubernetes, self.planner, replica, releaser, config.agent),
        )
        self._listener = replica.store.listener(self._hear, self._compare_clocks)
        self.streams = StreamHub(self._look, config.streams)
        self.recent.listen(self.streams.wake)
        self.stream_pieces = PieceMemory(self.recent)
        self.present = PresentStates(replica.store)
        self.webhooks = WebhookThread(
            replica,
            clock,
            self.dispatcher.leads,
            EventCollector(self.recent, self.calendar),
            read_networks(config.webhook_networks),
        )
        self.schedule = ScheduleThread(
            self.optimizations,
            self.reading,
            clock,
            replica.plan_ms,
            lambda row: apply_found(self.optimizations, self.planner, self.reading, row),
            self.dispatcher.leads,
        )
        self._ids = RandomIds(_ID_BYTES)
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="agenda-planner", daemon=True)

    def start(self) -> Runtime:
        """Start the replay and then planning; returns immediately."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Finish waiting work, store a snapshot, and close the database."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._listener.close()
        self.streams.close()
        self.planner.close()
        if self._thread.ident is not None:
            self._thread.join()
        self.schedule.close()
        self.webhooks.close()
        self.dispatcher.close()
        self.optimizations.close()
        self._replica.close(self._clock.now_ms(), snapshot=self._failure is None)

    def wait_ready(self, timeout_s: float) -> None:
        """Return when the Plan is replayed.

        Raises
        ------
        TimeoutError
            If it is not in time.
        RuntimeError
            If the replay failed.
        """
        if not self._ready.wait(timeout_s):
            raise TimeoutError(f"the Plan was not replayed within {timeout_s:g} s")
        if self._failure is not None:
            raise RuntimeError("the Plan could not be replayed") from self._failure

    def require_ready(self, wait_s: float = 0.0) -> None:
        """Refuse to answer before the Plan is replayed; wait for it at most `wait_s`.

        Raises
        ------
        ApiProblemError
            ``unavailable``.
        """
        if not self._ready.wait(wait_s):
            raise problem("unavailable", "the Plan is being replayed", headers=_RETRY)
        if isinstance(self._failure, ReplayError):
            raise self._failure
        if self._has_ended:
            why = type(self._failure).__name__
            detail = f"the planner has failed ({why}), and the server is stopping; see its log"
            raise problem("unavailable", detail, headers=_RETRY)
        if self._failure is not None:
            raise problem("unavailable", "the Plan could not be replayed; see the server's log")

    def require_clock(self) -> None:
        """Refuse if this host's clock differs too much from the database's, or the Plan from it.

        Raises
        ------
        ApiProblemError
            ``unavailable``, ``clock_unconfirmed``, ``plan_ahead``.
        """
        self.planner.require_time()
        if (fault := self._clock.fault) is not None:
            raise problem("unavailable", fault, headers=_RETRY)

    def require_dispatcher(self) -> None:
        """Refuse if the dispatcher cannot carry out a promise yet: a Slurm must be read first.

        Raises
        ------
        ApiProblemError
            ``unavailable``.
        """
        if waits_for := self.dispatcher.waits_for:
            raise problem("unavailable", waits_for, headers=_RETRY)

    def database_facts(self) -> dict[str, Any]:
        """Return size and version numbers of the database."""
        return self._replica.store.facts()

    def require_writable(self) -> None:
        """Refuse if the last change could not be stored and the database still accepts none.

        Raises
        ------
        ApiProblemError
            ``unavailable``.
        """
        try:
            self._replica.store.write_check.attempt()
        except UNAVAILABLE as error:
            why = " ".join(str(error).split())
            detail = f"the database accepts no changes: {why}"
            raise problem("unavailable", detail, headers=_RETRY) from error

    @property
    def tokens(self) -> TokenRows:
        """The tokens in the database."""
        return self._replica.store.tokens

    @property
    def audit(self) -> AuditRows:
        """The audit."""
        return self._replica.store.audit

    def now_ms(self) -> int:
        """Return now in ms from the Plan's origin."""
        return self._replica.plan_ms(self._clock.now_ms())

    def clock_ms(self) -> int:
        """Return now as Unix ms."""
        return self._clock.now_ms()

    def calendar(self, plan_ms: int) -> str:
        """Return ms from the Plan's origin as a date, RFC 3339."""
        return rfc3339_text(instant_of(plan_ms - self._replica.plan_ms(0)))

    def unix_of(self, plan_ms: int) -> int:
        """Return ms from the Plan's origin as Unix ms."""
        return plan_ms - self._replica.plan_ms(0)

    def new_id(self, prefix: str = "r") -> str:
        """Return an id that no reservation (outage: prefix ``o``) has."""
        return f"{prefix}-{self._ids.new()}"

    @property
    def archive(self) -> ArchiveRows:
        """The archive of reservations that have left the Plan."""
        return self._replica.store.archive

    @property
    def store(self) -> Store:
        """The store shared by all processes."""
        return self._replica.store

    def reading(self) -> AbstractContextManager[Plan]:
        """Lock the Plan after applying all commits of any process."""
        return self._replica.newest()

    def memory_shares(self) -> MemoryShares:
        """Return the default memory of bundles, by this process's copy of the Plan."""
        with self._replica.locked() as plan:
            return plan.cluster.memory_shares

    def allows_start(self) -> bool:
        """Return whether requests are extended by the start delay of work of their size.

        By this process's copy of the policy; if another process has changed it meanwhile, screening
        refuses the request.
        """
        with self._replica.locked() as plan:
            return plan.cluster.dispatch.allow_start

    def compile(self, expression: Expression, submitted_ms: int, source: str | None) -> WorkGraph:
        """Compile an expression on the Plan; `source` is its text, if it was given as text.

        Raises
        ------
        RdlError
            If no plan could satisfy it.
        """
        with self._replica.locked() as plan:
            context = context_of(plan, submitted_ms)
        return compile_expression(expression, context, source)

    def resolve(self, instant: Moment | None) -> int | None:
        """Return an instant of a query as ms from the origin.

        Raises
        ------
        ApiProblemError
            ``malformed`` for an instant outside the calendar.
        """
        match instant:
            case None:
                return None
            case Offset(ms=ms):
                return ms
            case AfterSubmission(ms=ms):
                return self.now_ms() + ms
            case Absolute(at=at):
                return self._replica.plan_ms(unix_ms(at))

    def _look(self) -> None:
        """Apply records that other processes have appended."""
        with self._replica.newest():
            pass

    def _serve(self) -> None:
        try:
            while not self._bring_up():
                self._closing.wait(_NEXT_REPLAY_S)
        except Exception as failure:
            detail = failure.document.detail if isinstance(failure, ReplayError) else ""
            logger.exception("the Plan could not be replayed%s", detail and f": {detail}")
            self._failure = failure
            return
        finally:
            if self._loaded is not None:
                self._loaded()
            self._ready.set()
        try:
            self._listener.start()
            self.dispatcher.start()
            load_beside(self._replica)
            self.webhooks.start()
            self.schedule.start()
            self.planner.serve()
        except Exception as failure:
            logger.exception(
                "the planner has failed: no change can be made, and the server is stopping"
            )
            self._failure, self._has_ended = failure, True
            if self._ended is not None:
                self._ended()

    def _bring_up(self) -> bool:
        """Replay the Plan and prepare to answer; False while the database does not answer.

        Raises
        ------
        ReplayError, OutdatedError
            If the log cannot be read by this version.
        UnavailableError, sqlalchemy.exc.DBAPIError
            If the database does not answer and the server is stopping.
        """
        try:
            self._replica.replay()
            self.planner.bring_up_to_date()
            warm_up(self.planner, self._replica, self.now_ms(), self.config.agent)
            self.optimizations.resume()
        except OutdatedError:
            raise
        except UNAVAILABLE:
            if self._closing.is_set():
                raise
            logger.warning("the Plan is replayed once the database answers", exc_info=True)
            return False
        return True

    def _hear(self, what: str) -> None:
        """React to another process's commit."""
        if what == LOG:
            with suppress(ReplayError):  # every call gets this error
                self.telemetry.version.set(self._replica.follow())
        else:
            self.dispatcher.nudge()

    def _compare_clocks(self) -> None:
        self._clock.measure()
        self.telemetry.clock_ahead.set(self._clock.ahead_ms / 1000)


def open_runtime(
    config: ServiceConfig,
    clock: Clock | None = None,
    loaded: Callable[[], None] | None = None,
    waiting: SharedCounts | None = None,
    ended: Callable[[], None] | None = None,
    offer: Offer | None = None,
) -> Runtime:
    """Return a runtime on the configured database, with the replay started.

    Parameters
    ----------
    loaded, waiting, ended
        As in `Runtime`.
    offer
        The cluster file as read by the server's first process; None to read it here.

    Raises
    ------
    ConfigError, FileError
        As `open_replica`.
    """
    replica = open_replica(config, clock or SystemClock(), offer)
    # A given clock applies to all hosts.
    shared = replica.store.host_clock() if clock is None else HostClock(clock)
    return Runtime(config, replica, shared, loaded, waiting, ended).start()
