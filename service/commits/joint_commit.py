"""Commit changes that were found on a copy of the Plan: all of them or none.

The adapter's answers and optimisations are made on copies of the Plan. What they say is re-checked
as a whole on the newest version, held against the oracle and appended like every other change.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Change, Conflict, Update
from planner.plan.records.commit_records import CommitRecord
from planner.request import Request
from service.access.actor import present_actor
from service.clock import Clock
from service.commits.auditing import audit_rows
from service.commits.oracle_check import first_violation
from service.replication.replica import Replica
from service.store import CommitRow


@dataclass(frozen=True, slots=True)
class JointOutcome:
    """What became of a joint commit.

    Attributes
    ----------
    version
        Of the Plan that holds the changes; None where it does not take them.
    before
        The version that was changed.
    conflicts
        Why not; empty where another process was faster: then ask again.
    """

    version: int | None
    before: int
    conflicts: tuple[Conflict, ...] = ()


#: Makes the changes on the Plan they are for, and says which of them mean nothing there.
Made = tuple[Sequence[Change], Sequence[Conflict]]


def commit_jointly(
    replica: Replica,
    clock: Clock,
    made: Callable[[Plan], Made],
    based_on: int,
    remembered: Callable[[int, int], Sequence[CommitRow]] = lambda _version, _before: (),
    adapted: Mapping[str, Any] | None = None,
    note: Callable[[CommitRecord, Plan], object] = lambda _record, _plan: None,
) -> JointOutcome:
    """Make changes durable, then true, all or none.

    Parameters
    ----------
    made
        Called with the newest Plan, under its lock.
    based_on
        Version they were found on.
    remembered
        Called with the version made and the one before; what it returns is kept in the same
        transaction.
    adapted
        What the record tells of those affected, where it answers to a change of machines.
    note
        Called with the record before it is appended, and the Plan before it, under its lock.

    Raises
    ------
    RuntimeError
        If a new allocation does not satisfy its request: a fault, and nothing was changed.
    """
    with replica.store.turn():
        at_ms = replica.plan_ms(clock.now_ms())
        with replica.newest() as plan:
            changes, strange = made(plan)
            before = plan.version
            if strange or not changes:
                return JointOutcome(None, before, tuple(strange))
            prepared = plan.prepare(changes, based_on, joint=True, at_ms=at_ms)
            grid, period = plan.grid, plan.cluster.max_period_ms
            record = prepared.record
            if record is None:
                return JointOutcome(None, before, prepared.conflicts)
            made_by = ((present_actor(), change) for change in record.changes)
            audited = audit_rows(made_by, plan, record.version, clock.now_ms())
            note(record, plan)
        broken = first_violation(record, _requests(changes), grid, period)
        if broken is not None:
            raise RuntimeError(f"the oracle rejects the place of {broken[0]}: {broken[1]}")
        record = replace(record, adapted=adapted)
        kept: list[CommitRow] = [*remembered(record.version, before), *audited]
        done = replica.commit(record, clock.now_ms(), kept, prepared.takings)
        return JointOutcome(record.version if done else None, before)


def _requests(changes: Sequence[Change]) -> dict[str, Request]:
    return {one.request.id: one.request for one in changes if isinstance(one, Update | Admit)}
