"""Screen pending changes on the Plan, and let the agents place what they ask for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from planner.agent import Agent, Limits
from planner.agents import agent_named
from planner.offers.search import quick
from planner.placement import Code, PlacementResult
from planner.plan.batch.admission import rule_refusal, screen
from planner.plan.plan import Plan
from planner.plan.records.changes import (
    Admit,
    Cancel,
    Close,
    Conflict,
    Prepared,
    Reconfigure,
    Refuse,
    Update,
)
from planner.plan.records.holds import AcceptHold, EndHold
from planner.renegotiation.renegotiation import PreparedUpdate as PlannedUpdate
from planner.renegotiation.renegotiation import renegotiation_of
from planner.replanning.candidates import FOR_ROOM
from planner.reservations.state import Transition
from planner.view import PlanView
from rdl.compile.compiler import compile_expression
from rdl.errors import RdlError
from service.commits.changes.commands import (
    Admission,
    Cancellation,
    Closure,
    HoldAcceptance,
    HoldEnding,
    HoldPlacing,
    MissedTime,
    Reconfiguration,
    Renegotiation,
    RowRelease,
    UnusedTime,
)
from service.commits.changes.pending import PendingChange, context_of, refused_problem
from service.commits.screening.known_request import note_of_retry, same_reservation
from service.commits.screening.revision_check import (
    blocked_problem,
    crowded_problem,
    no_reservation,
    not_held_problem,
    stale_cluster_problem,
)
from service.problems import problem_of_rdl

_ALLOWED_ANEW: Final = (
    "whether requests are longer by their start delay (allow_start) has just changed; ask again"
)


@dataclass(frozen=True, slots=True)
class ScreenResult:
    """A pending change that an agent is asked about.

    Attributes
    ----------
    view
        For an admission: the Plan, frozen at its version.
    update, revision
        For a renegotiation: the prepared update, and the revision of the reservation.
    """

    draft: PendingChange
    view: PlanView | None = None
    update: PlannedUpdate | None = None
    revision: int = 0


def screen_changes(drafts: Sequence[PendingChange], plan: Plan) -> list[ScreenResult]:
    """Answer what needs no agent, turn what is plain into changes, and return the rest."""
    rest: list[ScreenResult] = []
    snapshot: PlanView = plan.snapshot()
    asked: Counter[tuple[str, str]] = Counter()  # holds of the same group, by holder and tenant
    for draft in drafts:
        if draft.ask is not None and not renew(draft, plan):
            continue
        match draft.command:
            case Admission():
                refused = _screen_request(plan, draft)
                if refused is not None:
                    _refuse(draft, refused)
                elif draft.answer is None:
                    rest.append(ScreenResult(draft, snapshot))
            case HoldPlacing(hold=hold, most=most):
                mine = (hold.holder, draft.command.ask.request.tenant)
                draft.answer = crowded_problem(plan, *mine, most - asked[mine])
                asked[mine] += 1
                refused = _screen_request(plan, draft) if draft.answer is None else None
                if refused is not None:
                    _refuse(draft, refused)
                elif draft.answer is None:
                    rest.append(ScreenResult(draft, snapshot))
            case HoldAcceptance(id=id_):
                draft.answer = not_held_problem(plan, id_)
                draft.change = AcceptHold(id_)
            case HoldEnding(id=id_, reason=reason, when_over=when_over):
                draft.answer = not_held_problem(plan, id_)
                draft.change = EndHold(id_, reason, when_over)
            case Renegotiation(revision=revision):
                id_ = draft.request.id
                draft.answer = blocked_problem(plan, id_, revision, Transition.RENEGOTIATE)
                if draft.answer is None:
                    present = int(plan.table.meta[plan.table.number_of(id_)]["revision"])
                    update = renegotiation_of(plan, id_, draft.request)
                    rest.append(ScreenResult(draft, update=update, revision=present))
            case Cancellation(id=id_, revision=revision):
                draft.answer = blocked_problem(plan, id_, revision, Transition.CANCEL)
                draft.change = Cancel(id_, revision)
            case Closure(id=id_, revision=revision):
                draft.answer = blocked_problem(plan, id_, revision, Transition.CLOSE)
                draft.change = Close(id_, revision)
            case RowRelease(change=change):
                draft.answer = blocked_problem(plan, change.id, change.revision, Transition.RELEASE)
                draft.change = change
            case MissedTime(change=change):
                draft.answer = blocked_problem(plan, change.id, change.revision, Transition.MISS)
                draft.change = change
            case UnusedTime(change=change):
                number = plan.table.number_of(change.id)
                if number is None:
                    draft.answer = no_reservation(plan, change.id, Transition.MISS)
                draft.change = change
            case Reconfiguration(cluster=cluster, tag=tag, version=version):
                draft.answer = stale_cluster_problem(plan, tag, version)
                draft.change = Reconfigure(cluster)
    return rest


def _screen_request(plan: Plan, draft: PendingChange) -> PlacementResult | None:
    """Return the refusal of a request that no agent needs to see, or answer what is known."""
    ask = draft.ask
    assert ask is not None
    draft.note = ""
    if not plan.knows(ask.request.id):
        return rule_refusal(plan, ask.request)
    if isinstance(draft.command, Admission):
        draft.answer = same_reservation(plan, ask)
    if draft.answer is not None:
        return None
    draft.note = note_of_retry(plan, ask)
    return rule_refusal(plan, ask.request) if draft.note else screen(plan, ask.request)


def renew(draft: PendingChange, plan: Plan) -> bool:
    """Compile a request again when the Plan's grid has moved on since it arrived.

    Return whether it can go on: not where the policy by which it was enlarged has changed.
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


