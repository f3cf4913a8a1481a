"""From a commit record to the answers of the changes in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from planner.plan.plan import Plan
from planner.plan.records.changes import Conflict, Prepared
from planner.plan.records.commit_records import Reconfigured, RecordedChange
from planner.plan.records.reservation_records import Admitted, Refused, Updated
from planner.reservations.reservation import HistoryEntry, Reservation
from planner.reservations.state import State
from service.commits.changes.commands import Answer, ClusterAnswer, ReservationAnswer
from service.commits.changes.pending import PendingChange, record_changes, refused_problem
from service.problems import ProblemDocument
from service.store import YarnReservationRow
from service.windows import HeldTimes, times_now, window_of

_TOO_BUSY = "the Plan changed under this request again and again"


def admitted_answers(
    prepared: Prepared, drafts: Sequence[PendingChange], plan: Plan
) -> list[tuple[PendingChange, Answer]]:
    """Return the answers that are known before the commit: to admissions and refusals."""
    record = prepared.record
    if record is None:
        return []
    answers: list[tuple[PendingChange, Answer]] = []
    for draft, change in record_changes(prepared, drafts):
        answer = _answer_before_commit(draft, change, plan, record.version, record.at_ms)
        if answer is not None:
            answers.append((draft, answer))
    return answers


def _answer_before_commit(
    draft: PendingChange, change: RecordedChange, plan: Plan, version: int, at_ms: int
) -> Answer | None:
    match change:
        case Admitted() | Updated():
            return granted_answer(draft, change, plan, version, at_ms)
        case Refused(refusal=refusal):
            assert draft.ask is not None
            return refused_problem(
                refusal.code, refusal.detail, draft.ask.pointer, refusal, plan.grid
            )
        case Reconfigured(cluster=cluster):
            return ClusterAnswer(cluster, version)
        case _:
            return None


def granted_answer(
    draft: PendingChange, change: Admitted | Updated, plan: Plan, version: int, at_ms: int
) -> ReservationAnswer:
    """Return the answer to an admission, or to a change of a reservation.

    Parameters
    ----------
    plan
        Before it.
    version, at_ms
        The version of the Plan that holds it, and when it was made, ms from the origin.
    """
    if isinstance(change, Admitted):
        reservation = _reservation_of(change, plan, HistoryEntry(at_ms, version, "admitted"))
    else:
        entry = HistoryEntry(at_ms, version, change.cause, change.reason)
        reservation = _reservation_after(change, plan, entry)
    return ReservationAnswer(reservation, plan.grid, version, _times(draft, change, plan))


def changed_answer(draft: PendingChange, plan: Plan, version: int) -> Answer:
    """Return the answer to a change of a reservation, from the Plan that has it."""
    command = draft.command
    id_ = draft.request.id if draft.ask is not None else getattr(command, "id", "")
    reservation = plan.reservation(id_)
    assert reservation is not None
    graph = None if draft.ask is None else draft.request.graph
    return ReservationAnswer(reservation, plan.grid, version, times_now(plan, id_, graph))


def _times(draft: PendingChange, change: Admitted | Updated, plan: Plan) -> HeldTimes:
    if draft.ask is None:  # its request stays what it is
        window = times_now(plan, change.id).window
    else:
        window = window_of(draft.request.graph)
    return HeldTimes(change.holding.begin, change.holding.finish, window)


def companions_of(prepared: Prepared, drafts: Sequence[PendingChange]) -> list[YarnReservationRow]:
    """Return the rows to keep with a record: those of the changes that it makes."""
    return [
        draft.job.companion
        for draft, change in record_changes(prepared, drafts)
        if draft.job is not None
        and draft.job.companion is not None
        and not isinstance(change, Refused)
    ]


def conflict_answer(draft: PendingChange) -> ProblemDocument:
    """Return the answer to a change that the log does not take."""
    conflict = draft.conflict
    pointer = draft.ask.pointer if draft.ask is not None else ""
    if conflict is None:
        return refused_problem("conflict", _TOO_BUSY, pointer)
    return refused_problem(conflict.code, conflict.detail, pointer)


def note_conflicts(prepared: Prepared, drafts: Sequence[PendingChange]) -> int:
    """Note each conflict on its pending change; return how many there are."""
    for draft, outcome in zip(drafts, prepared.outcomes, strict=True):
        draft.conflict = outcome if isinstance(outcome, Conflict) else None
    return len(prepared.conflicts)


def _reservation_after(change: Updated, plan: Plan, entry: HistoryEntry) -> Reservation:
    """Return a reservation as `Plan.apply` makes it of a record that changes it."""
    present = plan.reservation(change.id)
    assert present is not None
    details = change.details
    return replace(
        present,
        state=State.ACTIVE if change.holding.begin <= plan.now else State.ACCEPTED,
        revision=change.revision,
        weight=change.weight,
        priority=change.priority,
        agent=change.agent,
        expression=details.text,
        choices=details.choices,
        notes=details.notes,
        written=details.written,
        atoms=change.holding.atoms,
        history=(*present.history, entry),
        degradation=None,
        promise=change.promise,
    )


def _reservation_of(change: Admitted, plan: Plan, admitted: HistoryEntry) -> Reservation:
    """Return a reservation as `Plan.apply` makes it of a record."""
    begun = plan.now > 0 and change.holding.begin <= plan.now
    details = change.details
    note = (replace(admitted, what="accepted", detail=change.note),) if change.note else ()
    return Reservation(
        change.id,
        change.tenant,
        change.queue,
        change.submitted_ms,
        change.weight,
        change.priority,
        State.ACTIVE if begun else State.ACCEPTED,
        1,
        change.agent,
        details.text,
        details.choices,
        details.notes,
        change.holding.atoms,
        (admitted, *note),
        written=details.written,
        promise=change.promise,
        machines=plan.cluster.machine_names,
    )
