"""Displacement cases: what planning refused for room, and what may displace others instead.

A request, a change of a reservation, and an all-or-nothing batch are each one case. A hold is none:
it may be given back a minute later, and what made way for it would have done so for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Final, Protocol

from planner.plan.plan import Plan
from planner.replanning.candidates import FOR_ROOM, may_displace
from service.commits.changes.commands import (
    SPOILT,
    Admission,
    HoldPlacing,
    QueuedChange,
    Renegotiation,
    ReservationAnswer,
)
from service.commits.changes.pending import PendingChange
from service.commits.group import Group
from service.problems import ProblemDocument

#: Changes that come in together or not at all.
DisplacementCase = tuple[PendingChange, ...]

_HOLD_DISPLACES_NOTHING: Final = "; a hold displaces no others, a reservation of this priority may"


class PendingDisplacements(tuple[DisplacementCase, ...]):
    """Cases for which no reservations to displace were searched yet."""

    __slots__ = ()

    def jobs(self) -> list[QueuedChange]:
        """Return the jobs that they are of, each once."""
        known = {id(draft.job): draft.job for case in self for draft in case}
        return [job for job in known.values() if job is not None]


class SearchLane(Protocol):
    """Where whom to displace is searched, beside the threads that others wait for."""

    def put(self, group: Group) -> None:
        """Take over a job that may displace others; it is finished by the lane, whatever fails."""

    def turn(self) -> AbstractContextManager[None]:
        """Be the only caller of this process who searches for what is not committed."""


def pending_displacements(drafts: Sequence[PendingChange], plan: Plan) -> PendingDisplacements:
    """Return the cases among the changes of a group; none where no policy allows displacement.

    Refused holds are told that a reservation may displace others, where it may.
    """
    if not plan.cluster.displacement_rules:
        return _NONE
    _tell_holds(drafts, plan)
    cases = (case for case in _cases(drafts) if _may_displace(case, plan))
    return PendingDisplacements(cases)


_NONE: Final = PendingDisplacements()


def _cases(drafts: Sequence[PendingChange]) -> list[DisplacementCase]:
    """Return what comes in together; an all-or-nothing batch is a group by itself.

    One of which a part was granted before is none: that part stands, and might be displaced.
    """
    if drafts and isinstance(drafts[0].command, Admission) and drafts[0].command.atomic:
        known = any(isinstance(one.answer, ReservationAnswer) for one in drafts)
        return [] if known else [tuple(drafts)]
    return [(one,) for one in drafts if _is_refused(one) and not _may_come_twice(one)]


def _may_come_twice(draft: PendingChange) -> bool:
    """Return whether a repetition of its call could not know a change that is committed before.

    A batch under a key is remembered as a whole, and what displaces others is committed by itself
    before that. Where the rest fails, only an id of the client's tells the request again.
    """
    job, ask = draft.job, draft.ask
    several = isinstance(draft.command, Admission) and len(draft.command.asks) > 1
    return several and job is not None and job.key is not None and bool(ask and ask.has_made_id)


def _is_refused(draft: PendingChange) -> bool:
    """Return whether a change by itself was refused, and no record says so yet."""
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
        return False  # another request of the batch lacks more than room
    return may_displace(plan, [one.request for one in case])


def _tell_holds(drafts: Sequence[PendingChange], plan: Plan) -> None:
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
