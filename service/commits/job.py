"""Job: a command on its way from a call to the log, with the changes that it asks for.

A call makes a `Job` of its command and waits. The planner takes the jobs that wait as one `Group`,
which one commit carries. Each job has one `PendingChange` for each request of an admission, else
one: it is screened, placed, prepared, appended and answered; with its last answer the job is done.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from planner.placement import Code
from planner.plan.records.changes import Change, Conflict, Prepared, Refuse
from planner.plan.records.commit_records import RecordedChange
from planner.renegotiation import PreparedUpdate
from planner.request import Request
from service.access.user import Actor, present_actor
from service.commits.commands import (
    SPOILT,
    Admission,
    Answer,
    Ask,
    Closure,
    Command,
    DispatchChange,
    HoldPlacing,
    Keyed,
    OptimizationCommand,
    Reconfiguration,
    Renegotiation,
    ReservationAnswer,
    UndoCommand,
    conflict_problem,
    refused_problem,
)
from service.problems import ProblemDocument
from service.store import ApplicationRow, CompanionRow, IdempotentAnswer, PipelineRow


class Completion:
    """An event that happens once, by one lock: half of what an Event of threading costs."""

    __slots__ = ("_done", "_open")

    def __init__(self) -> None:
        self._open = threading.Lock()
        self._open.acquire()
        self._done = False

    def set(self) -> None:
        """Wake the thread that waits; only the first call does anything."""
        if not self._done:
            self._done = True
            self._open.release()

    def is_set(self) -> bool:
        """Return whether it has happened."""
        return self._done

    def wait(self, timeout_s: float) -> bool:
        """Wait at most so long; return whether it has happened."""
        if not self._done and self._open.acquire(timeout=timeout_s):
            self._open.release()
        return self._done


@dataclass(slots=True, eq=False)
class PendingChange:
    """One change that a job asks for.

    Attributes
    ----------
    ask
        The request of an admission, a hold or a renegotiation.
    change
        The change, once an agent has answered.
    update, revision
        While a renegotiation is placed: the prepared update, and the revision that it changes.
    conflict
        Why the Plan did not take it in this round.
    refusal
        Its refusal by planning in this round; None if it did not.
    answer
        The answer to the client; None as long as the change is open.
    note
        For a request that was refused earlier: the entry of its history.
    has_tried_displacement
        Whether reservations that it may displace were searched for.
    search_version
        Version of the Plan on which offers for its refusal were searched; None before.
    """

    job: Job = field(repr=False)
    ask: Ask | None = None
    change: Change | None = None
    update: PreparedUpdate | None = None
    revision: int = 0
    conflict: Conflict | None = None
    refusal: Code | None = None
    answer: Answer | None = None
    note: str = ""
    has_tried_displacement: bool = False
    search_version: int | None = None

    @property
    def command(self) -> Command:
        """The command that it is of."""
        return self.job.command

    @property
    def request(self) -> Request:
        """The compiled request of an admission, a hold or a renegotiation."""
        assert self.ask is not None
        return self.ask.request

    def begin_round(self) -> None:
        """Drop the result of an earlier round."""
        self.change = self.update = None
        self.conflict = self.refusal = self.search_version = None


@dataclass(slots=True, eq=False)
class Job:
    """A command that waits for the planner.

    Attributes
    ----------
    arrived
        Reading of the process's steady clock, for the wait metric.
    keyed
        For a call with an Idempotency-Key: the key, and the function that builds the stored row.
    companions
        Rows that are stored in the transaction of the change, if it is made.
    actor
        The user whose call created the job.
    changes
        The request.
    tenure
        The tenure in which it may be committed; None: at any time.
    is_atomic
        Whether all its requests are admitted, or none.
    needs_own_record
        Whether it must be committed in a record of its own: all or nothing; a batch whose whole
        answer is remembered; a change of the cluster, on which everything after it is to be
        planned; a change that counts for one tenure only.
    answers
        Set before `finished`: one for each request of an admission, else one; none if the key was
        answered before.
    stored
        The row under the key; None without one.
    failure
        Why there is no answer.
    is_attempted
        Whether the planner has begun to make a record durable that carries it.
    lane
        The lane that finishes it; None before one has it.
    """

    command: Command
    arrived: float = 0.0
    keyed: Keyed | None = None
    companions: tuple[CompanionRow, ...] = ()
    answers: tuple[Answer, ...] = ()
    stored: IdempotentAnswer | None = None
    failure: BaseException | None = None
    is_attempted: bool = False
    lane: object = None
    finished: Completion = field(default_factory=Completion)
    actor: Actor = field(default_factory=present_actor)
    changes: list[PendingChange] = field(init=False)
    tenure: int | None = field(init=False)
    is_atomic: bool = field(init=False)
    needs_own_record: bool = field(init=False)

    def __post_init__(self) -> None:
        """Make its changes: one for each request of an admission, else one."""
        command = self.command
        match command:
            case Admission(asks=asks):
                self.changes = [PendingChange(self, ask) for ask in asks]
            case Renegotiation(ask=ask) | HoldPlacing(ask=ask):
                self.changes = [PendingChange(self, ask)]
            case _:
                self.changes = [PendingChange(self)]
        self.tenure = command.tenure if isinstance(command, Closure | DispatchChange) else None
        self.is_atomic = isinstance(command, Admission) and command.atomic
        self.needs_own_record = (
            self.is_atomic
            or self.tenure is not None
            or (self.keyed is not None and len(self.changes) > 1)
            or isinstance(command, Reconfiguration | OptimizationCommand | UndoCommand)
            # An id of theirs that is taken fails their job only.
            or any(isinstance(one, ApplicationRow | PipelineRow) for one in self.companions)
        )

    @property
    def size(self) -> int:
        """Number of its requests."""
        return len(self.changes)

    @property
    def is_partly_granted(self) -> bool:
        """Whether something that it asks for is in the log already."""
        return any(isinstance(one.answer, ReservationAnswer) for one in self.changes)

    def fail(self, failure: BaseException) -> None:
        """End it without an answer."""
        self.failure = failure
        self.finished.set()

    def keep(self, answers: Sequence[Answer], at_ms: int) -> IdempotentAnswer:
        """Return the row that stores answers under the job's key; `at_ms` is now, Unix ms.

        The first answer and every repetition are made of it.
        """
        assert self.keyed is not None
        self.answers = tuple(answers)
        self.stored = self.keyed.row_of(self.answers, at_ms)
        return self.stored


class Group:
    """Jobs that one commit carries.

    Attributes
    ----------
    jobs
        Those that are not finished.
    is_alone
        Whether it is a single job that needs a commit record of its own.
    is_atomic
        Whether all requests of the group are admitted, or none.
    tenure
        The tenure of the dispatch in which it may be committed; None: at any time.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = list(jobs)
        self.is_alone = len(jobs) == 1 and jobs[0].needs_own_record
        self.is_atomic = self.is_alone and jobs[0].is_atomic
        self.tenure = jobs[0].tenure if self.is_alone else None

    def changes(self) -> list[PendingChange]:
        """Return all changes of the jobs that are not finished."""
        return [change for job in self.jobs for change in job.changes]

    def open(self) -> list[PendingChange]:
        """Return the changes without an answer."""
        return [change for change in self.changes() if change.answer is None]

    def rows_to_keep(
        self, answers: Sequence[tuple[PendingChange, Answer]], at_ms: int
    ) -> list[IdempotentAnswer]:
        """Return the rows of the jobs with a key that `answers` are about.

        A batch with a key is alone, so that the rest of `answers` is complete by now.
        """
        known = {id(one): answer for one, answer in answers}
        rows: list[IdempotentAnswer] = []
        for job in self.jobs:
            if job.keyed is not None and any(id(one) in known for one in job.changes):
                mine = ((known.get(id(one)) or one.answer, one) for one in job.changes)
                rows.append(job.keep([a or conflict_answer(one) for a, one in mine], at_ms))
        return rows

    def finish(self) -> None:
        """Hand each job that has all its answers to the client that waits for it."""
        waiting: list[Job] = []
        for job in self.jobs:
            answers = [one.answer for one in job.changes if one.answer is not None]
            if len(answers) < len(job.changes):
                waiting.append(job)
            else:
                job.answers = tuple(answers)
                job.finished.set()
        self.jobs = waiting

    def settle(self) -> None:
        """Answer a whole all-or-nothing batch when one of its requests is refused."""
        if not self.is_atomic:
            return
        refused = False
        for one in self.changes():
            if isinstance(one.change, Refuse) and one.ask is not None:
                one.answer = refused_problem(one.change.code, one.change.detail, one.ask.pointer)
            # A request that was granted before is answered already, and spoils nothing.
            refused = refused or isinstance(one.answer, ProblemDocument)
        for one in self.open() if refused else ():
            one.answer = SPOILT

    def hand_on(self, job: Job) -> None:
        """Take a job out for another lane: only its answers that are in the log stay."""
        self.jobs.remove(job)
        for one in job.changes:
            if job.is_atomic or isinstance(job.command, Renegotiation):
                one.answer = None


def conflict_answer(one: PendingChange) -> ProblemDocument:
    """Return the answer to a change that the log does not take."""
    return conflict_problem(one.conflict, "" if one.ask is None else one.ask.pointer)


def record_changes(
    prepared: Prepared, changes: Sequence[PendingChange]
) -> Iterator[tuple[PendingChange, RecordedChange]]:
    """Yield each change that the record carries, with its recorded form."""
    if prepared.record is None:
        return
    recorded = iter(prepared.record.changes)
    for one, outcome in zip(changes, prepared.outcomes, strict=True):
        if not isinstance(outcome, Conflict):
            yield one, next(recorded)
