"""PlanAdapter: moves the reservations of lost machines and places waiting promises.

It has a thread of its own and works on a copy of the Plan, so that no other change waits for it;
only its commit takes a turn, as those of other servers do: what it finds is re-checked on the
newest version, held against the oracle and appended like every other change. A crash between the
change of machines and this leaves a Plan that is short of machines, which the next look repairs.

An answer is computed again only if the Plan has changed meanwhile. A conflict on the version that
it was found on is a failure of the adapter, as an exception is: it is logged, counted and reported
by ``/readyz``, and nothing is tried again before the next change of the Plan.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from dataclasses import replace
from typing import Final

from planner.adaptation.adapter import adapt, lacks_machines, needs_adaptation
from planner.adaptation.result import Adaptation, join_adaptations
from planner.agent import Limits
from planner.cluster.cluster import Cluster
from service.clock import Clock
from service.commits.changes.commands import AdaptationAnswer, AdaptationCommand, QueuedChange
from service.commits.joint_commit import commit_jointly
from service.metrics import Telemetry
from service.problems import ProblemDocument, problem
from service.replication.replica import Replica
from service.store.database.driver import UNAVAILABLE

logger = logging.getLogger("agenda.service")

#: How far a repair is improved: rounds, so that a dry run and the change after it agree; and time,
#: so that the answer to a change of machines does not wait for more than that.
EFFORT: Final = Limits(work=40, time_s=1.0)

#: The same where nothing is short, nobody asks, and some degraded reservations wait for room.
_BRIEF_EFFORT: Final = Limits(work=40, time_s=0.5)

#: How long an answer is sought again because the Plan has moved on meanwhile.
_LONGEST_S: Final = 30.0

#: Least seconds between two looks, and how many times its own time the adapter rests after one
#: that gained nothing for promises that wait.
_LOOK_S, _REST = 1.0, 10.0

_FAILED: Final = ProblemDocument(
    "unavailable",
    "the machines are as asked, but the adapter failed, and who is affected is not known; it looks "
    "again after the next change of the Plan, and GET /readyz and the log say what failed",
)

_STOPPING: Final = "the server is stopping"


class AdapterError(Exception):
    """The adapter found an answer that the Plan does not take on the version it was found on."""


class PlanAdapter:
    """Runs the adapter on one process's Plan and commits what it finds.

    Attributes
    ----------
    failure
        What failed at the last look; empty where nothing did.
    """

    def __init__(self, replica: Replica, clock: Clock, telemetry: Telemetry) -> None:
        self._replica = replica
        self._clock = clock
        self._telemetry = telemetry
        self._seen = -1
        self._cluster: Cluster | None = None
        self._rest_until = 0.0
        self.failure = ""
        self._jobs: deque[QueuedChange] = deque()
        self._changed = threading.Condition()
        self._woken = self._stopping = False
        self._thread = threading.Thread(target=self._serve, name="agenda-adapter", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def close(self) -> None:
        """Take no more jobs; those that wait are refused."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join()

    def put(self, job: QueuedChange) -> bool:
        """Queue a job that asks for an adaptation; False when no more are taken."""
        with self._changed:
            if self._stopping:
                return False
            self._jobs.append(job)
            self._changed.notify()
            return True

    def wake(self) -> None:
        """Look soon: the Plan may have changed."""
        with self._changed:
            self._woken = True
            self._changed.notify()

    def _serve(self) -> None:
        while True:
            with self._changed:
                if not (self._jobs or self._woken or self._stopping):
                    self._changed.wait(_LOOK_S)
                self._woken = False
                job = self._jobs.popleft() if self._jobs else None
                if job is None and self._stopping:
                    return
            if job is None:
                self._look()
            else:
                self._carry_out(job)

    def _look(self) -> None:
        try:
            self.tick()
        except Exception:
            logger.exception("the adapter could not look at the Plan")

    def _carry_out(self, job: QueuedChange) -> None:
        try:
            if self._stopping:
                raise problem("unavailable", _STOPPING)
            self.answer(job)
        except Exception as failure:
            if not self._stopping:
                logger.exception("the adapter could not answer")
            job.failure = failure
        job.finished.set()

    def tick(self) -> None:
        """Adapt if the Plan has changed since the last look and asks for it.

        Other machines are looked at at once; a rest is only from looks that gained nothing.
        """
        began = time.monotonic()
        with self._replica.locked() as plan:
            others, self._cluster = plan.cluster is not self._cluster, plan.cluster
            if began < self._rest_until and not others:
                return
            self._rest_until = began + _LOOK_S
            if plan.version == self._seen:
                return
            if not needs_adaptation(plan):
                self._seen, self.failure = plan.version, ""
                return
            effort = EFFORT if lacks_machines(plan) else _BRIEF_EFFORT
        found = self.run(effort, waited_for=False)
        taken, gained = time.monotonic() - began, False
        if isinstance(found, AdaptationAnswer):
            self._seen, gained = found.version, bool(found.summary["affected"])
        # Reservations that have lost machines do not wait as long as promises that hope for better.
        rest = 0.0 if gained else taken if effort is EFFORT else _REST * taken
        self._rest_until = began + max(_LOOK_S, rest)

    def answer(self, job: QueuedChange) -> None:
        """Carry out a job that asks for it, and tell what any process has done about it."""
        command = job.command
        assert isinstance(command, AdaptationCommand)
        found = self.run()
        if found is None:
            job.answers = (self.so_far(command.since),)
        elif isinstance(found, ProblemDocument):
            job.answers = (found,)
        else:
            done = self.so_far(command.since)
            summary = {**done.summary, "short": found.summary["short"]}
            job.answers = (AdaptationAnswer(summary, found.version),)

    def so_far(self, since: int) -> AdaptationAnswer:
        """Return what any process has done after a version; the repair goes on."""
        with self._replica.newest() as plan:
            version = plan.version
        noted = self._replica.adapted_since(since)
        return AdaptationAnswer(join_adaptations(noted or ()), version, pending=True)

    def run(
        self, effort: Limits = EFFORT, *, waited_for: bool = True
    ) -> AdaptationAnswer | ProblemDocument | None:
        """Return what was done about the machines that the Plan has now, or why nothing was.

        None where the Plan moved on all the time; the next look tries again. Each attempt is
        improved for half of the time of the one before. A job that waits ends the improvement of a
        repair that nobody waits for.

        Raises
        ------
        UnavailableError, sqlalchemy.exc.OperationalError
            If the database cannot be used now; that is no failure of the adapter.
        """
        until = time.monotonic() + _LONGEST_S
        version, seconds = -1, effort.time_s
        try:
            while time.monotonic() < until:
                limits = replace(
                    effort,
                    time_s=seconds,
                    stop=lambda: self._stopping or (bool(self._jobs) and not waited_for),
                )
                seconds = None if seconds is None else seconds / 2
                with self._replica.newest() as plan:
                    version = plan.version
                    if self.failure and version == self._seen:
                        return _FAILED
                    if not needs_adaptation(plan):
                        return self._done(Adaptation(based_on=version), version)
                    twin = plan.copy()
                found = adapt(twin, limits)
                del twin
                if found.failed:
                    raise AdapterError(found.failed)
                if not found.changes:
                    return self._done(found, version)
                committed = self._commit(found)
                if committed is not None:
                    self._tell(found)
                    return self._done(found, committed)
        except UNAVAILABLE:
            raise
        except Exception as error:
            self._seen = version  # is not looked at again
            self.failure = f"the adapter failed at version {version}: {error}"
            self._telemetry.adaptations.labels("failed").inc()
            logger.exception("the adapter failed at version %d; the Plan is as it was", version)
            return _FAILED
        self._telemetry.adaptations.labels("late").inc()
        logger.warning("the Plan moved on for %g s while it was adapted", _LONGEST_S)
        return None

    def _commit(self, found: Adaptation) -> int | None:
        """Return the version that holds the answer, or None where the Plan has moved on.

        Raises
        ------
        AdapterError
            If the Plan does not take it though it is as it was.
        """
        made, summary = (found.changes, ()), found.to_json()
        while True:
            outcome = commit_jointly(
                self._replica, self._clock, lambda _: made, found.based_on, adapted=summary
            )
            if outcome.conflicts and outcome.before == found.based_on:
                raise AdapterError(outcome.conflicts[0].detail)
            if outcome.version is not None or outcome.conflicts:
                return outcome.version  # without either another process was faster: once more

    def _done(self, found: Adaptation, version: int) -> AdaptationAnswer:
        self.failure = ""
        outcome = "refused" if found.refused else "done"
        if found.changes:
            self._telemetry.adaptations.labels(outcome).inc()
        for one in found.refused:
            logger.error("the adapter degraded %s, for the Plan refused: %s", one.id, one.detail)
        return AdaptationAnswer(found.to_json(), version)

    @staticmethod
    def _tell(found: Adaptation) -> None:
        fates = [one.fate.value for one in found.affected]
        counts = ", ".join(f"{fates.count(fate)} {fate}" for fate in sorted(set(fates)))
        logger.info("adapted the Plan: %s", counts)
        if found.short:
            logger.warning("machines are still short: %s", found.short)
