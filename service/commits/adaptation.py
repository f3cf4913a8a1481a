"""PlanAdapter: moves the reservations of lost machines and places waiting promises.

It has a lane of its own and works on a copy of the Plan, so that no other change waits for it; only
its commit takes a turn, like those of other servers: its result is re-checked on the newest
version, verified by the oracle and appended like every other change. After a crash between the
change of machines and the repair, the Plan lacks machines until the next check repairs it.

A repair is computed again only if the Plan has changed meanwhile. A conflict on the version that it
was computed on is a failure of the adapter, like an exception: it is logged, counted and reported
by ``/readyz``, and there is no retry before the next change of the Plan.
"""

from __future__ import annotations

import logging
import time
from contextlib import nullcontext
from dataclasses import replace
from typing import Final

from planner.adaptation.adapter import adapt, lacks_machines, needs_adaptation
from planner.adaptation.result import Adaptation, join_adaptations
from planner.agent import Limits
from planner.cluster.cluster import Cluster
from service.clock import Clock
from service.commits.commands import AdaptationAnswer, AdaptationCommand, Answer
from service.commits.job import Job
from service.commits.lane import Lane
from service.commits.records import commit_jointly
from service.commits.replica import Replica
from service.metrics import Telemetry
from service.problems import ProblemDocument
from service.store.engine import UNAVAILABLE

logger = logging.getLogger("agenda.service")

#: Limits of the improvement of a repair: rounds, so that a dry run and the later change agree; and
#: time, so that a change of machines is answered in time.
EFFORT: Final = Limits(work=40, time_s=1.0)

#: Limits if no machines are short, no call waits, and degraded reservations wait for capacity.
_BRIEF_EFFORT: Final = Limits(work=40, time_s=0.5)

#: Number and time of attempts that begin while others may append. A later attempt holds the turn to
#: append until it is committed, and is not improved: otherwise, if the Plan changes faster than a
#: repair is computed, none would ever be committed. More than one of these is needed only if a
#: process on another host does not wait for its turn.
_FREE_ATTEMPTS: Final = 3
_FREE_S: Final = 5.0
_HELD_ATTEMPTS: Final = 3

#: Least seconds between two checks, and the pause after one without a gain for waiting promises, as
#: a multiple of its duration.
_LOOK_S, _REST = 1.0, 10.0

_FAILED: Final = ProblemDocument(
    "unavailable",
    "the machines have been changed, but the adapter failed, so the affected reservations are "
    "unknown; it retries after the next change of the Plan, and GET /readyz and the log have the "
    "cause",
)


class AdapterError(Exception):
    """The Plan rejected a repair on the same version that it was computed on."""


