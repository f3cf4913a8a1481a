"""The Plan: its state, and what a batch of changes comes to on it.

`prepare` is pure: it says what changes come to on the present version. `apply` makes them.
"""

from __future__ import annotations

from collections.abc import Sequence

from planner.plan.batch.prepare import prepare
from planner.plan.records.changes import Advance, Change, Prepared
from planner.plan.state import PlanState, StaleVersionError


class Plan(PlanState):
    """Every reservation with its allocation, every refusal, and what is left.

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
        """Return what a notebook shows: facts, and who holds how much of each resource when."""
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
        """Say what a batch of changes comes to; nothing is changed.

        Parameters
        ----------
        changes
            In order; each sees those before it.
        based_on
            Version of the view that agents decided on. What changed since is re-checked: a change
            that still fits is merged, one that does not is a `Conflict` with what and where.
        atomic
            All or nothing: one conflict and the record is None.
        joint
            Atomic, and capacity is judged once, after the last change: reservations may swap
            places.
        at_ms
            When, in ms from the origin.

        Raises
        ------
        StaleVersionError
            If the Plan never had the version `based_on`.
        """
        if not 0 <= based_on <= self.version:
            raise StaleVersionError(f"the plan is at version {self.version}, never at {based_on}")
        return prepare(self, changes, atomic=atomic, joint=joint, at_ms=at_ms)

    def advance_to(self, step: int, horizon: int | None = None) -> None:
        """Make all before `step` past, in place; of a copy, since no log hears of it.

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
