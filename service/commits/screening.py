"""Screening and placing: decide whether a change may happen, and place its request.

Changes that need no agent are decided on the Plan, under its lock: whether state and revision allow
the change, the request is already known, or a policy refuses it. Agents place the rest on a frozen
view of the Plan, without the lock.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from planner.agent import Agent, Limits
from planner.agents import agent_named
from planner.cluster.cluster import Cluster
from planner.files import cluster_to_json
from planner.offer_search import quick
from planner.placement import Code, PlacementResult
from planner.plan.batch.admission import rule_refusal, screen
from planner.plan.plan import Plan
from planner.plan.records.changes import (
    Admit,
    Cancel,
    Close,
    Conflict,
    Degrade,
    Prepared,
    Reconfigure,
    Refuse,
    Release,
    Update,
)
from planner.plan.records.changes import Note as RecordNote
from planner.plan.records.reservation_records import AcceptHold, EndHold
from planner.renegotiation import renegotiation_of
from planner.replanning.displacement_search import FOR_ROOM
from planner.request import Request
from planner.reservations.reservation import Refusal, Reservation
from planner.reservations.state import State, Transition, may
from planner.view import PlanView
from rdl.compile.compiler import compile_expression
from rdl.compile.context import CompileContext
from rdl.compile.source import read_source
from rdl.errors import RdlError
from rdl.expressions import Expression, Offset
from rdl.meaning.shift import with_instants
from rdl.text.formatter import format_expression
from service.commits.commands import (
    Admission,
    Ask,
    Cancellation,
    Closure,
    DispatchChange,
    HoldAcceptance,
    HoldEnding,
    HoldPlacing,
    Reconfiguration,
    Renegotiation,
    ReservationAnswer,
    refused_problem,
)
from service.commits.job import PendingChange
from service.problems import ProblemDocument, problem_of_rdl
from service.windows import times_now

_ALLOWED_ANEW: Final = (
    "whether requests are longer by their start delay (allow_start) has just changed; ask again"
)

#: Participle of each transition for sentences.
_DONE_TO_IT: Final = {
    Transition.RENEGOTIATE: "renegotiated",
    Transition.CANCEL: "cancelled",
    Transition.CLOSE: "closed",
    Transition.RELEASE: "released",
    Transition.MISS: "time owed for missed slots",
}


def screen_changes(drafts: Sequence[PendingChange], plan: Plan) -> list[PendingChange]:
    """Answer changes that need no agent, convert simple ones, and return the rest."""
    rest: list[PendingChange] = []
    asked: Counter[tuple[str, str]] = Counter()  # holds of the same group, by holder and tenant
    for draft in drafts:
        if draft.ask is not None and not renew(draft, plan):
            continue
        match draft.command:
            case Admission():
                if _screen_request(plan, draft):
                    rest.append(draft)
            case HoldPlacing(ask=ask, hold=hold, most=most):
                mine = (hold.holder, ask.request.tenant)
                draft.answer = _crowded_problem(plan, *mine, most - asked[mine])
                asked[mine] += 1
                if draft.answer is None and _screen_request(plan, draft):
                    rest.append(draft)
            case HoldAcceptance(id=id_):
                draft.answer = _not_held_problem(plan, id_)
                draft.change = AcceptHold(id_)
            case HoldEnding(id=id_, reason=reason, when_over=when_over):
                draft.answer = _not_held_problem(plan, id_)
                draft.change = EndHold(id_, reason, when_over)
            case Renegotiation(revision=revision):
                id_ = draft.request.id
                draft.answer = blocked_problem(plan, id_, revision, Transition.RENEGOTIATE)
                if draft.answer is None:
                    draft.revision = int(plan.table.meta[plan.table.number_of(id_)]["revision"])
                    draft.update = renegotiation_of(plan, id_, draft.request)
                    rest.append(draft)
            case Cancellation(id=id_, revision=revision):
                draft.answer = blocked_problem(plan, id_, revision, Transition.CANCEL)
                draft.change = Cancel(id_, revision)
            case Closure(id=id_, revision=revision):
                draft.answer = blocked_problem(plan, id_, revision, Transition.CLOSE)
                draft.change = Close(id_, revision)
            case DispatchChange(change=RecordNote() as note):
                if plan.table.number_of(note.id) is None:
                    draft.answer = no_reservation(plan, note.id, Transition.MISS)
                draft.change = note
            case DispatchChange(change=Release() | Degrade() as change):
                early = isinstance(change, Release)
                transition = Transition.RELEASE if early else Transition.MISS
                draft.answer = blocked_problem(plan, change.id, change.revision, transition)
                draft.change = change
            case Reconfiguration(cluster=cluster, tag=tag, version=version):
                draft.answer = stale_cluster_problem(plan, tag, version)
                draft.change = Reconfigure(cluster)
    return rest


def _screen_request(plan: Plan, draft: PendingChange) -> bool:
    """Return whether an agent must place a request; otherwise it is known or refused."""
    ask = draft.ask
    assert ask is not None
    draft.note = ""
    if not plan.knows(ask.request.id):
        refused = rule_refusal(plan, ask.request)
    else:
        if isinstance(draft.command, Admission):
            draft.answer = _same_reservation(plan, ask)
            if draft.answer is not None:
                return False
        draft.note = _note_of_retry(plan, ask)
        refused = rule_refusal(plan, ask.request) if draft.note else screen(plan, ask.request)
    if refused is not None:
        _refuse(draft, refused)
    return refused is None


def renew(draft: PendingChange, plan: Plan) -> bool:
    """Compile a request again if the Plan's grid has changed since it arrived.

    Return whether it can continue: not if the policy by which it was enlarged has changed.
    """
    assert draft.ask is not None
    if draft.ask.allow_start not in (None, plan.cluster.dispatch.allow_start):
        draft.answer = refused_problem(Code.CONFLICT, _ALLOWED_ANEW, draft.ask.pointer)
        return False
    if draft.request.graph.grid == plan.grid:
        return True
    try:
        context = context_of(plan, draft.request.submitted_ms)
        graph = compile_expression(draft.ask.expression, context, draft.ask.source)
        graph = replace(graph, notes=(*draft.ask.notes, *graph.notes))
    except RdlError as error:
        draft.answer = problem_of_rdl(error, f"{draft.ask.pointer}/rdl").document
        return False
    draft.ask = replace(draft.ask, request=replace(draft.request, graph=graph))
    return True


def context_of(plan: Plan, submitted_ms: int) -> CompileContext:
    """Return the context for compiling a request on a Plan."""
    return plan.cluster.context(plan.grid, submitted_ms)


def place(
    waiting: Sequence[PendingChange], view: PlanView, limits_of: Callable[[str], Limits]
) -> None:
    """Let the agents place requests; this is slow, and holds no lock.

    All admissions with one agent go to it together.

    Parameters
    ----------
    waiting
        Changes returned by `screen_changes`.
    view
        The Plan, frozen at the version on which they were screened.
    limits_of
        Returns the limits of the named agent.
    """
    together: dict[str, list[PendingChange]] = {}
    for draft in waiting:
        assert draft.ask is not None
        name = draft.ask.agent
        if draft.update is None:
            together.setdefault(name, []).append(draft)
        else:
            agent = agent_named(name)
            _take_result(draft, draft.update.place(agent, limits_of(name)), name, quick(agent))
            draft.update = None  # it references a view of the Plan
    for name, group in together.items():
        agent = agent_named(name)
        results = agent.plan([draft.request for draft in group], view, limits_of(name))
        planner = quick(agent)
        for draft, result in zip(group, results, strict=True):
            _take_result(draft, result, name, planner)


def _take_result(draft: PendingChange, result: PlacementResult, agent: str, planner: Agent) -> None:
    """Turn an agent's result into a change; `planner` places it again on a newer Plan."""
    request, command = draft.request, draft.command
    if not result.placed:
        _refuse(draft, result)
    elif draft.update is not None:
        again = draft.update.planner(planner)
        draft.change = Update(request.id, draft.revision, request, result, agent, planner=again)
    else:
        hold = command.hold if isinstance(command, HoldPlacing) else None
        anew = bool(draft.note)
        draft.change = Admit(
            request, result, agent, anew=anew, planner=planner, note=draft.note, hold=hold
        )


