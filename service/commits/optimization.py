"""Applier: applies the result of an optimisation, merged with later changes; or undoes it.

Used only by the planner thread. The answer is stored in the transaction of the commit, so that an
optimisation is applied once, regardless of repeated requests and failures in between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np

from planner.adaptation.relocation import without_slots
from planner.optimization.codec import changes_from_json
from planner.optimization.feasible_part import feasible_part
from planner.optimization.undo import Staying, inverse_of, replay, requests_of, undo_changes
from planner.placement import Code
from planner.plan.plan import Plan
from planner.plan.records.changes import Change, Conflict
from planner.plan.records.commit_records import CommitRecord
from planner.reservations.state import LIVE, STATE_NUMBERS
from service.clock import Clock
from service.commits.commands import OptimizationAnswer, OptimizationCommand, UndoCommand
from service.commits.job import Job
from service.commits.records import JointOutcome, Made, commit_jointly
from service.commits.replica import Replica
from service.store import CommitRow, UndoRow

#: Changes as written, and the version on which they were found.
Found: TypeAlias = tuple[Sequence[Mapping[str, Any]], int]

#: Attempts if other processes are faster.
_ROUNDS: Final = 8


#: Changes parsed while holding the Plan's lock once.
_READ_AT_ONCE: Final = 20


def applying_of(
    reading: Callable[[], AbstractContextManager[Plan]],
    id_: str,
    found: Found,
    frozen_until: int | None,
) -> OptimizationCommand:
    """Return the command that applies the changes, parsing a few at a time.

    Parameters
    ----------
    reading
        Locks the newest Plan; others get their turn in between.
    id_
        Id of the optimisation.
    frozen_until
        If not all of it fits, apply the part that fits without moving rows before this step; None
        for all or nothing.
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
            break
    if frozen_until is None:
        return OptimizationCommand(id_, written, (changes, strange), grid, based_on)
    with reading() as plan:
        twin, same = plan.copy(), plan.grid == grid
    if same:
        fitting = replay(twin, changes, frozen_until)
        changes = list(fitting.kept)
        strange += fitting.left_out
    return OptimizationCommand(id_, written, (changes, strange), grid, based_on, partial=True)


def undoing_of(
    reading: Callable[[], AbstractContextManager[Plan]],
    id_: str,
    entries: Sequence[Mapping[str, Any]],
    version: int,
) -> UndoCommand:
    """Return the command that undoes an optimisation, with its requests compiled.

    Parameters
    ----------
    reading
        Locks the newest Plan; others get their turn in between.
    entries, version
        The inverse changes, and the version that the optimisation created.
    """
    with reading() as plan:
        compiled = requests_of(plan, ())
    for first in range(0, len(entries), _READ_AT_ONCE):
        with reading() as plan:
            more = requests_of(plan, entries[first : first + _READ_AT_ONCE])
            compiled = replace(more, by_id={**compiled.on(plan), **more.by_id})
    return UndoCommand(id_, entries, version, compiled)


class _Apply:
    """Applying an optimisation to the current Plan.

    Attributes
    ----------
    based_on
        The version on which it was found.
    is_empty
        Whether there is nothing to do.
    may_search
        Whether the Plan searches for machines if the given ones are taken by now.
    """

    def __init__(self, command: OptimizationCommand) -> None:
        self._command = command
        self._left: tuple[Conflict, ...] = ()
        self._undo: list[dict[str, Any]] = []
        self.based_on = command.based_on
        self.is_empty = not command.written
        self.may_search = not command.partial

    def made(self, plan: Plan) -> Made:
        """Return the changes, and the conflicts of those that do not apply."""
        command = self._command
        same = plan.grid == command.grid
        changes, strange = command.read if same else changes_from_json(command.written, plan)
        if not command.partial:
            return changes, strange
        fitting = feasible_part(plan, changes)
        self._left = (*strange, *fitting.left_out)
        return fitting.kept, () if fitting.kept else self._left

    def note(self, record: CommitRecord, plan: Plan) -> None:
        """Store the inverse of a record."""
        self._undo = inverse_of(plan, record)

    def answer(self, version: int, before: int) -> OptimizationAnswer:
        """Return the answer after the commit."""
        return OptimizationAnswer(version, before > self.based_on, left_out=self._left)

    def rows(self, version: int) -> list[CommitRow]:
        """Return the rows to store in the transaction of the commit with the answer."""
        undo = {"version": version, "changes": self._undo}
        return [UndoRow(self._command.id, msgspec.json.encode(undo))]


