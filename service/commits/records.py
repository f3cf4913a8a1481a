"""Data of a commit record: audit rows, churn, and the check by the oracle.

`commit_jointly` commits changes that were found on a copy of the Plan (by the adapter, a
displacement or an optimisation), all or none. They are checked together on the newest version,
verified by the oracle and appended like every other change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from planner.files import cluster_to_json
from planner.files.cluster_writer import difference
from planner.plan.plan import Plan
from planner.plan.records.changes import Admit, Change, Conflict, Update
from planner.plan.records.commit_records import (
    Advanced,
    Archived,
    CommitRecord,
    Reconfigured,
    RecordedChange,
)
from planner.plan.records.reservation_records import (
    Admitted,
    Degraded,
    Ended,
    Noted,
    Refused,
    Updated,
)
from planner.replanning.draft_plan import work_moved
from planner.request import Request
from planner.reservations.reservation import Holding
from rdl.oracle.satisfaction import Violation, check
from rdl.resources import Resources
from rdl.time_grid import TimeGrid
from service.access.user import Actor, present_actor
from service.clock import Clock
from service.commits.replica import Replica
from service.store import AuditRow, CommitRow


def audit_rows(
    changes: Iterable[tuple[Actor, RecordedChange]], plan: Plan, version: int, at_ms: int
) -> list[AuditRow]:
    """Return the audit rows of changes, each with its actor.

    The advance of time has no row.

    Parameters
    ----------
    plan
        The Plan before them, with the owners of the changed reservations.
    version, at_ms
        The version that they create, and now, Unix ms.
    """
    return [
        _row_of(actor, change, plan, version, at_ms)
        for actor, change in changes
        if not isinstance(change, Advanced | Archived)
    ]


def _row_of(actor: Actor, change: RecordedChange, plan: Plan, version: int, at_ms: int) -> AuditRow:
    about = tenant = detail = ""
    match change:
        case Admitted():
            about, tenant = change.id, change.tenant
        case Refused(refusal=refusal):
            about, tenant, detail = refusal.id, refusal.tenant, str(refusal.code)
        case Reconfigured(cluster=cluster):
            changed = difference(cluster_to_json(plan.cluster), cluster_to_json(cluster))
            detail = "; ".join(changed)
        case Advanced() | Archived():
            pass
        case _:
            about = change.id
            number = plan.table.number_of(about)
            tenant = "" if number is None else plan.table.scope(number)[0]
    match change:
        case Ended(state=state):
            detail = state.value
        case Updated(cause=word) | Degraded(cause=word) | Noted(what=word):
            detail = word
    return AuditRow(actor, at_ms, change.op, about, tenant, detail, version)


@dataclass(frozen=True, slots=True)
class CommitChurn:
    """Allocations before and after a commit.

    Attributes
    ----------
    pairs
        (before, after) of each reservation that the commit changes.
    now, nominal, step_ms
        The Plan's present step, total capacity, and step length.
    """

    pairs: tuple[tuple[Holding, Holding], ...]
    now: int
    nominal: Resources
    step_ms: int

    def seconds(self) -> float:
        """Return the churn, in seconds of the whole cluster."""
        moved = (work_moved(old, new, self.now, self.nominal) for old, new in self.pairs)
        return sum(moved) * self.step_ms / 1000


def churn_of(record: CommitRecord, plan: Plan) -> CommitChurn:
    """Return the churn of a record that the Plan has not applied yet; the caller holds its lock."""
    pairs: list[tuple[Holding, Holding]] = []
    for change in record.changes:
        number = plan.table.number_of(change.id) if isinstance(change, Updated) else None
        if isinstance(change, Updated) and number is not None:
            pairs.append((plan.table.holding(number), change.holding))
    return CommitChurn(tuple(pairs), plan.now, plan.cluster.nominal, plan.grid.step_ms)


def first_violation(
    record: CommitRecord, requests: dict[str, Request], grid: TimeGrid, max_period_ms: int
) -> tuple[str, Violation] | None:
    """Return the first reservation of `record` that violates its request, and the violation.

    Parameters
    ----------
    requests
        By id, for every reservation that the record admits or updates.
    grid
        The Plan's grid.
    max_period_ms
        The cluster's period of endless recurrences.
    """
    for change in record.changes:
        if not isinstance(change, Admitted | Updated):
            continue
        request = requests[change.id]
        allocation = {
            path: [(start, end, bundles) for start, end, bundles in rows.tolist()]
            for atom in change.holding.atoms
            for path, rows in atom.occurrences()
        }
        violation = check(
            request.graph.expression,
            grid,
            request.submitted_ms,
            allocation,
            dict(change.details.choices),
            max_period_ms=max_period_ms,
        )
        if violation is not None:
            return change.id, violation
    return None


@dataclass(frozen=True, slots=True)
class JointOutcome:
    """The outcome of a joint commit.

    Attributes
    ----------
    version
        Version of the Plan with the changes; None if it rejects them.
    before
        Version before the changes.
    conflicts
        Reasons of the rejection; empty if another process was faster: then try again.
    """

    version: int | None
    before: int
    conflicts: tuple[Conflict, ...] = ()


#: Changes for a Plan, and conflicts of those that do not apply to it.
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
    """Append changes to the log, then apply them, all or none.

    Parameters
    ----------
    made
        Called with the newest Plan, under its lock.
    based_on
        Version on which they were found.
    remembered
        Called with the new and the previous version; returns rows to store in the same transaction.
    adapted
        The adaptation to report in the record, if it follows a change of machines.
    note
        Called with the record before it is appended, and the Plan before it, under its lock.

    Raises
    ------
    RuntimeError
        If a new allocation does not satisfy its request, which is a bug; nothing was changed.
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
        asked = {one.request.id: one.request for one in changes if isinstance(one, Update | Admit)}
        broken = first_violation(record, asked, grid, period)
        if broken is not None:
            raise RuntimeError(f"the oracle rejects the place of {broken[0]}: {broken[1]}")
        record = replace(record, adapted=adapted)
        kept: list[CommitRow] = [*remembered(record.version, before), *audited]
        done = replica.commit(record, clock.now_ms(), kept, prepared.takings)
        return JointOutcome(record.version if done else None, before)
