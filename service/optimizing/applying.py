"""Applies what an optimisation found: merged with what happened meanwhile, or not at all.

Only the planner thread comes here. The answer is remembered in the transaction of the commit, so
that an optimisation is applied once, whoever asks how often and whatever breaks in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, TypeAlias

from planner.commit import Change, Conflict
from planner.optimization.written import changes_from_json
from planner.plan import Plan
from service.clock import Clock
from service.commands import Applied, Applying, Job
from service.joint_commit import Made, commit_jointly
from service.problems import ProblemDocument
from service.remembering import recall, remembered_of
from service.replica import Replica
from service.store import RememberedAnswer

#: Changes as they were written, and the version they were found on.
Found: TypeAlias = tuple[Sequence[Mapping[str, Any]], int]

#: How often it is tried again because another process was faster.
_ROUNDS: Final = 8


#: Changes read under one hold of the Plan's lock.
_READ_AT_ONCE: Final = 20


def applying_of(reading: Callable[[], AbstractContextManager[Plan]], found: Found) -> Applying:
    """Return the command that applies what was found, read a few changes at a time.

    Parameters
    ----------
    reading
        Holds the newest Plan; between two holds others get their turn.
    """
    written, based_on = found
    while True:
        with reading() as plan:
            grid = plan.grid
        changes: list[Change] = []
        strange: list[Conflict] = []
        for first in range(0, len(written), _READ_AT_ONCE):
            with reading() as plan:
                if plan.grid != grid:
                    break
                part = changes_from_json(written[first : first + _READ_AT_ONCE], plan, first)
            changes += part[0]
            strange += part[1]
        else:
            return Applying(written, (changes, strange), grid, based_on)


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
            same = plan.grid == command.grid
            return command.read if same else changes_from_json(command.written, plan)

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
            if outcome.conflicts or not command.written:
                return Applied(None if outcome.conflicts else before, False, outcome.conflicts)
        raise RuntimeError(f"other processes were faster {_ROUNDS} times")