def refuse_for_machines(drafts: Sequence[PendingChange], prepared: Prepared) -> bool:
    """Refuse changes that fit in the totals but not on machines or within an agent's limit.

    Changes that may not move and find no capacity are refused too. Returns whether there are any.
    Another round would not help: machines were searched on the newest Plan, and the agent was
    called again; a limit is the same everywhere.
    """
    found = False
    for draft, outcome in zip(drafts, prepared.outcomes, strict=True):
        if isinstance(outcome, Conflict) and _is_final(draft, outcome) and draft.ask is not None:
            _refuse(draft, PlacementResult(outcome.code, outcome.detail, binding=outcome.binding))
            found = True
    return found


def _is_final(draft: PendingChange, conflict: Conflict) -> bool:
    if conflict.lacks_machines or conflict.code == Code.AGENT_LIMIT:
        return True
    change = draft.change
    return isinstance(change, Update) and change.planner is None and conflict.code in FOR_ROOM


def _refuse(draft: PendingChange, result: PlacementResult) -> None:
    """Refuse a change: a refused request is stored in the Plan, a renegotiation changes nothing."""
    assert result.code is not None
    assert draft.ask is not None
    draft.refusal = result.code
    plain = result.code in (Code.DUPLICATE_ID, Code.MALFORMED)
    if plain or isinstance(draft.command, Renegotiation | HoldPlacing):
        field = "promise" if result.binding and result.binding.kind == "promise" else ""
        draft.answer = refused_problem(result.code, result.detail, draft.ask.pointer, field=field)
        return
    draft.change = Refuse(
        draft.request, result.code, result.detail, result.binding, anew=bool(draft.note)
    )


