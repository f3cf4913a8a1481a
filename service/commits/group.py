"""Group: jobs that one commit carries, and the changes of each that are still open."""

from __future__ import annotations

from collections.abc import Sequence

from planner.plan.records.changes import Refuse
from service.commits.answers.idempotency import stored_answer_of
from service.commits.answers.outcomes import conflict_answer
from service.commits.changes.commands import (
    SPOILT,
    Admission,
    Answer,
    QueuedChange,
    Renegotiation,
    ReservationAnswer,
)
from service.commits.changes.pending import (
    PendingChange,
    open_changes,
    pending_changes_of,
    refused_problem,
)
from service.problems import ProblemDocument
from service.store import IdempotentAnswer


class Group:
    """Jobs that are carried out together.

    Attributes
    ----------
    alone
        Whether it is a single job that needs a commit record of its own.
    atomic
        Whether all requests of the group are admitted, or none.
    tenure
        The tenure of the dispatch in which it may be committed; None: at any time.
    """

    def __init__(self, jobs: Sequence[QueuedChange]) -> None:
        self.alone = len(jobs) == 1 and jobs[0].needs_own_record
        command = jobs[0].command if self.alone else None
        self.atomic = isinstance(command, Admission) and command.atomic
        self.tenure = jobs[0].tenure if self.alone else None
        self._drafts = [(job, pending_changes_of(job.command, job)) for job in jobs]

    def drafts(self) -> list[PendingChange]:
        """Return all changes of the jobs that are not finished."""
        return [draft for _, drafts in self._drafts for draft in drafts]

    def open(self) -> list[PendingChange]:
        """Return the changes without an answer."""
        return open_changes(self.drafts())

    def to_remember(
        self, answers: Sequence[tuple[PendingChange, Answer]], at_ms: int
    ) -> list[IdempotentAnswer]:
        """Return the rows of the jobs with a key that `answers` are about.

        A batch with a key is alone, so that what is not in `answers` is answered by now.
        """
        known = {id(draft): answer for draft, answer in answers}
        rows: list[IdempotentAnswer] = []
        for job, drafts in self._drafts:
            if job.key is not None and any(id(draft) in known for draft in drafts):
                job.answers = tuple(
                    known.get(id(draft)) or draft.answer or conflict_answer(draft)
                    for draft in drafts
                )
                rows.append(stored_answer_of(job, at_ms))
        return rows

    def to_remember_of(
        self, answers: Sequence[tuple[PendingChange, Answer]], at_ms: int
    ) -> list[IdempotentAnswer]:
        """Return the row of the job of some changes where all its others have their answers."""
        known = {id(draft) for draft, _ in answers}
        for job, drafts in self._drafts:
            if job is answers[0][0].job and known.issuperset(map(id, open_changes(drafts))):
                return self.to_remember(answers, at_ms)
        return []

    def jobs(self) -> list[QueuedChange]:
        """Return the jobs that are not finished."""
        return [job for job, _ in self._drafts]

    def jobs_with_keys(self) -> list[QueuedChange]:
        """Return the jobs whose answer another process may have given by now."""
        return [job for job in self.jobs() if job.key is not None]

    def finish_jobs(self) -> None:
        """Hand each job that has all its answers to the client that waits for it."""
        waiting: list[tuple[QueuedChange, list[PendingChange]]] = []
        for job, drafts in self._drafts:
            answers = [draft.answer for draft in drafts if draft.answer is not None]
            if len(answers) < len(drafts):
                waiting.append((job, drafts))
            else:
                job.answers = tuple(answers)
                job.finished.set()
        self._drafts = waiting

    def stands_in_part(self, job: QueuedChange) -> bool:
        """Return whether something that a job asks for is in the log already."""
        return any(
            isinstance(draft.answer, ReservationAnswer)
            for draft in self.drafts()
            if draft.job is job
        )

    def part(self, job: QueuedChange) -> Group:
        """Take a job out, for another lane to carry out; what planning refused of it is open."""
        other = Group([])
        other.alone, other.atomic, other.tenure = self.alone, self.atomic, self.tenure
        other._drafts = [(one, drafts) for one, drafts in self._drafts if one is job]
        self.forget(job)
        _reopen(other.drafts())
        return other

    def forget(self, job: QueuedChange) -> None:
        """Drop a job that is finished otherwise."""
        self._drafts = [(one, drafts) for one, drafts in self._drafts if one is not job]


def spoil(drafts: Sequence[PendingChange]) -> bool:
    """Answer a whole all-or-nothing batch when one of its requests is refused."""
    refused = False
    for draft in drafts:
        if isinstance(draft.change, Refuse) and draft.ask is not None:
            change = draft.change
            draft.answer = refused_problem(change.code, change.detail, draft.ask.pointer)
        # A request that was granted before is answered already, and spoils nothing.
        refused = refused or isinstance(draft.answer, ProblemDocument)
    if refused:
        for draft in open_changes(drafts):
            draft.answer = SPOILT
    return refused


def _reopen(drafts: Sequence[PendingChange]) -> None:
    """Forget answers that say no and stand in no record: of a change, and of all or nothing."""
    for draft in drafts:
        atomic = isinstance(draft.command, Admission) and draft.command.atomic
        if atomic or isinstance(draft.command, Renegotiation):
            draft.answer = None
