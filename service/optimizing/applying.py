"""Applies what an optimisation found: merged with what happened meanwhile, or not at all.

Only the planner thread comes here. The answer is remembered in the transaction of the commit, so
that an optimisation is applied once, whoever asks how often and whatever breaks in between.
"""

from __future__ import annotations

from typing import Final

from planner.optimization.written import changes_from_json
from planner.plan import Plan
from service.clock import Clock
from service.commands import Applied, Applying, Job
from service.joint_commit import Made, commit_jointly
from service.problems import ProblemDocument
from service.remembering import recall, remembered_of
from service.replica import Replica
from service.store import RememberedAnswer

#: How often it is tried again because another process was faster.
_ROUNDS: Final = 8


class Applier:
    """Carries out the jobs that apply an optimisation."""

    def __init__(self, replica: Replica, clock: Clock) -> None:
        self._replica = replica
        self._clock = clock

    def answer(self, job: Job) -> None:
        """Carry out a job that asks for it."""
        command, key = job.command, job.key
        assert isinstance(command, Applying)
        assert key is not None
        found = recall(self._replica.store, key)
        if isinstance(found, ProblemDocument):
            job.answers = (found,)
        elif found is not None:
            job.rendered = found
        else:
            job.answers = (self._applied(job, command),)
        job.finished.set()

    def _applied(self, job: Job, command: Applying) -> Applied:
        def made(plan: Plan) -> Made:
            return changes_from_json(command.changes, plan)

        def remembered(version: int, before: int) -> list[RememberedAnswer]:
            job.answers = (Applied(version, merged=before > command.based_on),)
            assert job.key is not None
            return [remembered_of(job, job.key, self._clock.now_ms())]

        before = 0
        for _ in range(_ROUNDS):
            outcome = commit_jointly(self._replica, self._clock, made, command.based_on, remembered)
            before = outcome.before
            if outcome.version is not None:
                return Applied(outcome.version, merged=before > command.based_on)
            job.rendered = None
            if outcome.conflicts or not command.changes:
                return Applied(None if outcome.conflicts else before, False, outcome.conflicts)
        raise RuntimeError(f"other processes were faster {_ROUNDS} times")
