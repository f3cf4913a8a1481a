"""Runtime: one process's Plan, the store behind it, and the threads that change both.

Reads take the Plan's lock for as long as they copy what they show. Changes wait in a queue; the
planner thread takes all that wait, lets the agents place them on a snapshot without the lock, and
commits them together (`service.commits.group_commit`). The lock is held only while a commit is
prepared or applied, so no read waits for planning. Solvers have a lane of their own
(`service.commits.solver_lane`), so no change waits for them.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Final, TypeAlias

from planner.plan.plan import Plan
from rdl.compile.compiler import compile_expression
from rdl.durations import rfc3339_text
from rdl.expressions import Absolute, AfterSubmission, Expression, Instant, Offset
from rdl.work_graph import WorkGraph
from service.clock import Clock, SystemClock, instant_of, unix_ms
from service.commits.change_queue import ChangeQueue
from service.commits.commands import Answer, Command, Key, QueuedChange, Rendered
from service.commits.group_commit import GroupCommit
from service.commits.pending import context_of
from service.commits.planner_thread import PlannerThread
from service.commits.quick import is_quick
from service.commits.remembered import recall
from service.commits.replay import ReplayError
from service.commits.replica import Replica, open_replica
from service.commits.solver_lane import SolverLane
from service.commits.start import adopt_offered_cluster
from service.config import ServiceConfig
from service.dispatching.dispatcher_thread import Dispatching, GivesBack, Pace
from service.dispatching.giving_back import close_reservation, release_rows
from service.metrics import Telemetry
from service.optimizing.runner import Runner
from service.problems import ProblemDocument, problem
from service.store.driver import UNAVAILABLE
from service.warm_up import warm_up

logger = logging.getLogger("agenda.service")

Render: TypeAlias = Callable[[Sequence[Answer]], Rendered]

_RETRY: Final = {"Retry-After": "1"}

#: Longest sleep of an idle planner; it then looks whether a step has begun.
_NAP_S: Final = 1.0


class Runtime:
    """What the views of one process share.

    Attributes
    ----------
    config, telemetry
        Settings and counters.
    dispatching
        Who brings the machines in line with the Plan.
    optimizations
        Who starts the processes that look for a better Plan.
    solvers
        Who carries out what slow agents are asked for.
    """

    def __init__(
        self,
        config: ServiceConfig,
        replica: Replica,
        clock: Clock,
        loaded: Callable[[], None] | None = None,
    ) -> None:
        self.config = config
        self._loaded = loaded
        self.telemetry = Telemetry()
        self._replica = replica
        self._clock = clock
        self._committer = GroupCommit(config, replica, clock, self.telemetry)
        self.optimizations = Runner(config.database, replica.store)
        self.dispatching = Dispatching(
            replica,
            clock,
            Pace(config.tick_s, config.takeover_s),
            GivesBack(partial(close_reservation, self.change), partial(release_rows, self.change)),
            self.telemetry,
        )
        self._waiting = ChangeQueue(config.group)
        self._work = PlannerThread(replica, clock, self._committer, self._waiting.join)
        self.solvers = SolverLane(config, replica, clock, self.telemetry)
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name="agenda-planner", daemon=True)

    def start(self) -> Runtime:
        """Begin to replay, and then to plan; returns at once."""
        self._thread.start()
        return self

    def close(self) -> None:
        """Finish what waits, keep a snapshot, give the database back."""
        if self._closing:
            return
        self._closing = True
        self._waiting.close()
        self.solvers.close()
        if self._thread.ident is not None:
            self._thread.join()
        self.dispatching.close()
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
            raise TimeoutError(f"the Plan is not replayed after {timeout_s:g} s")
        if self._failure is not None:
            raise RuntimeError("the Plan could not be replayed") from self._failure

    def require_ready(self, wait_s: float = 0.0) -> None:
        """Refuse to answer before the Plan is whole; wait for that so long.

        Raises
        ------
        ApiProblemError
            ``unavailable``.
        """
        if not self._ready.wait(wait_s):
            raise problem("unavailable", "the Plan is being replayed", headers=_RETRY)
        if isinstance(self._failure, ReplayError):
            raise self._failure
        if self._failure is not None:
            raise problem("unavailable", "the Plan could not be replayed; see the server's log")

    def require_writable(self) -> None:
        """Refuse where the last change could not be made durable and none could be now.

        Raises
        ------
        ApiProblemError
            ``unavailable``.
        """
        try:
            self._replica.store.writing.attempt()
        except UNAVAILABLE as error:
            why = " ".join(str(error).split())
            detail = f"the database takes no changes: {why}"
            raise problem("unavailable", detail, headers=_RETRY) from error

    def now_ms(self) -> int:
        """Return now in ms from the Plan's origin."""
        return self._replica.plan_ms(self._clock.now_ms())

    def clock_ms(self) -> int:
        """Return now as Unix ms."""
        return self._clock.now_ms()

    def calendar(self, plan_ms: int) -> str:
        """Return ms from the Plan's origin by the calendar, RFC 3339."""
        return rfc3339_text(instant_of(plan_ms - self._replica.plan_ms(0)))

    def new_id(self) -> str:
        """Return an id that no reservation has."""
        return f"r-{os.urandom(10).hex()}"

    def reading(self) -> AbstractContextManager[Plan]:
        """Hold the Plan with everything in it that was answered by any process."""
        return self._replica.newest()

    def compile(self, expression: Expression, submitted_ms: int, source: str | None) -> WorkGraph:
        """Return an expression, read from the text `source` if it was text, compiled on the Plan.

        Raises
        ------
        RdlError
            If no plan could satisfy it.
        """
        with self._replica.locked() as plan:
            context = context_of(plan, submitted_ms)
        return compile_expression(expression, context, source)

    def resolve(self, instant: Instant | None) -> int | None:
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

    def recall(self, key: Key) -> Rendered | ProblemDocument | None:
        """Return what was answered under a key before."""
        return recall(self._replica.store, key)

    def change(self, command: Command, render: Render, key: Key | None = None) -> Rendered:
        """Carry out a command and return its answer; when it says done, it is on disk.

        Raises
        ------
        ApiProblemError
            ``unavailable`` when its turn does not come in time; whether it is still carried out
            is then open, as after a lost connection. ``too_many`` where as many wait for a solver
            as may.
        """
        job = QueuedChange(command, render, time.perf_counter(), key)
        if is_quick(command):
            return self._carried_out(job, self._waiting.put)
        with self.solvers.place():
            return self._carried_out(job, self.solvers.put)

    def _carried_out(self, job: QueuedChange, put: Callable[[QueuedChange], bool]) -> Rendered:
        if not put(job):
            raise problem("unavailable", "the server is stopping", headers=_RETRY)
        if not job.finished.wait(self.config.plan_timeout_s):
            detail = "the planner is busy; ask later whether the change was made"
            raise problem("unavailable", detail, headers=_RETRY)
        if job.failure is not None:
            raise job.failure
        self._count(job.answers)
        return job.rendered if job.rendered is not None else job.render(job.answers)

    def rehearse(self, command: Command) -> tuple[Answer, ...]:
        """Return what a command would be answered now; nothing is changed.

        Raises
        ------
        ApiProblemError
            ``too_many`` or ``unavailable`` where a solver is asked for and has no time for it.
        """
        lane = self._committer if is_quick(command) else self.solvers
        return lane.rehearse(command)

    def _count(self, answers: Sequence[Answer]) -> None:
        for answer in answers:
            code = answer.code if isinstance(answer, ProblemDocument) else "done"
            self.telemetry.answers.labels(str(code)).inc()

    def _serve(self) -> None:
        try:
            self._replica.replay()
            self._committer.move_to_now()
            adopt_offered_cluster(self._replica, self._committer)
            warm_up(self)
            if self._loaded is not None:
                self._loaded()
        except Exception as failure:
            told = failure.document.detail if isinstance(failure, ReplayError) else ""
            logger.exception("the Plan could not be replayed%s", told and f": {told}")
            self._failure = failure
            return
        finally:
            self._ready.set()
        self.dispatching.start()
        self.solvers.start()
        while True:
            group = self._waiting.next_group(_NAP_S)
            if group is None:
                return
            if group:
                self._work.run(group)
            else:
                self._work.tick()
            self._work.adapt()


def open_runtime(
    config: ServiceConfig,
    clock: Clock | None = None,
    loaded: Callable[[], None] | None = None,
) -> Runtime:
    """Return a runtime on the configured database, replaying already.

    Parameters
    ----------
    loaded
        Called once, by the planner thread, when the Plan is replayed and before it plans.

    Raises
    ------
    ConfigError, FileError
        As `open_replica`.
    """
    used = SystemClock() if clock is None else clock
    return Runtime(config, open_replica(config, used), used, loaded).start()