class PlanAdapter:
    """Runs the adapter on the Plan of one process and commits its result.

    Attributes
    ----------
    lane
        Carries out adaptation jobs, and checks the Plan in between.
    failure
        Failure of the last check; empty if there was none.
    """

    def __init__(self, replica: Replica, clock: Clock, telemetry: Telemetry) -> None:
        self._replica = replica
        self._clock = clock
        self._telemetry = telemetry
        self._seen = -1
        self._cluster: Cluster | None = None
        self._rest_until = 0.0
        self.failure = ""
        self.lane = Lane(
            "agenda-adapter",
            lambda jobs, _join: self._answer(jobs[0]),
            between=self._look,
            nap_s=_LOOK_S,
        )

    def _look(self, idle: bool) -> None:
        """Check the Plan while there is no job."""
        try:
            if idle:
                self.tick()
        except Exception:
            logger.exception("the adapter could not read the Plan")

    def tick(self) -> None:
        """Adapt the Plan if it has changed since the last check and needs it.

        A change of machines is handled immediately; pauses only follow checks without a gain.
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
        # Reservations that have lost machines wait less than promises that could be improved.
        rest = 0.0 if gained else taken if effort is EFFORT else _REST * taken
        self._rest_until = began + max(_LOOK_S, rest)

    def _answer(self, job: Job) -> None:
        """Carry out an adaptation job; the answer includes repairs by other processes."""
        command = job.command
        assert isinstance(command, AdaptationCommand)
        found = self.run()
        answer: Answer
        if isinstance(found, ProblemDocument):
            answer = found
        else:
            answer = self.so_far(command.since)
            if found is not None:
                summary = {**answer.summary, "short": found.summary["short"]}
                answer = AdaptationAnswer(summary, found.version)
        job.answers = (answer,)
        job.finished.set()

    def so_far(self, since: int) -> AdaptationAnswer:
        """Return the adaptations by any process after a version, as a pending answer."""
        with self._replica.newest() as plan:
            version = plan.version
        noted = self._replica.adapted_since(since)
        return AdaptationAnswer(join_adaptations(noted or ()), version, pending=True)

    def run(
        self, effort: Limits = EFFORT, *, waited_for: bool = True
    ) -> AdaptationAnswer | ProblemDocument | None:
        """Repair the Plan for its current machines; return the result, or a failure.

        None if the Plan kept changing; the next check tries again. Each attempt is improved for
        half the time of the previous one. After a few attempts, or some seconds, the turn to append
        is held, so that the next one is committed. A waiting job ends the improvement of a repair
        that no call waits for.

        Raises
        ------
        UnavailableError, sqlalchemy.exc.OperationalError
            If the database is unavailable; that is not a failure of the adapter.
        """
        began = time.monotonic()
        version, seconds, free, held = -1, effort.time_s, 0, 0
        try:
            while held < _HELD_ATTEMPTS:
                is_free = free < _FREE_ATTEMPTS and time.monotonic() - began < _FREE_S
                free, held = free + is_free, held + (not is_free)
                limits = replace(
                    effort,
                    time_s=seconds if is_free else 0.0,
                    stop=lambda: (
                        self.lane.is_stopping or (bool(len(self.lane.queue)) and not waited_for)
                    ),
                )
                seconds = None if seconds is None else seconds / 2
                with nullcontext() if is_free else self._replica.store.turn():
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
            self._seen = version  # is not checked again
            self.failure = f"the adapter failed at version {version}: {error}"
            self._telemetry.adaptations.labels("failed").inc()
            logger.exception("the adapter failed at version %d; the Plan is unchanged", version)
            return _FAILED
        self._telemetry.adaptations.labels("late").inc()
        logger.warning("the Plan changed during each of %d attempts to adapt it", free + held)
        return None

    def _commit(self, found: Adaptation) -> int | None:
        """Commit a repair; return its version, or None if the Plan has changed.

        Raises
        ------
        AdapterError
            If the Plan rejects it though it has not changed.
        """
        made, summary = (found.changes, ()), found.to_json()
        while True:
            outcome = commit_jointly(
                self._replica, self._clock, lambda _: made, found.based_on, adapted=summary
            )
            if outcome.conflicts and outcome.before == found.based_on:
                raise AdapterError(outcome.conflicts[0].detail)
            if outcome.version is not None or outcome.conflicts:
                return outcome.version  # otherwise another process was faster: retry

    def _done(self, found: Adaptation, version: int) -> AdaptationAnswer:
        self.failure = ""
        outcome = "refused" if found.refused else "done"
        if found.changes:
            self._telemetry.adaptations.labels(outcome).inc()
        for one in found.refused:
            logger.error(
                "the adapter degraded %s, because the Plan refused: %s", one.id, one.detail
            )
        return AdaptationAnswer(found.to_json(), version)

    @staticmethod
    def _tell(found: Adaptation) -> None:
        fates = [one.fate.value for one in found.affected]
        counts = ", ".join(f"{fates.count(fate)} {fate}" for fate in sorted(set(fates)))
        logger.info("adapted the Plan: %s", counts)
        if found.short:
            logger.warning("machines are still short: %s", found.short)
