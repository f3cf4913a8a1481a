"""Drafts: what a job asks for, one piece each, on its way from the queue to the log."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import msgspec

from planner.agent import Limits
from planner.agents import agent_named
from planner.cluster import Cluster
from planner.files import cluster_to_json
from planner.placement import Code, PlacementResult
from planner.plan.admission import screen
from planner.plan.changes import (
    Admit,
    Cancel,
    Change,
    Close,
    Conflict,
    Prepared,
    Reconfigure,
    Refuse,
    Update,
)
from planner.plan.plan import Plan
from planner.plan.records import RecordedChange
from planner.renegotiation.renegotiation import PreparedUpdate as PlannedUpdate
from planner.renegotiation.renegotiation import renegotiation_of
from planner.request import Request
from planner.reservation import Refusal
from planner.reservation_state import Event, State, may
from planner.view import PlanView
from rdl.compile.compiler import compile_expression
from rdl.compile.context import CompileContext
from rdl.errors import RdlError
from rdl.time_grid import TimeGrid
from service.commits.commands import (
    Admission,
    Answer,
    Ask,
    Cancellation,
    Closing,
    Command,
    QueuedChange,
    Reconfiguration,
    Releasing,
    Renegotiation,
)
from service.problems import ApiError, ProblemDocument, problem_of_rdl

#: What an event does to a reservation, in a sentence.
_DONE_TO_IT: Final = {
    Event.RENEGOTIATE: "renegotiated",
    Event.CANCEL: "cancelled",
    Event.CLOSE: "closed",
    Event.RELEASE: "released",
}


@dataclass(slots=True)
class PendingChange:
    """One piece of a job.

    Attributes
    ----------
    command
        What it does; of an admission, `ask` is the one request.
    change
        What it would change, once an agent has answered.
    answer
        What the client is told; None as long as it is open.
    """

    command: Command
    ask: Ask | None = None
    job: QueuedChange | None = None
    change: Change | None = None
    conflict: Conflict | None = None
    answer: Answer | None = None

    @property
    def request(self) -> Request:
        """The compiled request of a draft that has one."""
        assert self.ask is not None
        return self.ask.request


def drafts_of(command: Command, job: QueuedChange | None = None) -> list[PendingChange]:
    """Return one draft a request of an admission, else one."""
    match command:
        case Admission(asks=asks):
            return [PendingChange(command, ask, job) for ask in asks]
        case Renegotiation(ask=ask):
            return [PendingChange(command, ask, job)]
        case _:
            return [PendingChange(command, None, job)]


def open_drafts(drafts: Sequence[PendingChange]) -> list[PendingChange]:
    """Return those without an answer."""
    return [draft for draft in drafts if draft.answer is None]


@dataclass(frozen=True, slots=True)
class Screened:
    """A draft for an agent.

    Attributes
    ----------
    view
        For an admission: the Plan, frozen at its version.
    update, revision
        For a renegotiation: what it comes to, and the revision of the reservation.
    """

    draft: PendingChange
    view: PlanView | None = None
    update: PlannedUpdate | None = None
    revision: int = 0


def screen_drafts(drafts: Sequence[PendingChange], plan: Plan) -> list[Screened]:
    """Answer what needs no agent, turn what is plain into changes, and return the rest."""
    rest: list[Screened] = []
    snapshot: PlanView = plan.snapshot()
    for draft in drafts:
        if draft.ask is not None and not _renew(draft, plan):
            continue
        match draft.command:
            case Admission():
                refused = screen(plan, draft.request)
                if refused is None:
                    rest.append(Screened(draft, snapshot))
                else:
                    _refuse(draft, refused)
            case Renegotiation(revision=revision):
                id_ = draft.request.id
                draft.answer = _blocked(plan, id_, revision, Event.RENEGOTIATE)
                if draft.answer is None:
                    present = int(plan.table.meta[plan.table.number_of(id_)]["revision"])
                    update = renegotiation_of(plan, id_, draft.request)
                    rest.append(Screened(draft, update=update, revision=present))
            case Cancellation(id=id_, revision=revision):
                draft.answer = _blocked(plan, id_, revision, Event.CANCEL)
                draft.change = Cancel(id_, revision)
            case Closing(id=id_, revision=revision):
                draft.answer = _blocked(plan, id_, revision, Event.CLOSE)
                draft.change = Close(id_, revision)
            case Releasing(change=change):
                draft.answer = _blocked(plan, change.id, change.revision, Event.RELEASE)
                draft.change = change
            case Reconfiguration(cluster=cluster, tag=tag):
                draft.answer = _stale_cluster(plan, tag)
                draft.change = Reconfigure(cluster)
    return rest


def _renew(draft: PendingChange, plan: Plan) -> bool:
    """Compile a request again when the Plan's grid has moved on since it arrived."""
    assert draft.ask is not None
    if draft.request.graph.grid == plan.grid:
        return True
    try:
        context = context_of(plan, draft.request.submitted_ms)
        graph = compile_expression(draft.ask.expression, context, draft.ask.source)
    except RdlError as error:
        draft.answer = problem_of_rdl(error, f"{draft.ask.pointer}/rdl").document
        return False
    draft.ask = replace(draft.ask, request=replace(draft.request, graph=graph))
    return True


