"""Displacement: requests refused for capacity displace others, each case in one commit.

A request, a change of a reservation, and an all-or-nothing batch are each one case. Holds do not
displace: a hold may be released a minute later, and the displacement would have been for nothing.
The reservations to displace are found on a copy of the Plan, without the lock, and committed
jointly: one record admits the whole case and moves or degrades the displaced reservations, or
nothing changes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from planner.agents import agent_named
from planner.displacement import Displacement, DisplacementAsk, displace
from planner.offer_search import quick
from planner.plan.plan import Plan
from planner.plan.records.commit_records import CommitRecord
from planner.plan.records.reservation_records import Admitted, Updated
from planner.reclaim import may_reclaim
from planner.replanning.displacement_search import FOR_ROOM, may_displace
from planner.reservations.state import Transition
from service.access.user import acting, present_actor
from service.clock import Clock
from service.commits.answers import granted_answer, seconds_of_search
from service.commits.commands import (
    SPOILT,
    Admission,
    HoldPlacing,
    Renegotiation,
    ReservationAnswer,
)
from service.commits.job import Group, Job, PendingChange
from service.commits.records import commit_jointly
from service.commits.replica import Replica
from service.commits.screening import blocked_problem, renew
from service.problems import ProblemDocument
from service.store import CommitRow

#: Most searches for one case; repeated if the Plan has changed.
_ROUNDS: Final = 4

#: Longest search for a smaller set of reservations to displace.
_LONGEST_S: Final = 1.0

_HOLD_DISPLACES_NOTHING: Final = (
    "; a hold displaces no reservations, but a reservation of this priority may"
)

#: Changes that are admitted together or not at all.
DisplacementCase: TypeAlias = tuple[PendingChange, ...]

_Answers: TypeAlias = list[tuple[PendingChange, ReservationAnswer]]


class DisplacementCases(tuple[DisplacementCase, ...]):
    """Cases whose reservations to displace have not been searched yet."""

    __slots__ = ()

    def jobs(self) -> list[Job]:
        """Return their jobs, each once."""
        return list(dict.fromkeys(one.job for case in self for one in case))

    def skip(self, job: Job) -> None:
        """Skip the search for a job's cases."""
        _note_trial([one for case in self for one in case if one.job is job])


def displacement_cases(drafts: Sequence[PendingChange], plan: Plan) -> DisplacementCases:
    """Return the cases among the changes of a group; none if no policy allows displacement.

    The answers to refused holds mention that a reservation could displace others.
    """
    if not plan.cluster.displacement_rules:
        return _NONE
    _note_holds(drafts, plan)
    return DisplacementCases(case for case in _cases(drafts) if _may_displace(case, plan))


_NONE: Final = DisplacementCases()


def _cases(drafts: Sequence[PendingChange]) -> list[DisplacementCase]:
    """Return the cases; an all-or-nothing batch is one case.

    A partly granted batch is no case: the granted part remains, and might be displaced itself.
    """
    if drafts and drafts[0].job.is_atomic:
        known = any(isinstance(one.answer, ReservationAnswer) for one in drafts)
        return [] if known else [tuple(drafts)]
    return [(one,) for one in drafts if _is_refused(one) and not _may_come_twice(one)]


def _may_come_twice(draft: PendingChange) -> bool:
    """Return whether repeating its call could make a change that is already committed twice.

    A batch with a key is stored as a whole, but a displacement is committed separately before it.
    If the rest fails, only a client's id identifies the request again.
    """
    job, ask = draft.job, draft.ask
    several = isinstance(job.command, Admission) and job.size > 1
    return several and job.keyed is not None and bool(ask and ask.has_made_id)


def _is_refused(draft: PendingChange) -> bool:
    """Return whether a single change was refused without a record of it yet."""
    match draft.command:
        case Admission():
            return draft.refusal is not None and draft.answer is None
        case Renegotiation():
            return draft.refusal is not None
        case _:
            return False


def _may_displace(case: DisplacementCase, plan: Plan) -> bool:
    if any(one.has_tried_displacement or one.ask is None for one in case):
        return False
    refusals = [one.refusal for one in case if one.refusal is not None]
    others = [one.answer for one in case if one.refusal is None]
    if not refusals or not all(code in FOR_ROOM for code in refusals):
        return False
    if not all(answer is None or answer is SPOILT for answer in others):
        return False  # another request of the batch lacks more than capacity
    requests = [one.request for one in case]
    return may_displace(plan, requests) or may_reclaim(plan, requests)


def _note_holds(drafts: Sequence[PendingChange], plan: Plan) -> None:
    for draft in drafts:
        answer = draft.answer
        if (
            isinstance(draft.command, HoldPlacing)
            and isinstance(answer, ProblemDocument)
            and draft.refusal in FOR_ROOM
            and not answer.detail.endswith(_HOLD_DISPLACES_NOTHING)
            and may_displace(plan, [draft.request])
        ):
            detail = answer.detail + _HOLD_DISPLACES_NOTHING
            errors = tuple(replace(one, message=detail) for one in answer.errors)
            draft.answer = replace(answer, detail=detail, errors=errors)


