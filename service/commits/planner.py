"""Planner: carries out every change of the Plan, in its own lane or another one.

Changes wait in a queue; the planner thread takes all waiting changes, lets the agents place them on
a snapshot without the lock, and commits them together (`service.commits.group_commit`). Slow work
has lanes of its own (`service.commits.lane`), so that no other change waits for it: batches larger
than a group, solvers, the search for reservations to displace, and the adapter.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Final

from planner.agent import Limits
from rdl.time_grid import duration_text
from service.access.user import acting, present_actor
from service.commits.adaptation import PlanAdapter
from service.commits.archivist import Archivist
from service.commits.cluster_changes import adopt_offered_cluster
from service.commits.commands import (
    AdaptationAnswer,
    AdaptationCommand,
    Admission,
    Answer,
    Ask,
    Cancellation,
    Closure,
    Command,
    HoldAcceptance,
    HoldEnding,
    HoldPlacing,
    Key,
    Keyed,
    OptimizationCommand,
    Reconfiguration,
    Renegotiation,
    ReservationAnswer,
    UndoCommand,
    is_quick,
    is_quick_agent,
)
from service.commits.group_commit import GroupCommit
from service.commits.job import Job
from service.commits.lane import Join, Lane, WaitingPlaces
from service.commits.optimization import Applier
from service.commits.replica import Replica
from service.config import ServiceConfig
from service.host.shared_counts import SharedCounts
from service.logs import ADMISSIONS, log_admission
from service.metrics import Telemetry
from service.ownership import require_own
from service.problems import ApiProblemError, ProblemDocument, problem
from service.store import CompanionRow, IdempotentAnswer
from service.store.engine import UNAVAILABLE
from service.store.host_clock import JUMP_MS, HostClock

logger = logging.getLogger("agenda.service")

_RETRY: Final = {"Retry-After": "1"}
_LATER: Final = {"Retry-After": "60"}

#: Commands that promise future capacity.
_PROMISES: Final = (Admission, HoldPlacing, HoldAcceptance, Renegotiation)

#: Delay of the Plan at a start from which it is logged, ms.
_LONG_MS: Final = 3_600_000

#: Longest sleep of an idle planner; it then checks whether a step has begun.
_NAP_S: Final = 1.0

#: A Plan without reservations advances by this fraction of its horizon at a time.
_IDLE_PARTS: Final = 10

#: Seconds between two checks of holds.
_HOLD_LOOK_S: Final = 1.0

#: Reason in the history of a hold that was not accepted.
_OVER: Final = "its hold expired before it was accepted"

#: How often a solver is tried for the same request before it is answered ``conflict``.
_SOLVER_ROUNDS: Final = 3


class Planner:
    """Carries out and rehearses commands.

    Parameters
    ----------
    config, telemetry
        Settings and counters of the process.
    replica, clock
        The Plan and the time.
    waiting
        Counts of waiting requests shared by the server's processes; None to count only this
        process.

    Attributes
    ----------
    lane, bulk, solvers, displacements
        The lanes of quick changes, of batches larger than a group, of commands with slow agents,
        and of jobs that may displace others.
    adapter
        Repairs the Plan when machines change.
    precedence
        Held by the planner's thread during its turn to append.
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
        self._keeps_taken = config.kubernetes is not None
        self._waiting = WaitingLimit(config.tenant_waiting, waiting)
        self._replica = replica
        self._clock = clock
        self._telemetry = telemetry
        self._places = WaitingPlaces(config.threads)
        self._solving, self._searching = threading.Lock(), threading.Lock()
        process = (config, replica, clock, telemetry)
        self._largest = config.group
        self._committer = GroupCommit(*process, hand_on=self._displace)
        bulk = GroupCommit(*process, hand_on=self._displace)
        self._solver = GroupCommit(*process, rounds=_SOLVER_ROUNDS)
        self._displacer = GroupCommit(*process, is_stopping=lambda: self.displacements.is_stopping)
        self.lane = Lane(
            "agenda-planner", self._commit, most=config.group, joins=True,
            between=self._between, nap_s=_NAP_S, drains=True,
        )  # fmt: skip
        # No job joins a group of these lanes: they do not hold the turn to append while they place.
        self.bulk = Lane("agenda-bulk", bulk.run, most=config.group)
        self.solvers = Lane("agenda-solver", self._solve, most=config.group)
        self.displacements = Lane("agenda-displacer", self._commit_displacement)
        self.adapter = PlanAdapter(replica, clock, telemetry)
        self.precedence = self._committer.precedence
        self._applier = Applier(replica, clock)
        self._archivist = Archivist(config, replica, clock)
        self._holds_seen = -_HOLD_LOOK_S

    @property
    def _lanes_beside(self) -> tuple[Lane, ...]:
        return self.solvers, self.bulk, self.displacements, self.adapter.lane

    def bring_up_to_date(self) -> None:
        """Advance the Plan to the clock's step, and adopt the cluster given at this start."""
        with self._replica.newest() as plan:
            behind_ms = self._replica.plan_ms(self._clock.now_ms()) - plan.grid.ms(plan.now)
            is_new = not plan.version
        if behind_ms > _LONG_MS and not is_new:
            logger.warning(
                "the Plan is %s behind the clock and is catching up", duration_text(behind_ms)
            )
        self._committer.move_to_now()

        def change(command: Reconfiguration) -> Answer:
            job = Job(command, time.perf_counter())
            self._committer.run([job])
            return job.answers[0]

        adopt_offered_cluster(self._replica, change, keeps_taken=self._keeps_taken)

    def serve(self) -> None:
        """Carry out changes until the planner is closed; the planner thread's main function."""
        for lane in self._lanes_beside:
            lane.start()
        self.lane.serve()

    def close(self) -> None:
        """Accept no more changes; `serve` returns when waiting ones are carried out."""
        self.lane.close()
        for lane in self._lanes_beside:
            lane.close()

    def _commit(self, jobs: list[Job], join: Join | None) -> None:
        if isinstance(jobs[0].command, OptimizationCommand | UndoCommand):
            self._committer.move_to_now()
            with acting(jobs[0].actor):
                self._applier.answer(jobs[0])
        else:
            self._committer.run(jobs, join)

    def _solve(self, jobs: list[Job], _join: Join | None) -> None:
        with self._solving:
            self._solver.run(jobs)

    def _displace(self, job: Job) -> None:
        """Pass on a job that may displace others; if too many wait, it fails with ``too_many``."""
        user = job.actor.user
        if self.displacements.is_stopping:
            job.fail(_stopping())
        elif not self._places.take(user):
            job.fail(self._places.crowded())
        elif not self.displacements.put(job):
            self._places.give_back(user)
            job.fail(_stopping())

    def _commit_displacement(self, jobs: list[Job], _join: Join | None) -> None:
        (job,) = jobs
        try:
            self._displacer.go_on(job)
        finally:
            self._places.give_back(job.actor.user)

    def _between(self, idle: bool) -> None:
        """Do periodic work after each group, and once a second without one."""
        if idle:
            self._follow_clock()
        self._expire_holds()
        self.adapter.lane.queue.wake()
        try:
            self._archivist.tick()
        except Exception:
            logger.exception("nothing was archived; the Plan is unchanged")
        with suppress(*UNAVAILABLE):  # users of the database report that it is unavailable
            self._clock.look()

    def _follow_clock(self) -> None:
        """Advance states and the horizon with the clock while there are no requests.

        A Plan without reservations advances a tenth of its horizon at a time, so that an idle
        server writes little and still accepts requests.
        """
        at_ms = self._replica.plan_ms(self._clock.now_ms())
        with self._replica.locked() as plan:
            behind_ms = at_ms - plan.grid.ms(plan.now)
            idle = plan.live_count(None, None) == 0
            if idle and behind_ms < plan.cluster.horizon_ms // _IDLE_PARTS:
                return
        try:
            self._committer.move_to_now()
        except Exception:
            logger.exception("the Plan could not advance")

    def _expire_holds(self) -> None:
        """End expired holds of any process; at most once a second."""
        now = time.monotonic()
        if now < self._holds_seen + _HOLD_LOOK_S:
            return
        self._holds_seen = now
        try:
            at_ms = self._replica.plan_ms(self._clock.now_ms())
            with self._replica.newest() as plan:
                over = [n for n, hold in plan.table.holds.items() if hold.until_ms <= at_ms]
                ids = [plan.table.header(number)["id"] for number in over]
        except Exception:
            logger.exception("holds could not be checked")
            return
        jobs = [Job(HoldEnding(id_, _OVER, when_over=True), now) for id_ in ids]
        if jobs:
            self.lane.run(jobs)

    def require_time(self) -> None:
        """Refuse time-dependent commands while the clock and the Plan disagree.

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
                "wrong when the Plan advanced; correct the clock or restore a backup"
            )
            raise problem("plan_ahead", detail, headers=_LATER)

    def change(
        self, command: Command, companions: Sequence[CompanionRow] = ()
    ) -> tuple[Answer, ...]:
        """Carry out a command and return its answers; a granted change is on disk.

        Parameters
        ----------
        companions
            Rows to store in the transaction of the change, if it is made.

        Returns
        -------
        tuple
            One answer for each request of an admission, else one.

        Raises
        ------
        ApiProblemError
            ``unavailable`` if its turn does not come in time; it may still be carried out, as after
            a lost connection. ``too_many`` if too many calls wait for a solver, or too many
            requests of one tenant wait. ``not_found`` for a reservation of a tenant that the caller
            does not act for.
        IdTakenError
            If one of `companions` has the id of an existing application; nothing was
            changed.
        """
        job = Job(command, time.perf_counter(), companions=tuple(companions))
        return self._carry_out(job).answers

    def change_once(
        self, command: Command, keyed: Keyed, companions: Sequence[CompanionRow] = ()
    ) -> tuple[Answer, ...] | IdempotentAnswer:
        """Carry out a command, or return the answer stored under the key of its call.

        Returns
        -------
        tuple or IdempotentAnswer
            The answers; or the row under the key, if a change was made now or before.

        Raises
        ------
        ApiProblemError
            As :meth:`change`.
        """
        asked = Job(command, time.perf_counter(), keyed, tuple(companions))
        job = self._carry_out(asked)
        return job.answers if job.stored is None else job.stored

    def stored(self, key: Key) -> IdempotentAnswer | None:
        """Return the answer stored under a key, for the same request or another one."""
        return self._replica.store.answer(key.text)

    def repair(self, since: int, within_s: float) -> AdaptationAnswer:
        """Let the adapter repair the Plan for its machines, and return the repairs.

        Parameters
        ----------
        since
            The version that changed the machines.
        within_s
            Time to wait; the answer has the repairs until then, and the rest continues.

        Raises
        ------
        ApiProblemError
            ``unavailable`` if the adapter failed, or the server is stopping.
        """
        job = Job(AdaptationCommand(since), time.perf_counter())
        if not self.adapter.lane.put(job):
            raise _stopping()
        if not job.finished.wait(within_s):
            return self.adapter.so_far(since)
        if job.failure is not None:
            raise job.failure
        (answer,) = job.answers
        if isinstance(answer, ProblemDocument):
            raise ApiProblemError(answer)
        assert isinstance(answer, AdaptationAnswer)
        return answer

    def rehearse(self, command: Command) -> tuple[Answer, ...]:
        """Return the answers that a command would get now; nothing is changed.

        Raises
        ------
        ApiProblemError
            ``too_many`` or ``unavailable`` if a solver is requested but is busy.
        """
        if is_quick(command):
            return self._committer.rehearse(command, self._displacement_turn)
        with self._solver_turn():
            return self._solver.rehearse(command)

    @contextmanager
    def deciding(self, agent: str) -> Iterator[Limits]:
        """Give an agent its turn to decide without a commit; yield its limits.

        Raises
        ------
        ApiProblemError
            ``too_many`` if all places are taken, ``unavailable`` if it takes too long.
        """
        limits = self._committer.limits_of(agent)
        if is_quick_agent(agent):
            yield limits
        else:
            with self._solver_turn():
                yield limits

    def _solver_turn(self) -> AbstractContextManager[None]:
        return self._places.turn(self._solving, self._timeout_s, "the solver")

    def _displacement_turn(self) -> AbstractContextManager[None]:
        what = "the search for reservations to displace"
        return self._places.turn(self._searching, self._timeout_s, what)

    def _carry_out(self, job: Job) -> Job:
        """Put a job into its lane and wait for its answers."""
        self._require_own(job.command)
        if isinstance(job.command, _PROMISES):
            self.require_time()
        with self._waiting.holding(job.command):
            if is_quick(job.command):
                return self._await(job, self.bulk if job.size > self._largest else self.lane)
            with self._places.holding():
                return self._await(job, self.solvers)

    def _require_own(self, command: Command) -> None:
        """Refuse a change of a reservation whose tenant the present user does not act for."""
        user = present_actor().user
        if user.sees_all or not isinstance(command, Renegotiation | Cancellation | Closure):
            return
        id_ = command.ask.request.id if isinstance(command, Renegotiation) else command.id
        with self._replica.newest() as plan:
            require_own(plan, user, id_)

    def _await(self, job: Job, lane: Lane) -> Job:
        if not lane.put(job):
            raise _stopping()
        if not job.finished.wait(self._timeout_s):
            detail = "the planner is busy; check later whether the change was made"
            raise problem("unavailable", detail, headers=_RETRY)
        if job.failure is not None:
            raise job.failure
        self._count(job)
        _log_admissions(job)
        return job

    def _count(self, job: Job) -> None:
        problems = Counter(str(one.code) for one in job.answers if isinstance(one, ProblemDocument))
        done = len(job.answers) - problems.total()
        if done:
            self._telemetry.answers.labels("done").inc(done)
        for code, count in problems.items():
            self._telemetry.answers.labels(code).inc(count)
            if isinstance(job.command, Admission):
                self._telemetry.refusals.labels(code).inc(count)


def _stopping() -> ApiProblemError:
    return problem("unavailable", "the server is stopping", headers=_RETRY)


class WaitingLimit:
    """Counts waiting requests by tenant; thread-safe.

    Two processes that count at the same instant do not see each other's call.

    Parameters
    ----------
    most
        Most waiting requests of one tenant. A larger call is accepted if none of its tenant waits.
    shared
        Counts of the other processes of this server; None if there are none.
    """

    def __init__(self, most: int, shared: SharedCounts | None = None) -> None:
        self._most = most
        self._shared = shared
        self._waiting: dict[str, int] = {}
        self._lock = threading.Lock()

    @contextmanager
    def holding(self, command: Command) -> Iterator[None]:
        """Count the requests of a command while it waits.

        Raises
        ------
        ApiProblemError
            ``too_many`` if too many requests of a tenant already wait.
        """
        asked = _requests_of(command)
        with self._lock:
            for tenant, count in asked.items():
                waiting = self._waiting_of(tenant)
                if waiting and waiting + count > self._most:
                    detail = (
                        f"{waiting:,} requests of tenant {tenant!r} wait to be planned, "
                        f"the maximum is {self._most:,}"
                    )
                    raise problem("too_many", detail, headers=_RETRY)
            self._add(asked, 1)
        try:
            yield
        finally:
            with self._lock:
                self._add(asked, -1)

    def _waiting_of(self, tenant: str) -> int:
        others = 0 if self._shared is None else self._shared.of_others(tenant)
        return self._waiting.get(tenant, 0) + others

    def _add(self, asked: Mapping[str, int], sign: int) -> None:
        """Change the counts of tenants; drop tenants without waiting requests."""
        for tenant, count in asked.items():
            left = self._waiting.pop(tenant, 0) + sign * count
            if left:
                self._waiting[tenant] = left
            if self._shared is not None:
                self._shared.put(tenant, left)


def _requests_of(command: Command) -> Counter[str]:
    match command:
        case Admission(asks=asks):
            return Counter(ask.request.tenant for ask in asks)
        case Renegotiation(ask=ask):
            return Counter((ask.request.tenant,))
        case _:
            return Counter()


def _log_admissions(job: Job) -> None:
    """Log each answered request of an admission; nothing for other jobs."""
    if not isinstance(job.command, Admission) or not ADMISSIONS.isEnabledFor(logging.INFO):
        return
    took_ms = round((time.perf_counter() - job.arrived) * 1000, 3)
    for ask, answer in zip(job.command.asks, job.answers, strict=False):
        log_admission({**_ask_fields(ask), **_answer_fields(answer), "ms": took_ms})


def _ask_fields(ask: Ask) -> dict[str, object]:
    request = ask.request
    return {
        "id": request.id, "tenant": request.tenant, "queue": request.queue, "agent": ask.agent,
    }  # fmt: skip


def _answer_fields(answer: Answer) -> dict[str, object]:
    if isinstance(answer, ProblemDocument):
        return {"outcome": "refused", "code": str(answer.code), "version": None}
    version = answer.version if isinstance(answer, ReservationAnswer) else None
    return {"outcome": "accepted", "code": None, "version": version}