class _Undo:
    """Undoing an optimisation on the current Plan; see `_Apply`."""

    may_search = True

    def __init__(self, command: UndoCommand) -> None:
        self._entries, self._compiled = command.entries, command.compiled
        self._staying: tuple[Staying, ...] = ()
        self.based_on = command.version
        self.is_empty = not command.entries

    def made(self, plan: Plan) -> Made:
        """Return the changes; if there are none, why each reservation stays as it is."""
        changes, staying = undo_changes(plan, self._entries, self._compiled)
        self._staying = tuple(staying)
        why = [
            Conflict(index, one.id, Code.CONFLICT, one.detail)
            for index, one in enumerate(() if changes else staying)
        ]
        return changes, why

    def note(self, _record: CommitRecord, _plan: Plan) -> None:
        """Store nothing: an undo cannot be undone."""

    def answer(self, version: int, before: int) -> OptimizationAnswer:
        """Return the answer after the commit."""
        return OptimizationAnswer(version, before > self.based_on, staying=self._staying)

    def rows(self, _version: int) -> list[CommitRow]:
        """Return no rows."""
        return []


class Applier:
    """Carries out jobs that apply an optimisation, completely or partly, or undo one."""

    def __init__(self, replica: Replica, clock: Clock) -> None:
        self._replica = replica
        self._clock = clock

    def answer(self, job: Job) -> None:
        """Carry out an optimisation or undo job."""
        command, keyed = job.command, job.keyed
        assert isinstance(command, OptimizationCommand | UndoCommand)
        assert keyed is not None
        job.stored = self._replica.store.answer(keyed.key.text)
        if job.stored is None:
            work = _Undo(command) if isinstance(command, UndoCommand) else _Apply(command)
            job.answers = (self._carry_out(job, work),)
        job.finished.set()

    def _carry_out(self, job: Job, work: _Apply | _Undo) -> OptimizationAnswer:
        slots_known = True

        def made(plan: Plan) -> Made:
            changes, strange = work.made(plan)
            return changes if slots_known else without_slots(changes), strange

        def remembered(version: int, before: int) -> list[CommitRow]:
            answer = work.answer(version, before)
            return [job.keep((answer,), self._clock.now_ms()), *work.rows(version)]

        for _ in range(_ROUNDS):
            outcome = commit_jointly(
                self._replica, self._clock, made, work.based_on, remembered, note=work.note
            )
            if outcome.version is not None:
                return work.answer(outcome.version, outcome.before)
            job.stored = None
            if outcome.conflicts and slots_known and work.may_search:
                slots_known = False  # the given machines are taken: the Plan searches for others
                continue
            if outcome.conflicts:
                return self._refuse(outcome, work.based_on)
            if work.is_empty:
                return self._nothing(job, outcome.before)
        raise RuntimeError(f"another process was faster {_ROUNDS} times")

    def _nothing(self, job: Job, version: int) -> OptimizationAnswer:
        """Store and return the answer that there was nothing to do at a version."""
        answer = OptimizationAnswer(version, merged=False)
        self._replica.store.remember(job.keep((answer,), self._clock.now_ms()))
        return answer

    def _refuse(self, outcome: JointOutcome, based_on: int) -> OptimizationAnswer:
        """Return the answer with the conflicts and the reservations that cause them."""
        with self._replica.locked() as plan:
            newcomers = _newcomers(plan, outcome.conflicts, based_on)
        return OptimizationAnswer(None, False, outcome.conflicts, newcomers)


def _newcomers(plan: Plan, conflicts: Sequence[Conflict], based_on: int) -> tuple[str, ...]:
    bindings = (one.binding for one in conflicts if one.binding is not None)
    at = next((one.at for one in bindings if one.at is not None), None)
    if at is None:
        return ()
    meta = plan.table.meta
    live = np.isin(meta["state"], [STATE_NUMBERS[state] for state in LIVE])
    there = live & (meta["begin"] <= at) & (meta["finish"] > at)
    numbers = np.flatnonzero(there & (meta["version"] > based_on)).tolist()
    return tuple(plan.table.id_of(number) for number in numbers)