def _same_reservation(plan: Plan, ask: Ask) -> ReservationAnswer | None:
    """Return the reservation of the same earlier request, or None.

    Requests are the same if tenant, queue, weight, priority and the meaning of the expression
    agree, whatever the names of its parts, with or without the server's additions. A hold is not a
    reservation yet: it ends unless accepted.
    """
    request = ask.request
    found = plan.reservation(request.id)
    if found is None or plan.table.number_of(request.id) in plan.table.holds:
        return None
    level = request.promise or found.promise
    asked = (request.tenant, request.queue, request.weight, request.priority)
    known = (found.tenant, found.queue, found.weight, found.priority)
    if asked != known or level is not found.promise:
        return None
    if not _is_same(request, found):
        return None
    times = times_now(plan, request.id)
    return ReservationAnswer(found, plan.grid, plan.version, times, known=True)


def _note_of_retry(plan: Plan, ask: Ask) -> str:
    """Return the history note of a request that was refused before and is repeated.

    A repetition has the same expression, or that of an offer, with the same tenant and queue. Empty
    if the id is new, or its refusal was for another request.
    """
    request = ask.request
    refusal = plan.refusal(request.id)
    if refusal is None or (refusal.tenant, refusal.queue) != (request.tenant, request.queue):
        return ""
    text = format_expression(request.graph.expression)
    if _is_same(request, refusal):
        return f"it was refused earlier ({refusal.code})"
    for offer in refusal.offers:
        kind = offer["change"]["kind"]
        if _is_offer(offer["expression"], text):
            return f"an offer ({kind}) instead of {refusal.expression}, refused ({refusal.code})"
    return ""


