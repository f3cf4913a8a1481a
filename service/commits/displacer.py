"""Displacer: lets what was refused for room displace others, each case in one commit.

What a case displaces is found on a copy of the Plan, without the lock, and committed jointly: one
record brings in all that was asked for and moves or degrades the displaced reservations, or nothing
changes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from planner.agents import agent_named
from planner.displacement.displacement import Displacement, displace
from planner.displacement.wanted_place import DisplacementAsk
from planner.offers.search import quick
from planner.plan.plan import Plan
from planner.plan.records.commit_records import CommitRecord
from planner.plan.records.reservation_records import Admitted, Updated
from planner.reservations.state import Transition
from service.access.actor import SERVER, acting, present_actor
from service.clock import Clock
from service.commits.answers.outcomes import granted_answer
from service.commits.answers.refusal_offers import seconds_of_search
from service.commits.changes.commands import Renegotiation, ReservationAnswer
from service.commits.changes.pending import PendingChange
from service.commits.displacement_cases import DisplacementCase, PendingDisplacements
from service.commits.group import Group
from service.commits.joint_commit import commit_jointly
from service.commits.screening.placing import renew
from service.commits.screening.revision_check import blocked_problem
from service.replication.replica import Replica
from service.store import CommitRow

#: How often the search for one case is made; again where the Plan has moved on.
_ROUNDS: Final = 4

#: Longest search for a smaller set of reservations to displace.
_LONGEST_S: Final = 1.0

_Answers = list[tuple[PendingChange, ReservationAnswer]]


class Displacer:
    """Commits what refused changes displace, one case at a time.

    Parameters
    ----------
    note_commit
        Called with each record that is appended.
    longest_s
        Begin no search of a group's after so long: the calls behind it wait.
    is_stopping
        Whether no more searches are to begin.
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

    def run(self, group: Group, cases: PendingDisplacements) -> None:
        """Answer the cases that displace others; the rest and what comes late stay refused."""
        until_s = time.monotonic() + self._longest_s
        for case in cases:
            note_trial(case)
            if self._is_stopping() or time.monotonic() > until_s:
                continue
            for _ in range(_ROUNDS):
                with self._replica.newest() as plan:
                    twin = plan.copy()
                found = _search(case, twin)
                del twin
                if found is None or self._commit(group, case, found):
                    break

    def rehearse(self, cases: PendingDisplacements) -> None:
        """Answer cases with what they would displace, on a copy of the newest Plan."""
        with self._replica.newest() as plan:
            twin = plan.copy()
        for case in cases:
            note_trial(case)
            found = _search(case, twin)
            if found is None:
                continue
            prepared = twin.prepare(found.changes, twin.version, joint=True)
            assert prepared.record is not None
            _answer(_answers_to(case, found, prepared.record, twin))
            twin.apply(prepared.record)

    def _commit(self, group: Group, case: DisplacementCase, found: Displacement) -> bool:
        """Append a displacement; return False where the Plan has moved on."""
        job = case[0].job
        made: list[tuple[_Answers, CommitRecord]] = []

        def note(record: CommitRecord, plan: Plan) -> None:
            made[:] = [(_answers_to(case, found, record, plan), record)]

        def rows(_version: int, _before: int) -> list[CommitRow]:
            kept: list[CommitRow] = []
            kept += group.to_remember_of(made[0][0], self._clock.now_ms())
            if job is not None and job.companion is not None:
                kept.append(job.companion)
            return kept

        with acting(SERVER if job is None else job.actor):
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


def note_trial(case: Sequence[PendingChange]) -> None:
    """Remember that whom changes may displace was searched for, or will not be."""
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
    """Return what a refused change asks for; None where the newest Plan cannot take it at all."""
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

    The first names those displaced; reservations of tenants that the caller does not act for have
    no name in it.
    """
    user = present_actor().user
    told = tuple(
        one if user.acts_for(one.tenant) else replace(one, id="", tenant="")
        for one in found.affected
    )
    changes = {one.id: one for one in record.changes if isinstance(one, Admitted | Updated)}
    answers: _Answers = []
    for draft in case:
        change = changes[draft.request.id]
        answer = granted_answer(draft, change, plan, record.version, record.at_ms)
        answers.append((draft, answer if answers else replace(answer, displaced=told)))
    return answers
