"""Displacer: lets refused requests of higher priority displace others, each in one commit.

What a request displaces is found on a copy of the Plan, without the lock, and committed jointly:
one record admits the request and moves or degrades the displaced reservations, or nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from planner.agents import agent_named
from planner.displacement.candidates import FOR_ROOM, may_displace
from planner.displacement.displacement import Displacement, DisplacementAsk, displace
from planner.offers.search import quick
from planner.plan.plan import Plan
from planner.plan.records.changes import Refuse
from planner.plan.records.commit_records import CommitRecord
from planner.plan.records.reservation_records import Admitted
from service.access.actor import SERVER, acting, present_actor
from service.clock import Clock
from service.commits.answers.outcomes import admitted_answer
from service.commits.answers.refusal_offers import seconds_of_search
from service.commits.changes.commands import Admission, ReservationAnswer
from service.commits.changes.pending import PendingChange
from service.commits.group import Group
from service.commits.joint_commit import commit_jointly
from service.commits.screening.placing import renew
from service.replication.replica import Replica
from service.store import CommitRow

#: How often the search for one request is made; again where the Plan has moved on.
_ROUNDS: Final = 4

#: Longest search for a smaller set of reservations to displace.
_LONGEST_S: Final = 1.0


class PendingDisplacements(tuple[PendingChange, ...]):
    """Refused requests that may displace reservations, and for which none were searched yet."""

    __slots__ = ()


def pending_displacements(drafts: Sequence[PendingChange], plan: Plan) -> PendingDisplacements:
    """Return those among some changes; none, and no work, where no policy allows displacement."""
    if not plan.cluster.displacement_rules:
        return _NONE
    return PendingDisplacements(draft for draft in drafts if _may_displace(draft, plan))


_NONE: Final = PendingDisplacements()


def _may_displace(draft: PendingChange, plan: Plan) -> bool:
    change, command = draft.change, draft.command
    return (
        not draft.has_tried_displacement
        and isinstance(change, Refuse)
        and change.code in FOR_ROOM
        and isinstance(command, Admission)
        and not command.atomic
        and may_displace(plan, draft.request)
    )


class Displacer:
    """Commits what refused requests displace, one request at a time.

    Parameters
    ----------
    note_commit
        Called with each record that is appended.
    """

    def __init__(
        self, replica: Replica, clock: Clock, note_commit: Callable[[CommitRecord], None]
    ) -> None:
        self._replica = replica
        self._clock = clock
        self._note_commit = note_commit

    def run(self, group: Group, drafts: Sequence[PendingChange]) -> None:
        """Answer those of some refused requests that displace others; the rest stay refused."""
        for draft in drafts:
            draft.has_tried_displacement = True
            for _ in range(_ROUNDS):
                with self._replica.newest() as plan:
                    twin = plan.copy()
                found = self._search(draft, twin)
                del twin
                if found is None or self._commit(group, draft, found):
                    break

    def rehearse(self, drafts: Sequence[PendingChange], twin: Plan) -> None:
        """Answer refused requests with what they would displace on a copy of the Plan."""
        for draft in drafts:
            draft.has_tried_displacement = True
            found = self._search(draft, twin)
            if found is None:
                continue
            prepared = twin.prepare(found.changes, twin.version, joint=True)
            assert prepared.record is not None
            draft.answer = _answer_to(draft, found, prepared.record, twin)
            twin.apply(prepared.record)

    @staticmethod
    def _search(draft: PendingChange, twin: Plan) -> Displacement | None:
        if draft.ask is None or not renew(draft, twin):
            return None
        agent = quick(agent_named(draft.ask.agent))
        ask = DisplacementAsk(draft.request, agent, bool(draft.note), draft.note)
        return displace(twin, ask, seconds_of_search(_LONGEST_S))

    def _commit(self, group: Group, draft: PendingChange, found: Displacement) -> bool:
        """Append a displacement; return False where the Plan has moved on."""
        made: list[tuple[ReservationAnswer, CommitRecord]] = []

        def note(record: CommitRecord, plan: Plan) -> None:
            made[:] = [(_answer_to(draft, found, record, plan), record)]

        def rows(_version: int, _before: int) -> list[CommitRow]:
            kept: list[CommitRow] = []
            kept += group.to_remember_of(draft, made[0][0], self._clock.now_ms())
            if draft.job is not None and draft.job.companion is not None:
                kept.append(draft.job.companion)
            return kept

        with acting(SERVER if draft.job is None else draft.job.actor):
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
        draft.answer, record = made[0]
        self._note_commit(record)
        return True


def _answer_to(
    draft: PendingChange, found: Displacement, record: CommitRecord, plan: Plan
) -> ReservationAnswer:
    """Return the answer to a request whose record is about to be appended to a Plan.

    Reservations of tenants that the caller does not act for have no name in it.
    """
    user = present_actor().user
    told = tuple(
        one if user.acts_for(one.tenant) else replace(one, id="", tenant="")
        for one in found.affected
    )
    admitted = next(one for one in record.changes if isinstance(one, Admitted))
    return admitted_answer(draft, admitted, plan, (record.version, record.at_ms), told)
