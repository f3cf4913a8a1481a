"""RecordEvents: derives the events of a record from the record and the Plan before and after it.

The same record on the same Plan gives the same events in every process and in every replay, so that
clients can resume by their ids.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from planner.plan.plan import Plan
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
    HoldAccepted,
    Noted,
    Refused,
    Released,
    Relocated,
    Updated,
)
from planner.reservations.state import STATE_NUMBERS, State
from service.events.plan_event import CLUSTER, COMMIT, EventPosition, PlanEvent

_ACCEPTED: Final = STATE_NUMBERS[State.ACCEPTED]
_ACTIVE: Final = STATE_NUMBERS[State.ACTIVE]
_COMPLETED: Final = STATE_NUMBERS[State.COMPLETED]


class RecordEvents:
    """Reads the Plan before a record is applied, and derives the events afterwards.

    Parameters
    ----------
    plan
        The Plan before the record.
    record
        The record to apply.
    """

    def __init__(self, plan: Plan, record: CommitRecord) -> None:
        self._plan = plan
        self._record = record
        updated = (one.id for one in record.changes if isinstance(one, Updated))
        self._waiting = {id_ for id_ in updated if self._state_of(id_) == _ACCEPTED}
        leaving = (id_ for one in record.changes if isinstance(one, Archived) for id_ in one.ids)
        self._leaving = {id_: self._tenant_of(id_) for id_ in leaving}
        # Only an advance of time changes reservations that the record does not list.
        advances = any(isinstance(one, Advanced) for one in record.changes)
        self._before: NDArray[np.int8] | None = (
            plan.table.meta["state"].copy() if advances else None
        )
        self._found: list[PlanEvent] = []

    def after(self) -> tuple[PlanEvent, ...]:
        """Return the events, now that the record is applied; the first is the commit itself."""
        self._found = []
        for change in self._record.changes:
            self._tell(change)
        counts = Counter(event.kind for event in self._found)
        summary: dict[str, Any] = {"changed": dict(sorted(counts.items()))}
        if self._before is not None:
            summary["now"] = self._plan.grid.seconds(self._plan.now)
        first = PlanEvent(self._position(0), COMMIT, self._record.at_ms, more=summary)
        return (first, *self._found)

    def _tell(self, change: RecordedChange) -> None:
        match change:
            case Admitted():
                self._add("accepted", change.id, change.tenant)
                if change.holding.begin <= self._plan.now and self._plan.now > 0:
                    self._add("begun", change.id, change.tenant)
            case Refused(refusal=refusal):
                self._add("refused", refusal.id, refusal.tenant, code=refusal.code.value)
            case Updated():
                self._add(change.cause, change.id, revision=change.revision, reason=change.reason)
                if change.id in self._waiting and self._state_of(change.id) == _ACTIVE:
                    self._add("begun", change.id)
            case Degraded():
                self._add(change.cause, change.id, reason=change.reason)
            case Noted(what=what):
                self._add(what, change.id, reason=change.reason)
            case Released():
                self._add("released", change.id, reason=change.reason)
            case Relocated():
                self._add("relocated", change.id, reason=change.reason)
            case HoldAccepted():
                self._add("hold_accepted", change.id)
            case Archived():
                for id_, tenant in self._leaving.items():
                    self._add("archived", id_, tenant)
            case Ended():
                kind = "closed" if change.state is State.COMPLETED else change.state.value
                self._add(kind, change.id, reason=change.reason)
            case Reconfigured():
                self._found.append(
                    PlanEvent(self._position(len(self._found) + 1), CLUSTER, self._record.at_ms)
                )
            case Advanced():
                self._advance(change)

    def _advance(self, change: Advanced) -> None:
        """Add events for reservations that began, ended or got new occurrences by an advance."""
        for id_, _ in change.extended:
            self._add("extended", id_)
        before = self._before
        assert before is not None
        after = self._plan.table.meta["state"][: len(before)]
        for number in np.flatnonzero(before != after).tolist():
            left, right = int(before[number]), int(after[number])
            if left == _ACCEPTED and right in (_ACTIVE, _COMPLETED):
                self._add("begun", self._plan.table.id_of(number))
            if left in (_ACCEPTED, _ACTIVE) and right == _COMPLETED:
                self._add("ended", self._plan.table.id_of(number))

    def _tenant_of(self, id_: str) -> str | None:
        number = self._plan.table.number_of(id_)
        if number is not None:
            return self._plan.table.scope(number)[0]
        refusal = self._plan.refusal(id_)
        return None if refusal is None else refusal.tenant

    def _state_of(self, id_: str) -> int | None:
        number = self._plan.table.number_of(id_)
        return None if number is None else int(self._plan.table.meta[number]["state"])

    def _add(self, kind: str, id_: str, tenant: str | None = None, **more: Any) -> None:
        number = self._plan.table.number_of(id_)
        if tenant is None and number is not None:
            tenant = self._plan.table.scope(number)[0]
        told = {name: value for name, value in more.items() if value != ""}
        position = self._position(len(self._found) + 1)
        self._found.append(PlanEvent(position, kind, self._record.at_ms, id_, tenant, told))

    def _position(self, index: int) -> EventPosition:
        return EventPosition(self._record.version, index)
