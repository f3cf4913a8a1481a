"""PlanAdapter: moves the reservations of lost machines and places waiting promises.

Only the planner thread comes here. It works on a copy of the Plan, so that nobody who reads waits
for it; what it finds is re-checked on the newest version, held against the oracle and appended like
every other change. A crash between the change of machines and this leaves a Plan that is short of
machines, which the next look repairs.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from typing import Final

from planner.adaptation.adapter import adapt, lacks_machines, needs_adaptation
from planner.adaptation.result import Adaptation, join_adaptations
from planner.agent import Limits
from planner.cluster.cluster import Cluster
from service.clock import Clock
from service.commits.changes.commands import AdaptationAnswer, AdaptationCommand, QueuedChange
from service.commits.joint_commit import commit_jointly
from service.problems import ProblemDocument
from service.replication.replica import Replica

logger = logging.getLogger("agenda.service")

#: How far a repair is improved: rounds, so that a dry run and the change after it agree; and time,
#: so that nobody who asks for something else waits longer than that.
EFFORT: Final = Limits(work=40, time_s=4.0)

#: The same where nothing is short, nobody asks, and some degraded reservations wait for room.
_BRIEF_EFFORT: Final = Limits(work=40, time_s=0.5)

#: How long an answer is sought again because the Plan has moved on meanwhile.
_LONGEST_S: Final = 30.0

#: Least seconds between two looks, and how many times its own time the adapter rests after one
#: that gained nothing.
_LOOK_S, _REST = 1.0, 10.0

_LATE: Final = ProblemDocument(
    "unavailable",
    "the machines are as asked, but the Plan moves on too fast to tell who is affected; they are "
    "adapted soon: GET /v1/reservations?state=degraded",
)


class PlanAdapter:
    """Runs the adapter on one process's Plan and commits what it finds."""

    def __init__(self, replica: Replica, clock: Clock) -> None:
        self._replica = replica
        self._clock = clock
        self._seen = -1
        self._cluster: Cluster | None = None
        self._rest_until = 0.0

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
            if plan.version == self._seen or not needs_adaptation(plan):
                self._seen = plan.version
                return
            effort = EFFORT if lacks_machines(plan) else _BRIEF_EFFORT
        found = self.run(effort)
        if found is None:
            logger.warning("the Plan moved on for %g s while it was adapted", _LONGEST_S)
            return
        self._seen = found.version
        taken = time.monotonic() - began
        self._rest_until = began + max(_LOOK_S, 0.0 if found.summary["affected"] else _REST * taken)

    def answer(self, job: QueuedChange) -> None:
        """Carry out a job that asks for it, and tell what any process has done about it."""
        command = job.command
        assert isinstance(command, AdaptationCommand)
        found = self.run()
        if found is None:
            job.answers = (_LATE,)
        else:
            noted = self._replica.adapted_since(command.since)
            summary = found.summary if noted is None else join_adaptations(noted)
            job.answers = (replace(found, summary={**summary, "short": found.summary["short"]}),)
        job.finished.set()

    def run(self, effort: Limits = EFFORT) -> AdaptationAnswer | None:
        """Return what was done about the machines that the Plan has now; None where not in time."""
        until = time.monotonic() + _LONGEST_S
        while time.monotonic() < until:
            with self._replica.newest() as plan:
                version = plan.version
                if not needs_adaptation(plan):
                    return AdaptationAnswer(Adaptation(based_on=version).to_json(), version)
                twin = plan.copy()
            found = adapt(twin, effort)
            del twin
            if not found.changes:
                return AdaptationAnswer(found.to_json(), version)
            committed = self._commit(found)
            if committed is not None:
                self._tell(found)
                return AdaptationAnswer(found.to_json(), committed)
        return None

    def _commit(self, found: Adaptation) -> int | None:
        """Return the version that holds the answer, or None where the Plan no longer takes it."""
        made, summary = (found.changes, ()), found.to_json()
        while True:
            outcome = commit_jointly(
                self._replica, self._clock, lambda _: made, found.based_on, adapted=summary
            )
            if outcome.version is not None or outcome.conflicts:
                return outcome.version  # without either another process was faster: once more

    @staticmethod
    def _tell(found: Adaptation) -> None:
        fates = [one.fate.value for one in found.affected]
        counts = ", ".join(f"{fates.count(fate)} {fate}" for fate in sorted(set(fates)))
        logger.info("adapted the Plan: %s", counts)
        if found.short:
            logger.warning("machines are still short: %s", found.short)
