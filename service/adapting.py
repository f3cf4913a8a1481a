"""The adapter of a service: lost machines and waiting promises, answered and made durable.

Only the planner thread comes here. It works on a copy of the Plan, so that nobody who reads waits
for it; what it finds is re-checked on the newest version, held against the oracle and appended like
every other change. A crash between the change of machines and this leaves a Plan that is short of
machines, which the next look repairs.
"""

from __future__ import annotations

import logging
import time
from typing import Final

from planner.adaptation.adapter import adapt, needs_adaptation
from planner.adaptation.answer import Adaptation
from planner.agent import Limits
from planner.plan import Plan
from planner.plan_state import capture, restore
from service.clock import Clock
from service.commands import Adapted, Adapting, Job
from service.joint_commit import commit_jointly
from service.replica import Replica

logger = logging.getLogger("agenda.service")

#: How far a repair is improved: rounds, so that a dry run and the change after it agree; and time,
#: so that nobody who asks for something else waits longer than that.
EFFORT: Final = Limits(work=40, time_s=4.0)

#: How often an answer is sought again because the Plan has moved on meanwhile.
_ROUNDS: Final = 5

#: Least seconds between two looks, and how many times its own time the adapter rests.
_LOOK_S, _REST = 1.0, 10.0


class PlanAdapter:
    """Adapts one process's Plan."""

    def __init__(self, replica: Replica, clock: Clock) -> None:
        self._replica = replica
        self._clock = clock
        self._seen = -1
        self._last: Adapted | None = None
        self._rest_until = 0.0

    def tick(self) -> None:
        """Adapt if the Plan has changed since the last look and asks for it."""
        began = time.monotonic()
        if began < self._rest_until:
            return
        self._rest_until = began + _LOOK_S
        with self._replica.locked() as plan:
            if plan.version == self._seen or not needs_adaptation(plan):
                self._seen = plan.version
                return
        self._seen = self.run().version
        taken = time.monotonic() - began
        self._rest_until = began + max(_LOOK_S, _REST * taken)

    def answer(self, job: Job) -> None:
        """Carry out a job that asks for it."""
        found, command, last = self.run(), job.command, self._last
        assert isinstance(command, Adapting)
        if not found.adaptation.changes and last is not None and last.version > command.since:
            found = last  # it was done between the change of machines and this
        job.answers = (found,)
        job.finished.set()

    def run(self) -> Adapted:
        """Return what was done about the machines that the Plan has now."""
        version = 0
        for _ in range(_ROUNDS):
            with self._replica.newest() as plan:
                version = plan.version
                if not needs_adaptation(plan):
                    return Adapted(Adaptation(based_on=version), version)
                state = capture(plan)
            found = adapt(restore(state.encode()), EFFORT)
            del state
            if not found.changes:
                return Adapted(found, version)
            committed = self._commit(found)
            if committed is not None:
                self._tell(found)
                self._last = Adapted(found, committed)
                return self._last
        logger.warning("the Plan moved on %d times while it was adapted", _ROUNDS)
        return Adapted(Adaptation(based_on=version), version)

    def _commit(self, found: Adaptation) -> int | None:
        """Return the version that holds the answer, or None where the Plan has moved on."""
        made = found.changes, ()
        return commit_jointly(self._replica, self._clock, lambda _: made, found.based_on).version

    @staticmethod
    def _tell(found: Adaptation) -> None:
        fates = [one.fate.value for one in found.affected]
        counts = ", ".join(f"{fates.count(fate)} {fate}" for fate in sorted(set(fates)))
        logger.info("adapted the Plan: %s", counts)
        if found.short:
            logger.warning("machines are still short: %s", found.short)


def twin_of(plan: Plan) -> Plan:
    """Return an equal Plan that shares nothing; for asking what would be."""
    return restore(capture(plan).encode())