def place(screened: Sequence[ScreenResult], limits_of: Callable[[str], Limits]) -> None:
    """Let the agents answer; this is the long part, and holds no lock.

    All admissions with one agent go to it together.

    Parameters
    ----------
    limits_of
        How long an agent of this name may take.
    """
    together: dict[str, list[ScreenResult]] = {}
    for one in screened:
        assert one.draft.ask is not None
        if one.update is None:
            together.setdefault(one.draft.ask.agent, []).append(one)
        else:
            name = one.draft.ask.agent
            agent = agent_named(name)
            _take_result(one, one.update.place(agent, limits_of(name)), name, quick(agent))
    for name, group in together.items():
        view = group[0].view
        assert view is not None
        requests = [one.draft.request for one in group]
        agent = agent_named(name)
        results = agent.plan(requests, view, limits_of(name))
        planner = quick(agent)
        for one, result in zip(group, results, strict=True):
            _take_result(one, result, name, planner)


def _take_result(one: ScreenResult, result: PlacementResult, agent: str, planner: Agent) -> None:
    """Make a change of what an agent found; `planner` tries it again on a newer Plan."""
    draft = one.draft
    if not result.placed:
        _refuse(draft, result)
    elif one.update is not None:
        id_, revision = draft.request.id, one.revision
        again = one.update.planner(planner)
        draft.change = Update(id_, revision, draft.request, result, agent, planner=again)
    else:
        draft.change = Admit(
            draft.request,
            result,
            agent,
            anew=bool(draft.note),
            planner=planner,
            note=draft.note,
            hold=draft.command.hold if isinstance(draft.command, HoldPlacing) else None,
        )


def refuse_for_machines(drafts: Sequence[PendingChange], prepared: Prepared) -> bool:
    """Refuse those that the pool has room for, and machines or an agent's limit have not.

    So are changes of which nothing may move and that find no room. Returns whether there are any.
    Another round would not help: machines were searched on the newest Plan, and the agent asked
    again; a limit leaves an agent no more wherever it looks.
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
    """A refused request is kept in the Plan; a refused renegotiation leaves all as it was."""
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
