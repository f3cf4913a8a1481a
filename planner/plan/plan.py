"""The Plan: its state, and the preparation of batches of changes.

`prepare` is pure: it returns the outcome of changes on the present version. `apply` makes them.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.plan.batch.prepare import prepare
from planner.plan.records.changes import Advance, Change, Prepared
from planner.plan.state import PlanState, StaleVersionError


class Plan(PlanState):
    """Every reservation with its allocation, every refusal, and the free capacity.

    Not thread-safe: one writer at a time. Snapshots may be read by any thread.

    Attributes
    ----------
    cluster, grid
        As of the present version.
    version
        Number of records applied.
    now
        The present step; 0 until the first `Advance`.
    """

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: facts, and the use of each resource over time by tenant."""
        from planner.plan.html import plan_html

        return plan_html(self)

    def prepare(
        self,
        changes: Sequence[Change],
        based_on: int,
        *,
        atomic: bool = False,
        joint: bool = False,
        at_ms: int = 0,
    ) -> Prepared:
        """Return the outcome of a batch of changes without making them.

        Parameters
        ----------
        changes
            In order; each one sees the earlier ones.
        based_on
            Version of the view that agents used. Changes are checked against the present version:
            one that still fits is merged, one that does not becomes a `Conflict`.
        atomic
            All or nothing: with any conflict the record is None.
        joint
            Atomic, and capacity is checked once, after the last change: reservations may swap
            places.
        at_ms
            Time of the commit, in ms from the origin.

        Raises
        ------
        StaleVersionError
            If the Plan never had the version `based_on`.
        """
        if not 0 <= based_on <= self.version:
            raise StaleVersionError(f"the plan is at version {self.version}, never at {based_on}")
        return prepare(self, changes, atomic=atomic, joint=joint, at_ms=at_ms)

    def advance_to(self, step: int, horizon: int | None = None) -> None:
        """Move the present to `step`, in place. Use it on a copy, since it is not logged.

        Raises
        ------
        ValueError
            If the step is past the horizon.
        """
        if step > self.now:
            prepared = self.prepare([Advance(step, horizon)], self.version)
            if prepared.record is None:
                raise ValueError(prepared.conflicts[0].detail)
            self.apply(prepared.record)