class Displacer:
    """Commits displacements for refused changes, one case at a time.

    Parameters
    ----------
    note_commit
        Called with each record that is appended.
    longest_s
        Time after which no search of a group begins, because later calls wait.
    is_stopping
        Returns whether no more searches should begin.
    """

    def __init__(
        self,
        replica: Replica,
        clock: Clock,
        note_commit: Callable[[CommitRecord], None],
        longest_s: float,
        is_stopping: Callable[[], bool],
    ) -> None:
        self._longest_s = longest_s
        self._is_stopping = is_stopping
        self._replica = replica
        self._clock = clock
        self._note_commit = note_commit

    def run(self, group: Group, cases: DisplacementCases) -> None:
        """Answer the cases that displace others; all others, and late ones, stay refused."""
        until_s = time.monotonic() + self._longest_s
        for case in cases:
            _note_trial(case)
            if self._is_stopping() or time.monotonic() > until_s:
                continue
            for _ in range(_ROUNDS):
                with self._replica.newest() as plan:
                    twin = plan.copy()
                found = _search(case, twin)
                del twin
                if found is None or self._commit(group, case, found):
                    break

    def rehearse(self, cases: DisplacementCases) -> None:
        """Answer cases with what they would displace, on a copy of the newest Plan."""
        with self._replica.newest() as plan:
            twin = plan.copy()
        for case in cases:
            _note_trial(case)
            found = _search(case, twin)
            if found is None:
                continue
            prepared = twin.prepare(found.changes, twin.version, joint=True)
            assert prepared.record is not None
            _answer(_answers_to(case, found, prepared.record, twin))
            twin.apply(prepared.record)

    def _commit(self, group: Group, case: DisplacementCase, found: Displacement) -> bool:
        """Append a displacement; return False if the Plan has changed."""
        job = case[0].job
        made: list[tuple[_Answers, CommitRecord]] = []

        def note(record: CommitRecord, plan: Plan) -> None:
            made[:] = [(_answers_to(case, found, record, plan), record)]

        def rows(_version: int, _before: int) -> list[CommitRow]:
            answers = made[0][0]
            kept: list[CommitRow] = list(job.companions)
            answered = {id(one) for one, _ in answers}
            if all(id(one) in answered for one in job.changes if one.answer is None):
                kept += group.rows_to_keep(answers, self._clock.now_ms())
            return kept

        with acting(job.actor):
            outcome = commit_jointly(
                self._replica,
                self._clock,
                lambda _: (found.changes, ()),
                found.based_on,
                rows,
                note=note,
            )
        if outcome.version is None:
            return False
        answers, record = made[0]
        _answer(answers)
        self._note_commit(record)
        return True


def _note_trial(case: Sequence[PendingChange]) -> None:
    """Mark changes whose displacement was searched, or will not be."""
    for draft in case:
        draft.has_tried_displacement = True


def _answer(answers: _Answers) -> None:
    for draft, answer in answers:
        draft.answer, draft.change = answer, None


def _search(case: DisplacementCase, twin: Plan) -> Displacement | None:
    asks = [_ask_of(draft, twin) for draft in case]
    known = [ask for ask in asks if ask is not None]
    if len(known) < len(asks):
        return None
    return displace(twin, known, seconds_of_search(_LONGEST_S))


def _ask_of(draft: PendingChange, twin: Plan) -> DisplacementAsk | None:
    """Return the request of a refused change; None if the newest Plan cannot accept it at all."""
    if draft.ask is None or not renew(draft, twin):
        return None
    command, agent = draft.command, quick(agent_named(draft.ask.agent))
    if not isinstance(command, Renegotiation):
        return DisplacementAsk(draft.request, agent, bool(draft.note), draft.note)
    blocked = blocked_problem(twin, draft.request.id, command.revision, Transition.RENEGOTIATE)
    if blocked is not None:
        draft.answer = blocked
        return None
    return DisplacementAsk(draft.request, agent, renegotiates=True)


def _answers_to(
    case: DisplacementCase, found: Displacement, record: CommitRecord, plan: Plan
) -> _Answers:
    """Return the answers to a case whose record is about to be appended to a Plan.

    The first answer lists the displaced reservations, without ids for tenants that the caller does
    not act for.
    """
    user = present_actor().user
    displaced = tuple(
        one if user.acts_for(one.tenant) else replace(one, id="", tenant="")
        for one in found.affected
    )
    changes = {one.id: one for one in record.changes if isinstance(one, Admitted | Updated)}
    answers: _Answers = []
    for draft in case:
        change = changes[draft.request.id]
        answer = granted_answer(draft, change, plan, record.version, record.at_ms)
        answers.append((draft, answer if answers else replace(answer, displaced=displaced)))
    return answers
