"""Answers to changes: grants of a commit record, and refusals with offers.

Offers are searched before the commit, in the state that the group's own commit is about to create;
they are stored with the refusals.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from planner.agents import agent_named
from planner.offer_search import HOPELESS, OfferSearch
from planner.plan.plan import Plan
from planner.plan.records.changes import Conflict, Prepared, Refuse
from planner.plan.records.commit_records import Reconfigured
from planner.plan.records.reservation_records import Admitted, Refused, Updated
from planner.reservations.reservation import HistoryEntry, Reservation
from planner.reservations.state import State
from service.commits.commands import (
    Admission,
    Answer,
    ClusterAnswer,
    DispatchChange,
    ReservationAnswer,
    refused_problem,
)
from service.commits.job import PendingChange, record_changes
from service.store import CompanionRow
from service.windows import HeldTimes, times_now, window_of

#: Trials of a search that do not count in its time.
_UNTIMED: Final = 1


def admitted_answers(
    prepared: Prepared, drafts: Sequence[PendingChange], plan: Plan
) -> list[tuple[PendingChange, Answer]]:
    """Return the answers that are known before the commit: to admissions and refusals."""
    record = prepared.record
    if record is None:
        return []
    version, at_ms = record.version, record.at_ms
    answers: list[tuple[PendingChange, Answer]] = []
    for draft, change in record_changes(prepared, drafts):
        match change:
            case Admitted() | Updated():
                answers.append((draft, granted_answer(draft, change, plan, version, at_ms)))
            case Refused(refusal=refused):
                assert draft.ask is not None
                pointer = draft.ask.pointer
                problem = refused_problem(refused.code, refused.detail, pointer, refused, plan.grid)
                answers.append((draft, problem))
            case Reconfigured(cluster=cluster):
                answers.append((draft, ClusterAnswer(cluster, version)))
    return answers


def granted_answer(
    draft: PendingChange, change: Admitted | Updated, plan: Plan, version: int, at_ms: int
) -> ReservationAnswer:
    """Return the answer to an admission, or to a change of a reservation.

    Parameters
    ----------
    plan
        The Plan before the change.
    version, at_ms
        The version of the Plan with it, and when it was made, ms from the origin.
    """
    if isinstance(change, Admitted):
        reservation = _reservation_of(change, plan, HistoryEntry(at_ms, version, "admitted"))
    else:
        entry = HistoryEntry(at_ms, version, change.cause, change.reason)
        reservation = _reservation_after(change, plan, entry)
    # Without a request of its own the window stays unchanged.
    asked = draft.ask is not None
    window = window_of(draft.request.graph) if asked else times_now(plan, change.id).window
    times = HeldTimes(change.holding.begin, change.holding.finish, window)
    return ReservationAnswer(reservation, plan.grid, version, times)


def changed_answer(draft: PendingChange, plan: Plan, version: int) -> Answer:
    """Return the answer to a change of a reservation, from the Plan after it."""
    command = draft.command
    if isinstance(command, DispatchChange):
        id_ = command.change.id
    else:
        id_ = draft.request.id if draft.ask is not None else getattr(command, "id", "")
    reservation = plan.reservation(id_)
    assert reservation is not None
    graph = None if draft.ask is None else draft.request.graph
    return ReservationAnswer(reservation, plan.grid, version, times_now(plan, id_, graph))


def companions_of(prepared: Prepared, drafts: Sequence[PendingChange]) -> list[CompanionRow]:
    """Return the rows to store with a record, for the changes in it."""
    return [
        row
        for draft, change in record_changes(prepared, drafts)
        if not isinstance(change, Refused)
        for row in draft.job.companions
    ]


def note_conflicts(prepared: Prepared, drafts: Sequence[PendingChange]) -> int:
    """Record each conflict on its pending change; return their number."""
    for draft, outcome in zip(drafts, prepared.outcomes, strict=True):
        draft.conflict = outcome if isinstance(outcome, Conflict) else None
    return len(prepared.conflicts)


def _reservation_after(change: Updated, plan: Plan, entry: HistoryEntry) -> Reservation:
    """Return a reservation as `Plan.apply` changes it by a record."""
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
    """Return a reservation as `Plan.apply` creates it from a record."""
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


def search_for(
    drafts: Sequence[PendingChange],
    prepared: Prepared,
    plan: Plan,
    seconds: float,
    *,
    dry_run: bool = False,
) -> OfferSearch | None:
    """Return a search for refusals that still lack their offers, or None if none does.

    Offers are searched in the state that the group's own commit is about to create, and have its
    version: capacity that the group takes is not offered. A dry run creates no version, and a group
    that also releases capacity is searched without its commit.

    Parameters
    ----------
    prepared
        Result of the group on `plan`, which only the caller uses.
    """
    waiting = [draft for draft in drafts if _needs_offers(draft)]
    if not waiting:
        return None
    levels = [draft.request.promise for draft in waiting]
    search = OfferSearch.of(plan, seconds_of_search(seconds), levels)
    for draft in waiting:
        draft.search_version = plan.version
    record = prepared.record
    if dry_run or record is None:
        return search
    admitted = [one for one in record.changes if isinstance(one, Admitted)]
    plain = all(isinstance(one, Admitted | Refused) for one in record.changes)
    return search.after(admitted, record.version) if plain else search


def _needs_offers(draft: PendingChange) -> bool:
    """Return whether a change is a refusal that needs offers and has none yet."""
    if draft.search_version is not None or not isinstance(draft.change, Refuse):
        return False
    admitted = isinstance(draft.command, Admission) and not draft.command.atomic
    return admitted and draft.ask is not None and draft.ask.offers > 0


def seconds_of_search(seconds: float) -> Callable[[], bool]:
    """Return a function that stops a search a given time after its first trial.

    Earlier time is spent placing the requests, and the first trial may load data for all trials:
    neither counts as the search's time.
    """
    asked = 0
    until = 0.0

    def stop() -> bool:
        nonlocal asked, until
        asked += 1
        if asked == _UNTIMED + 1:
            until = time.perf_counter() + seconds
        return asked > _UNTIMED and time.perf_counter() >= until

    return stop


def add_offers(drafts: Sequence[PendingChange], search: OfferSearch) -> None:
    """Add offers to the refusals of a search; this is slow, and holds no lock."""
    for draft in drafts:
        change, ask = draft.change, draft.ask
        if draft.search_version is None or ask is None or not isinstance(change, Refuse):
            continue
        if change.code not in HOPELESS and not change.offers:
            agent = agent_named(ask.agent)
            found = search.offers(ask.request, ask.expression, agent, ask.offers)
            draft.change = replace(change, offers=found)


def name_version(drafts: Sequence[PendingChange], made: int) -> None:
    """Set the version in which offers were searched if another process created the next one.

    Parameters
    ----------
    made
        The version that the group's record creates.
    """
    for draft in drafts:
        change, version = draft.change, draft.search_version
        if version in (None, made - 1) or not isinstance(change, Refuse):
            continue
        offers = tuple({**offer, "at_version": version} for offer in change.offers)
        draft.change = replace(change, offers=offers)
