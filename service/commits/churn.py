"""Churn of a commit: the work that changed reservations hold where they did not before."""

from __future__ import annotations

from dataclasses import dataclass

from planner.plan.plan import Plan
from planner.plan.records.commit_records import CommitRecord
from planner.plan.records.reservation_records import Updated
from planner.replanning.draft_plan import work_moved
from planner.reservations.reservation import Holding
from rdl.resources import Resources


@dataclass(frozen=True, slots=True)
class CommitChurn:
    """What reservations held before a commit and hold after it.

    Attributes
    ----------
    pairs
        (before, after) of each reservation that the commit changes.
    now, nominal, step_ms
        Of the Plan: the present step, all machines together, the length of a step.
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
    """Return the churn of a record that the Plan, which the caller holds, has not applied yet."""
    pairs: list[tuple[Holding, Holding]] = []
    for change in record.changes:
        number = plan.table.number_of(change.id) if isinstance(change, Updated) else None
        if isinstance(change, Updated) and number is not None:
            pairs.append((plan.table.holding(number), change.holding))
    return CommitChurn(tuple(pairs), plan.now, plan.cluster.nominal, plan.grid.step_ms)
