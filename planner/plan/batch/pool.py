"""What the changes of one batch take of the pool, each judged after those before it."""

from __future__ import annotations

from collections.abc import Sequence

from planner.capacity.overlay import Overlay, Shortage, Taking, takings_of
from planner.capacity.snapshot import PlanSnapshot
from planner.plan.records.changes import Admit, Change, Refuse
from planner.plan.state import PlanState
from planner.reservations.holding import holding_of
from planner.reservations.reservation import Holding


class BatchPool:
    """The pool beside the changes of a batch so far.

    Attributes
    ----------
    overlay
        Judges the next change.
    """

    def __init__(self, plan: PlanState) -> None:
        self.overlay = Overlay(plan.ledger)
        self._plan = plan
        self._changed: list[Taking] = []
        self._foreseen: dict[int, tuple[Holding, list[Taking]]] = {}
        self._assured = False

    def assume_room(self) -> None:
        """Judge no change: the whole batch has been."""
        self._assured = True

    def foresee(self, changes: Sequence[Change]) -> None:
        """Judge all admissions as one: if their sum fits, each fits in its turn."""
        everything: list[Taking] = []
        for index, change in enumerate(changes):
            if isinstance(change, Admit) and change.result.placed:
                found = self._holding_with_takings(change)
                self._foreseen[index] = found
                everything.extend(found[1])
        calm = all(isinstance(change, Admit | Refuse) for change in changes)
        self._assured = calm and self.overlay.shortage(everything) is None

    def holding(self, index: int, change: Admit) -> tuple[Holding, list[Taking]]:
        """Return what the admission at a place would hold, and what that takes."""
        return self._foreseen.get(index) or self._holding_with_takings(change)

    def forget(self, index: int) -> None:
        """Forget what was foreseen of the admission at a place: it is placed anew."""
        self.doubt()
        self._foreseen.pop(index, None)

    def _holding_with_takings(self, change: Admit) -> tuple[Holding, list[Taking]]:
        request = change.request
        holding = holding_of(request, change.result)
        return holding, takings_of(holding, self._plan.ledger, request.tenant, request.queue)

    def shortage(self, takings: Sequence[Taking]) -> Shortage | None:
        """Return what does not fit, or None."""
        return None if self._assured else self.overlay.shortage(takings)

    def add(self, takings: Sequence[Taking]) -> None:
        """Count what a change takes, for the changes after it."""
        self._changed.extend(takings)
        if not self._assured:
            self.overlay.add(takings)

    def doubt(self) -> None:
        """Judge what follows one by one: a change stands elsewhere than was foreseen."""
        if self._assured:
            self._assured = False
            self.overlay.add(self._changed)

    def view(self, more: Sequence[Taking] = ()) -> PlanSnapshot:
        """Return what the changes of the batch so far, and `more`, leave, as agents read it."""
        ledger = self._plan.ledger
        if self._changed or more:
            ledger = ledger.copy()
            ledger.take((one.demand, one.rows, one.sign) for one in (*self._changed, *more))
        return PlanSnapshot(ledger, self._plan.version)