def _is_same(request: Request, known: Reservation | Refusal) -> bool:
    """Return whether a request equals a known one, as planned or as submitted."""
    planned = request.graph.expression
    if known.expression == format_expression(planned) or read_source(known.expression) == planned:
        return True
    if not (request.written and known.written):
        return False
    return read_source(request.written) == read_source(known.written)


def _is_offer(offer: str, text: str) -> bool:
    """Return whether a request is an offer, or the same offer with other times.

    A window relative to the submission has other times later, and so have its offers.
    """
    return offer == text or _without_times(offer) == _without_times(text)


def _without_times(text: str) -> Expression:
    return with_instants(read_source(text), lambda _: Offset(0), lambda _: Offset(1))


def blocked_problem(
    plan: Plan, id_: str, revision: int | None, transition: Transition
) -> ProblemDocument | None:
    """Return why a transition cannot happen to a reservation, or None."""
    number = plan.table.number_of(id_)
    if number is None:
        return no_reservation(plan, id_, transition)
    state = plan.table.state(number)
    if not may(state, transition):
        return _wrong_state(id_, state, transition)
    present = int(plan.table.meta[number]["revision"])
    if revision is not None and revision != present:
        detail = f"the reservation {id_!r} is at revision {present}, not {revision}"
        return _stale_revision(detail, str(present))
    return None


def no_reservation(plan: Plan, id_: str, transition: Transition) -> ProblemDocument:
    """Return why a transition cannot happen to an id without a reservation."""
    if plan.refusal(id_) is not None:
        return _wrong_state(id_, State.REFUSED, transition)
    return ProblemDocument("not_found", f"there is no reservation {id_!r}")


def _wrong_state(id_: str, state: State, transition: Transition) -> ProblemDocument:
    detail = f"the reservation {id_!r} is {state.value} and cannot be {_DONE_TO_IT[transition]}"
    return ProblemDocument("wrong_state", detail)


def _crowded_problem(plan: Plan, holder: str, tenant: str, most: int) -> ProblemDocument | None:
    """Return why a user may have no more holds for a tenant now, or None."""
    table = plan.table
    mine = sum(
        one.holder == holder and table.scope(number)[0] == tenant
        for number, one in table.holds.items()
    )
    if mine < most:
        return None
    detail = "you have the maximum number of holds; accept or release one"
    return ProblemDocument("too_many", detail, headers={"Retry-After": "10"})


def _not_held_problem(plan: Plan, id_: str) -> ProblemDocument | None:
    """Return why there is no hold to accept or release under an id, or None."""
    number = plan.table.number_of(id_)
    if number is not None and number in plan.table.holds:
        return None
    if number is None:
        return ProblemDocument("not_found", f"there is no hold {id_!r}")
    state = plan.table.state(number).value
    detail = f"the hold {id_!r} has ended: the reservation is {state}"
    return ProblemDocument("wrong_state", detail)


def cluster_tag(cluster: Cluster) -> str:
    """Return the entity tag of a cluster's description."""
    body = msgspec.json.encode(cluster_to_json(cluster))
    return hashlib.sha256(body).hexdigest()[:16]


def stale_cluster_problem(
    plan: Plan, tag: str | None, version: int | None = None
) -> ProblemDocument | None:
    """Return why a change does not apply to the current cluster or Plan, or None."""
    present = cluster_tag(plan.cluster)
    if tag not in (None, "*", present):
        detail = "the cluster's description has changed since that version"
    elif version not in (None, plan.version):
        detail = f"the Plan has changed since version {version}"
    else:
        return None
    return _stale_revision(detail, present)


def _stale_revision(detail: str, present: str) -> ProblemDocument:
    """Return the answer to a change for an older state; `present` is the current tag."""
    return ProblemDocument("stale_revision", detail, headers={"ETag": f'"{present}"'})
