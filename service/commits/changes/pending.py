"""PendingChange: one change that a job asks for, on its way from the queue to the log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from planner.placement import Code
from planner.plan.plan import Plan
from planner.plan.records.changes import Change, Conflict, Prepared
from planner.plan.records.commit_records import RecordedChange
from planner.request import Request
from planner.reservations.reservation import Refusal
from rdl.compile.context import CompileContext
from rdl.time_grid import TimeGrid
from service.commits.changes.commands import (
    Admission,
    Answer,
    Ask,
    Command,
    HoldPlacing,
    QueuedChange,
    Renegotiation,
)
from service.commits.changes.offer_requests import refusal_with_requests
from service.problems import ApiError, ProblemDocument


@dataclass(slots=True)
class PendingChange:
    """One change that a job asks for.

    Attributes
    ----------
    command
        What it does; of an admission, `ask` is the one request.
    change
        What it would change, once an agent has answered.
    answer
        The answer to the client; None as long as the change is open.
    note
        Of a request that was refused before: what its history says of that.
    refusal
        With what planning refused it in this round; None where it did not.
    has_tried_displacement
        Whether reservations that it may displace were searched for.
    search_version
        Version of the Plan on which offers for its refusal were sought; None before.
    """

    command: Command
    ask: Ask | None = None
    job: QueuedChange | None = None
    change: Change | None = None
    conflict: Conflict | None = None
    answer: Answer | None = None
    note: str = ""
    refusal: Code | None = None
    search_version: int | None = None
    has_tried_displacement: bool = False

    @property
    def request(self) -> Request:
        """The compiled request of an admission or a renegotiation."""
        assert self.ask is not None
        return self.ask.request


def pending_changes_of(command: Command, job: QueuedChange | None = None) -> list[PendingChange]:
    """Return one change for each request of an admission, else one."""
    match command:
        case Admission(asks=asks):
            return [PendingChange(command, ask, job) for ask in asks]
        case Renegotiation(ask=ask) | HoldPlacing(ask=ask):
            return [PendingChange(command, ask, job)]
        case _:
            return [PendingChange(command, None, job)]


def open_changes(drafts: Sequence[PendingChange]) -> list[PendingChange]:
    """Return the changes without an answer."""
    return [draft for draft in drafts if draft.answer is None]


def refused_problem(
    code: str,
    detail: str,
    pointer: str,
    refusal: Refusal | None = None,
    grid: TimeGrid | None = None,
    *,
    field: str = "",
) -> ProblemDocument:
    """Return the answer to a request that planning refused; `field` is that at fault."""
    kept = None
    if refusal is not None and grid is not None:
        kept = refusal_with_requests(refusal.to_json(grid))
    # What compiled and is still malformed names a queue that takes no reservations.
    known = {Code.DUPLICATE_ID.value: "id", Code.MALFORMED.value: "queue"}.get(code, "rdl")
    error = ApiError(detail, code, pointer=f"{pointer}/{field or known}")
    return ProblemDocument(code, detail, (error,), kept)


def record_changes(
    prepared: Prepared, drafts: Sequence[PendingChange]
) -> Iterator[tuple[PendingChange, RecordedChange]]:
    """Yield each change that the record carries, with its recorded form."""
    if prepared.record is None:
        return
    changes = iter(prepared.record.changes)
    for draft, outcome in zip(drafts, prepared.outcomes, strict=True):
        if not isinstance(outcome, Conflict):
            yield draft, next(changes)


def context_of(plan: Plan, submitted_ms: int) -> CompileContext:
    """Return what a request is compiled against on a Plan."""
    return plan.cluster.context(plan.grid, submitted_ms)
