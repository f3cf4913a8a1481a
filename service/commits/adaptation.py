"""PlanAdapter: moves the reservations of lost machines and places waiting promises.

It has a lane of its own and works on a copy of the Plan, so that no other change waits for it;
only its commit takes a turn, as those of other servers do: what it finds is re-checked on the
newest version, held against the oracle and appended like every other change. A crash between the
change of machines and this leaves a Plan that is short of machines, which the next look repairs.

An answer is computed again only if the Plan has changed meanwhile. A conflict on the version that
it was found on is a failure of the adapter, as an exception is: it is logged, counted and reported
by ``/readyz``, and nothing is tried again before the next change of the Plan.
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

#: How far a repair is improved: rounds, so that a dry run and the change after it agree; and time,
#: so that the answer to a change of machines does not wait for more than that.
EFFORT: Final = Limits(work=40, time_s=1.0)

#: The same where nothing is short, no one asks, and some degraded reservations wait for capacity.
_BRIEF_EFFORT: Final = Limits(work=40, time_s=0.5)

#: How many attempts to find an answer begin while others may append, and within which time. Each
#: later one holds the turn to append until it is committed, and is not improved: where the Plan
#: moves on faster than an answer is computed, none would ever be committed otherwise. Several of
#: those are needed only where a process of another host does not wait for its turn.
_FREE_ATTEMPTS: Final = 3
_FREE_S: Final = 5.0
_HELD_ATTEMPTS: Final = 3

#: Least seconds between two looks, and how many times its own time the adapter rests after one
#: that gained nothing for promises that wait.
_LOOK_S, _REST = 1.0, 10.0

_FAILED: Final = ProblemDocument(
    "unavailable",
    "the machines are as asked, but the adapter failed, and who is affected is not known; it looks "
    "again after the next change of the Plan, and GET /readyz and the log say what failed",
)


class AdapterError(Exception):
    """The adapter found an answer that the Plan does not take on the version it was found on."""


class PlanAdapter:
    """Runs the adapter on one process's Plan and commits what it finds.

    Attributes
    ----------
    lane
        Carries out the jobs that ask for it, and looks at the Plan in between.
    failure
        What failed at the last look; empty if nothing did.
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
        """Adapt if no request asks for it, unless there is nothing to do."""
        try:
            if idle:
                self.tick()
        except Exception:
            logger.exception("the adapter could not look at the Plan")

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

    def _answer(self, job: Job) -> None:
        """Carry out a job that asks for it, and answer what any process has done about it."""
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
        """Return what any process has done after a version; the repair continues."""
        with self._replica.newest() as plan:
            version = plan.version
        noted = self._replica.adapted_since(since)
        return AdaptationAnswer(join_adaptations(noted or ()), version, pending=True)

    def run(
        self, effort: Limits = EFFORT, *, waited_for: bool = True
    ) -> AdaptationAnswer | ProblemDocument | None:
        """Return what was done about the machines that the Plan has now, or why nothing was.

        None if the Plan moved on all the time; the next look tries again. Each attempt is
        improved for half of the time of the one before. After a few, or some seconds, the turn to
        append is held meanwhile, so that the next one is committed. A job that waits ends the
        improvement of a repair that no one waits for.

        Raises
        ------
        UnavailableError, sqlalchemy.exc.OperationalError
            If the database cannot be used now; that is no failure of the adapter.
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
            self._seen = version  # is not looked at again
            self.failure = f"the adapter failed at version {version}: {error}"
            self._telemetry.adaptations.labels("failed").inc()
            logger.exception("the adapter failed at version %d; the Plan is as it was", version)
            return _FAILED
        self._telemetry.adaptations.labels("late").inc()
        logger.warning("the Plan moved on in each of %d attempts to adapt it", free + held)
        return None

    def _commit(self, found: Adaptation) -> int | None:
        """Return the version that holds the answer, or None if the Plan has moved on.

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
                return outcome.version  # without either another process was faster: again

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
