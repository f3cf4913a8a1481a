"""Planner: every change of the Plan goes through it, by the planner thread or by a lane.

Changes wait in a queue; the planner thread takes all that wait, lets the agents place them on a
snapshot without the lock, and commits them together (`service.commits.group_commit`). Solvers have
a lane of their own (`service.planning.solver_lane`), and so have the search of whom a change
displaces (`service.planning.displacement_lane`) and the adapter (`service.planning.adaptation`), so
no change waits for them.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from rdl.time_grid import duration_text
from service.access.actor import present_actor
from service.commits.answers.idempotency import recall
from service.commits.changes.commands import (
    AdaptationAnswer,
    AdaptationCommand,
    Admission,
    Answer,
    Cancellation,
    Closure,
    Command,
    HoldAcceptance,
    HoldPlacing,
    Key,
    QueuedChange,
    Render,
    Renegotiation,
    is_quick,
)
from service.commits.group_commit import GroupCommit
from service.commits.screening.ownership import require_own
from service.config import ServiceConfig
from service.metrics import Telemetry
from service.planning.adaptation import PlanAdapter
from service.planning.admission_log import log_admissions
from service.planning.archivist import Archivist
from service.planning.change_queue import ChangeQueue
from service.planning.displacement_lane import DisplacementLane
from service.planning.group_runner import GroupRunner
from service.planning.offered_cluster import adopt_offered_cluster
from service.planning.shared_counts import SharedCounts
from service.planning.solver_lane import ChangeLane, SolverLane
from service.planning.waiting_limit import WaitingLimit
from service.planning.waiting_places import WaitingPlaces
from service.problems import ApiProblemError, ProblemDocument, problem
from service.replication.replica import Replica
from service.response import Response
from service.store import YarnReservationRow
from service.store.database.clock_guard import JUMP_MS
from service.store.database.driver import UNAVAILABLE
from service.store.database.host_clock import HostClock

logger = logging.getLogger("agenda.service")

_RETRY: Final = {"Retry-After": "1"}
_LATER: Final = {"Retry-After": "60"}

#: Commands that promise something for times to come.
_PROMISES: Final = (Admission, HoldPlacing, HoldAcceptance, Renegotiation)

#: A Plan that is further behind at a start is worth a line in the log, ms.
_LONG_MS: Final = 3_600_000

#: Longest sleep of an idle planner; it then looks whether a step has begun.
_NAP_S: Final = 1.0


class Planner:
    """Carries out commands, and rehearses them.

    Parameters
    ----------
    config, telemetry
        Settings and counters of the process.
    replica, clock
        The Plan and the time.
    waiting
        What the server's processes keep waiting; None: this one counts for itself.

    Attributes
    ----------
    solvers
        The lane of commands that ask slow agents.
    adapter
        The thread that repairs the Plan when machines come and go.
    precedence
        Held by the planner's thread in its turn to append.
    """

    def __init__(
        self,
        config: ServiceConfig,
        replica: Replica,
        clock: HostClock,
        telemetry: Telemetry,
        waiting: SharedCounts | None = None,
    ) -> None:
        self._timeout_s = config.plan_timeout_s
        self._waiting = WaitingLimit(config.tenant_waiting, waiting)
        self._replica = replica
        self._clock = clock
        self._telemetry = telemetry
        places = WaitingPlaces(config.threads)
        self._displacements = DisplacementLane(config, replica, clock, telemetry, places)
        self._committer = GroupCommit(
            config, replica, clock, telemetry, displacements=self._displacements
        )
        self.precedence = self._committer.precedence
        self._queue = ChangeQueue(config.group)
        self._runner = GroupRunner(replica, clock, self._committer, self._queue.join)
        self._archivist = Archivist(config, replica, clock)
        self.adapter = PlanAdapter(replica, clock, telemetry)
        self.solvers = SolverLane(config, replica, clock, telemetry, places)
        bulk = GroupCommit(config, replica, clock, telemetry, displacements=self._displacements)
        self._bulk = ChangeLane("agenda-bulk", config, replica, clock, bulk)
        self._largest = config.group

    def bring_up_to_date(self) -> None:
        """Advance the Plan to the clock's step, and take up the cluster given at this start."""
        with self._replica.newest() as plan:
            behind_ms = self._replica.plan_ms(self._clock.now_ms()) - plan.grid.ms(plan.now)
            is_new = not plan.version
        if behind_ms > _LONG_MS and not is_new:
            logger.warning("the Plan is %s behind the clock and moves on", duration_text(behind_ms))
        self._committer.move_to_now()
        adopt_offered_cluster(self._replica, self._committer)

    def serve(self) -> None:
        """Carry out changes until the planner is closed; the planner thread's whole life."""
        self.solvers.start()
        self._bulk.start()
        self._displacements.start()
        self.adapter.start()
        while (group := self._queue.next_group(_NAP_S)) is not None:
            if group:
                self._runner.run(group)
            else:
                self._runner.tick()
            self._runner.expire_holds()
            self.adapter.wake()
            self._archive()
            with suppress(*UNAVAILABLE):  # whoever needs the database says that it is away
                self._clock.look()

    def require_time(self) -> None:
        """Refuse what depends on the time while the clock and the Plan do not agree on it.

        Raises
        ------
        ApiProblemError
            ``clock_unconfirmed``, ``plan_ahead``.
        """
        if (jump := self._clock.jump) is not None:
            raise problem("clock_unconfirmed", jump, headers=_LATER)
        now_ms = self._replica.plan_ms(self._clock.now_ms())
        with self._replica.locked() as plan:
            ahead_ms = plan.grid.ms(plan.now) - max(0, now_ms)
        if ahead_ms > JUMP_MS:
            span = duration_text(ahead_ms // 1000 * 1000)
            detail = (
                f"the Plan is {span} ahead of the clock, which went back or was "
                "wrong when the Plan moved on; set the clock right or restore a backup"
            )
            raise problem("plan_ahead", detail, headers=_LATER)

    def _archive(self) -> None:
        try:
            self._archivist.tick()
        except Exception:
            logger.exception("nothing has left for the archive; the Plan is as it was")

    def close(self) -> None:
        """Take no more changes; `serve` returns when those that wait are carried out."""
        self._queue.close()
        self.solvers.close()
        self._bulk.close()
        self._displacements.close()
        self.adapter.close()

    def recall(self, key: Key) -> Response | None:
        """Return what was answered under a key before, or that another request used it."""
        return recall(self._replica.store, key)

    def change(
        self, command: Command, companion: YarnReservationRow | None = None
    ) -> tuple[Answer, ...]:
        """Carry out a command and return its answers; when they say done, it is on disk.

        Parameters
        ----------
        companion
            A row that is kept in the transaction of the change, where it is made.

        Returns
        -------
        tuple
            One answer for each request of an admission, else one.

        Raises
        ------
        ApiProblemError
            ``unavailable`` when its turn does not come in time; whether it is still carried out
            is then open, as after a lost connection. ``too_many`` where too many calls wait for a
            solver, or requests of one tenant. ``not_found`` for a reservation of a tenant that the
            caller does not act for.
        """
        job = QueuedChange(command, time.perf_counter(), companion=companion)
        return self._carry_out(job).answers

    def repair(self, since: int, within_s: float) -> AdaptationAnswer:
        """Let the adapter repair the Plan for its machines, and return what was done.

        Parameters
        ----------
        since
            The version that changed the machines.
        within_s
            How long to wait; what has been done by then is answered, the rest is done soon.

        Raises
        ------
        ApiProblemError
            ``unavailable`` where the adapter failed, or the server is stopping.
        """
        job = QueuedChange(AdaptationCommand(since), time.perf_counter())
        if not self.adapter.put(job):
            raise problem("unavailable", "the server is stopping", headers=_RETRY)
        if not job.finished.wait(within_s):
            return self.adapter.so_far(since)
        if job.failure is not None:
            raise job.failure
        (answer,) = job.answers
        if isinstance(answer, ProblemDocument):
            raise ApiProblemError(answer)
        assert isinstance(answer, AdaptationAnswer)
        return answer

    def respond(self, command: Command, render: Render, key: Key | None = None) -> Response:
        """Carry out a command and return the response that `render` makes of its answers.

        Under a key the response is stored in the transaction of the change, and one that was
        stored before is returned instead of a change.

        Raises
        ------
        ApiProblemError
            As :meth:`change`.
        """
        if key is None:
            return render(self.change(command))
        job = self._carry_out(QueuedChange(command, time.perf_counter(), key, render))
        return render(job.answers) if job.response is None else job.response

    def _carry_out(self, job: QueuedChange) -> QueuedChange:
        self._require_own(job.command)
        if isinstance(job.command, _PROMISES):
            self.require_time()
        with self._waiting.holding(job.command):
            if is_quick(job.command):
                lane = self._bulk if job.size > self._largest else self._queue
                return self._await(job, lane.put)
            with self.solvers.place():
                return self._await(job, self.solvers.put)

    def _require_own(self, command: Command) -> None:
        """Refuse a change of what belongs to a tenant for which the present user does not act."""
        user = present_actor().user
        if user.sees_all or not isinstance(command, Renegotiation | Cancellation | Closure):
            return
        id_ = command.ask.request.id if isinstance(command, Renegotiation) else command.id
        with self._replica.newest() as plan:
            require_own(plan, user, id_)

    def _await(self, job: QueuedChange, put: Callable[[QueuedChange], bool]) -> QueuedChange:
        if not put(job):
            raise problem("unavailable", "the server is stopping", headers=_RETRY)
        if not job.finished.wait(self._timeout_s):
            detail = "the planner is busy; ask later whether the change was made"
            raise problem("unavailable", detail, headers=_RETRY)
        if job.failure is not None:
            raise job.failure
        self._count(job)
        log_admissions(job)
        return job

    def rehearse(self, command: Command) -> tuple[Answer, ...]:
        """Return what a command would be answered now; nothing is changed.

        Raises
        ------
        ApiProblemError
            ``too_many`` or ``unavailable`` where a solver is asked for and has no time for it.
        """
        lane = self._committer if is_quick(command) else self.solvers
        return lane.rehearse(command)

    def _count(self, job: QueuedChange) -> None:
        problems = Counter(str(one.code) for one in job.answers if isinstance(one, ProblemDocument))
        done = len(job.answers) - problems.total()
        if done:
            self._telemetry.answers.labels("done").inc(done)
        for code, count in problems.items():
            self._telemetry.answers.labels(code).inc(count)
            if isinstance(job.command, Admission):
                self._telemetry.refusals.labels(code).inc(count)
