"""Check a commit record with the oracle, before it is appended."""

from __future__ import annotations

from planner.plan.records.commit_records import CommitRecord
from planner.plan.records.reservation_records import Admitted, Updated
from planner.request import Request
from rdl.oracle.satisfaction import Violation, check
from rdl.time_grid import TimeGrid


def first_violation(
    record: CommitRecord, requests: dict[str, Request], grid: TimeGrid, max_period_ms: int
) -> tuple[str, Violation] | None:
    """Return the first reservation of `record` that does not satisfy its request, and the rule.

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