def context_of(plan: Plan, submitted_ms: int) -> CompileContext:
    """Return what a request is compiled against on a Plan."""
    return plan.cluster.context(plan.grid, submitted_ms)


def place(screened: Sequence[Screened], limits_of: Callable[[str], Limits]) -> None:
    """Let the agents answer; this is the long part, and holds no lock.

    All admissions with one agent go to it together.

    Parameters
    ----------
    limits_of
        How long an agent of this name may take.
    """
    together: dict[str, list[Screened]] = {}
    for one in screened:
        assert one.draft.ask is not None
        if one.update is None:
            together.setdefault(one.draft.ask.agent, []).append(one)
        else:
            name = one.draft.ask.agent
            _take_result(one, one.update.place(agent_named(name), limits_of(name)), name)
    for name, group in together.items():
        view = group[0].view
        assert view is not None
        requests = [one.draft.request for one in group]
        results = agent_named(name).plan(requests, view, limits_of(name))
        for one, result in zip(group, results, strict=True):
            _take_result(one, result, name)


def _take_result(one: Screened, result: PlacementResult, agent: str) -> None:
    draft = one.draft
    if not result.placed:
        _refuse(draft, result)
    elif isinstance(draft.command, Renegotiation):
        draft.change = Update(draft.request.id, one.revision, draft.request, result, agent)
    else:
        draft.change = Admit(draft.request, result, agent)


def _refuse(draft: PendingChange, result: PlacementResult) -> None:
    """A refused request is kept in the Plan; a refused renegotiation leaves all as it was."""
    assert result.code is not None
    assert draft.ask is not None
    plain = result.code in (Code.DUPLICATE_ID, Code.MALFORMED)
    if plain or isinstance(draft.command, Renegotiation):
        draft.answer = refused_problem(result.code, result.detail, draft.ask.pointer)
        return
    draft.change = Refuse(draft.request, result.code, result.detail, result.binding)


def _blocked(plan: Plan, id_: str, revision: int | None, event: Event) -> Answer | None:
    """Return why an event cannot happen to a reservation, or None."""
    number = plan.table.number_of(id_)
    if number is None:
        return no_reservation(plan, id_, event)
    state = plan.table.state(number)
    if not may(state, event):
        return _wrong_state(id_, state, event)
    present = int(plan.table.meta[number]["revision"])
    if revision is not None and revision != present:
        detail = f"the reservation {id_!r} is at revision {present}, not {revision}"
        return ProblemDocument("stale_revision", detail, headers={"ETag": f'"{present}"'})
    return None


def no_reservation(plan: Plan, id_: str, event: Event) -> ProblemDocument:
    """Return why an event cannot happen to an id that no reservation has."""
    if plan.refusal(id_) is not None:
        return _wrong_state(id_, State.REFUSED, event)
    return ProblemDocument("not_found", f"there is no reservation {id_!r}")


def _wrong_state(id_: str, state: State, event: Event) -> ProblemDocument:
    detail = f"the reservation {id_!r} is {state.value} and cannot be {_DONE_TO_IT[event]}"
    return ProblemDocument("wrong_state", detail)


def cluster_tag(cluster: Cluster) -> str:
    """Return the entity tag of a cluster's description."""
    body = msgspec.json.encode(cluster_to_json(cluster))
    return hashlib.sha256(body).hexdigest()[:16]


def _stale_cluster(plan: Plan, tag: str | None) -> Answer | None:
    present = cluster_tag(plan.cluster)
    if tag in (None, "*", present):
        return None
    detail = "the cluster's description has changed since that version of it"
    return ProblemDocument("stale_revision", detail, headers={"ETag": f'"{present}"'})


def refused_problem(
    code: str,
    detail: str,
    pointer: str,
    refusal: Refusal | None = None,
    grid: TimeGrid | None = None,
) -> ProblemDocument:
    """Return what a client is told of a refusal."""
    kept = None if refusal is None or grid is None else refusal.to_json(grid)
    # What compiled and is still malformed names a queue that takes no reservations.
    field = {Code.DUPLICATE_ID.value: "id", Code.MALFORMED.value: "queue"}.get(code, "rdl")
    error = ApiError(detail, code, pointer=f"{pointer}/{field}")
    return ProblemDocument(code, detail, (error,), kept)


def recorded(
    prepared: Prepared, drafts: Sequence[PendingChange]
) -> Iterator[tuple[PendingChange, RecordedChange]]:
    """Yield each draft whose change the record carries, with what it became."""
    if prepared.record is None:
        return
    changes = iter(prepared.record.changes)
    for draft, outcome in zip(drafts, prepared.outcomes, strict=True):
        if not isinstance(outcome, Conflict):
            yield draft, next(changes)
