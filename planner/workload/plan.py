"""Plan a whole workload and write its plan file, in the same way for every client."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from planner.agent import (
    VALUE_TOLERANCE,
    Agent,
    BoundError,
    Limits,
    SolverAgent,
    SolverOutcome,
    SolverReport,
    is_proven,
    total_requested_value,
)
from planner.cluster.cluster import Cluster
from planner.files.cluster_writer import cluster_to_json
from planner.files.plan_document import PlanDocument
from planner.machines.warm_up import load_machine_kernels
from planner.metrics import (
    Metrics,
    RequestOutcome,
    WorkFigures,
    measure,
    outcome_of,
    work_figures,
)
from planner.offer_search import HOPELESS, OfferSearch
from planner.placement import Code, PlacementResult
from planner.plan.batch.admission import screen
from planner.plan.plan import Plan
from planner.plan.records.changes import UncompiledRequest
from planner.promise import PromiseLevel
from planner.request import Request
from planner.value import prices_of, score_of
from planner.workload.commit import change_of, commit_workload
from planner.workload.compile import CompiledWorkload
from planner.workload.placed_improvement import AGENT_SHARE, PlacedImprovement, improves
from planner.workload.warm_up import load_kernels
from rdl.compile.source import read_source
from rdl.expressions import Expression

#: The plan file's name for the order of requests of single agents: larger priority first.
SUBMITTED_ORDER = "submitted"

#: Refusals for lack of free capacity.
_FOR_ROOM = frozenset({Code.CAPACITY, Code.CAPACITY_OVER_TIME, Code.QUOTA, Code.TIME_LIMIT})

#: Default number of offers per refusal, and the maximum number of refusals that get offers by
#: default: a search costs several admissions, and thousands of refusals are seldom read one by one.
_DEFAULT_OFFERS: Final = 3
_FEW_REFUSALS: Final = 20


@dataclass(frozen=True, slots=True)
class Planned:
    """A workload planned from scratch.

    Attributes
    ----------
    plan
        The Plan after its one commit.
    results
        The outcome of each request, in order of `CompiledWorkload.requests`.
    metrics
        The plan's metrics.
    document
        The plan file.
    detail
        One sentence on how the agent's run ended, or empty.
    """

    plan: Plan
    results: tuple[PlacementResult, ...]
    metrics: Metrics
    document: PlanDocument
    detail: str = ""


def plan_workload(
    cluster: Cluster,
    workload: CompiledWorkload,
    agent: Agent,
    limits: Limits | None = None,
    *,
    timer: Callable[[], float] = time.perf_counter,
) -> PlanDocument:
    """Plan a workload on an empty Plan and return the plan file.

    Parameters
    ----------
    timer
        Monotonic seconds; measures `runtime_ms`.
    """
    return plan_from_nothing(cluster, workload, agent, limits, timer=timer).document


def plan_from_nothing(
    cluster: Cluster,
    workload: CompiledWorkload,
    agent: Agent,
    limits: Limits | None = None,
    *,
    timer: Callable[[], float] = time.perf_counter,
) -> Planned:
    """Plan a workload on an empty Plan; see :func:`plan_workload`."""
    plan = Plan(cluster, workload.grid)
    requests = workload.requests
    screened = [screen(plan, request) for request in requests]
    asked = [r for r, refused in zip(requests, screened, strict=True) if refused is None]
    load_kernels()
    if cluster.promise is PromiseLevel.PLACED:
        load_machine_kernels()
    limits = limits or Limits()
    searched = improves(agent, cluster, requests)
    started, began = timer(), time.monotonic()
    placed, report = _answers(
        agent, asked, plan, _agent_limits(limits, agent) if searched else limits
    )
    runtime_ms = (timer() - started) * 1000
    bound = _bound(report, asked, placed, plan)
    answers = iter(placed)
    pooled = [next(answers) if refused is None else refused for refused in screened]
    improvement = None
    if searched:
        proven = None if report is None else report.bound
        left = _time_left(limits, time.monotonic() - began)
        improvement = PlacedImprovement(workload, agent, left, proven, timer)
    is_over = _over_at(limits, began)
    results = commit_workload(plan, workload, pooled, agent, improvement, is_over)
    runtime_ms += 0.0 if improvement is None else 1000 * improvement.taken_s
    outcomes = _outcomes(workload, results, cluster)
    loss = _machine_loss(workload, pooled, results, cluster)
    metrics = measure(
        outcomes,
        cluster.nominal,
        plan.grid.horizon,
        runtime_ms=runtime_ms,
        bound=bound,
        status=_status(results) if report is None else _proven_status(report, loss),
        prices=prices_of(cluster, plan.grid),
    )
    metrics = replace(metrics, machine_loss=loss)
    document = document_of(plan, agent.name, SUBMITTED_ORDER, metrics)
    told = [] if report is None or not report.detail else [report.detail]
    if loss is not None and loss > 0:
        told.append(
            f"machines hold {100 * (1 - loss):.1f} % of the value that totals have capacity for"
        )
    return Planned(plan, tuple(results), metrics, document, "; ".join(told))


def plan_by_arrival(
    cluster: Cluster,
    workload: CompiledWorkload,
    agent: Agent,
    limits: Limits | None = None,
    *,
    timer: Callable[[], float] = time.perf_counter,
) -> Planned:
    """Plan a workload one request at a time, in order of submission, as a server does.

    Accepted requests keep their places, and no request is known before its turn. The remaining time
    is shared among the remaining requests. No bound is computed.
    """
    plan, limits = Plan(cluster, workload.grid), limits or Limits()
    load_kernels()
    if cluster.promise is PromiseLevel.PLACED:
        load_machine_kernels()
    started, requests = timer(), workload.requests
    order = sorted(range(len(requests)), key=lambda index: requests[index].submitted_ms)
    results = [PlacementResult(Code.TIME_LIMIT, "the comparison was stopped")] * len(requests)
    for done, index in enumerate(order):
        if limits.stop is not None and limits.stop():
            break
        one = replace(
            workload,
            requests=(requests[index],),
            positions=(workload.positions[index],),
            refusals=(),
        )
        refused = screen(plan, requests[index])
        left = _time_left(limits, timer() - started).time_s
        own = replace(limits, time_s=None if left is None else left / (len(order) - done))
        answers = [refused] if refused else _answers(agent, one.requests, plan, own)[0]
        [results[index]] = commit_workload(plan, one, answers, agent)
    commit_workload(plan, replace(workload, requests=(), positions=()), [], agent)
    metrics = measure(
        _outcomes(workload, results, cluster),
        cluster.nominal,
        plan.grid.horizon,
        runtime_ms=(timer() - started) * 1000,
        status=_status(results),
        prices=prices_of(cluster, plan.grid),
    )
    document = document_of(plan, agent.name, SUBMITTED_ORDER, metrics)
    return Planned(plan, tuple(results), metrics, document)


def _agent_limits(limits: Limits, agent: Agent) -> Limits:
    """Return the limits of an agent whose plan is improved on machines afterwards."""
    whole_s, progress = limits.time_s, limits.progress
    if whole_s is None:
        return limits
    if isinstance(agent, SolverAgent) and progress is not None:
        return replace(
            limits,
            time_s=AGENT_SHARE * whole_s,
            progress=lambda done, _: progress(done, max(1, int(whole_s))),  # seconds of both phases
        )
    return replace(limits, time_s=AGENT_SHARE * whole_s)


def _over_at(limits: Limits, began: float) -> Callable[[], bool]:
    """Return a function that returns whether the time of a run is over or it was stopped."""
    until = math.inf if limits.time_s is None else began + limits.time_s

    def is_over() -> bool:
        return time.monotonic() >= until or (limits.stop is not None and limits.stop())

    return is_over


def _time_left(limits: Limits, elapsed_s: float) -> Limits:
    if limits.time_s is None:
        return limits
    return replace(limits, time_s=max(0.0, limits.time_s - elapsed_s))


def _outcomes(
    workload: CompiledWorkload, results: Sequence[PlacementResult], cluster: Cluster
) -> list[RequestOutcome]:
    """Return the outcome of every line for the metrics."""
    outcomes = [
        outcome_of(request, result, cluster.reference)
        for request, result in zip(workload.requests, results, strict=True)
    ]
    refused = (RequestOutcome(one.line.weight, 0.0, accepted=False) for one in workload.refusals)
    return [*outcomes, *refused]


def _bound(
    report: SolverReport | None,
    asked: Sequence[Request],
    placed: Sequence[PlacementResult],
    plan: Plan,
) -> float | None:
    """Return the agent's bound; if it proves none, a quick bound of the requests.

    Raises
    ------
    BoundError
        If the quick bound is below the value of the agent's plan: a bug that must not be hidden.
    """
    if report is not None or not asked:
        return None if report is None else report.bound
    from planner.agents.quick_bound import quick_bound  # compiled loops: import only on use

    view = plan.view()
    value = score_of(asked, placed, view.reference)[0]
    found = quick_bound(asked, view, value)
    requested = total_requested_value(asked, view.reference)
    if found.value < value and not is_proven(found.value, value, requested):
        raise BoundError(f"the bound {found.value} lies below the plan's value {value}")
    return max(found.value, value)


def _machine_loss(
    workload: CompiledWorkload,
    pooled: Sequence[PlacementResult],
    results: Sequence[PlacementResult],
    cluster: Cluster,
) -> float | None:
    """Return the fraction of a pooled plan's value that does not fit the machines.

    Requests that the Plan refuses by a rule count in neither; requests without capacity because
    another one was placed elsewhere to get machines count as lost. None if no machines are
    promised, or nothing is placed.
    """
    levels = (request.promise or cluster.promise for request in workload.requests)
    if all(level is PromiseLevel.POOLED for level in levels):
        return None
    before = [
        old if not old.placed or result.placed or result.code in _FOR_ROOM else result
        for old, result in zip(pooled, results, strict=True)
    ]
    value = _value(_outcomes(workload, results, cluster))
    whole = _value(_outcomes(workload, before, cluster))
    return 1 - value / whole if whole > 0 else None


def _value(outcomes: Sequence[RequestOutcome]) -> float:
    taken = (one for one in outcomes if one.accepted)
    return math.fsum(one.weight * one.size * one.worth for one in taken)


def _proven_status(report: SolverReport, loss: float | None) -> str:
    """Return the status of a solver: a proof for totals does not apply if machines fit less."""
    if report.status == SolverOutcome.OPTIMAL and loss is not None and loss > VALUE_TOLERANCE:
        return SolverOutcome.FEASIBLE.value
    return report.status


def _status(results: Sequence[PlacementResult]) -> str:
    """Return the status of an agent that proves nothing."""
    cut = any(result.code is Code.TIME_LIMIT for result in results)
    return SolverOutcome.STOPPED.value if cut else "placed"


def document_of(plan: Plan, agent: str, order: str, metrics: Metrics) -> PlanDocument:
    """Return the plan file of a Plan."""
    grid = plan.grid
    return PlanDocument(
        cluster_to_json(plan.cluster),
        plan.version,
        grid.seconds(1),
        agent,
        order,
        tuple(one.to_json(grid) for one in plan.reservations()),
        tuple(one.to_json(grid) for one in plan.refusals),
        metrics.to_json(),
        grid.seconds(plan.now),
    )


def work_of(document: PlanDocument) -> WorkFigures:
    """Return the hours, utilisation and waits of the accepted requests of a plan."""
    cluster = document.read_cluster()
    return work_figures(document.reservations, cluster.nominal, cluster.grid())


def _answers(
    agent: Agent, asked: Sequence[Request], plan: Plan, limits: Limits
) -> tuple[Sequence[PlacementResult], SolverReport | None]:
    """Run the agent; a solver also returns its bound and status."""
    if not asked:
        return (), None
    if isinstance(agent, SolverAgent):
        return agent.solve(asked, plan.view(), limits)
    return agent.plan(asked, plan.view(), limits), None


__all__ = [
    "Planned",
    "change_of",
    "document_of",
    "plan_by_arrival",
    "plan_from_nothing",
    "plan_workload",
    "work_of",
]


def with_offers(
    planned: Planned,
    workload: CompiledWorkload,
    agent: Agent,
    most: int | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> PlanDocument:
    """Return the plan file with offers for each refusal that has any.

    Each single offer is acceptable in the plan file's version; two of them together may not be.

    Parameters
    ----------
    most
        Maximum number of offers per refusal; None means `_DEFAULT_OFFERS` if at most
        `_FEW_REFUSALS` requests were refused, else 0.
    stop
        Polled before each trial; True ends the search.
    """
    document = planned.document
    if most is None:
        most = _DEFAULT_OFFERS if len(document.refusals) <= _FEW_REFUSALS else 0
    if most == 0:
        return document
    search = OfferSearch.of(planned.plan, stop, [None, *(r.promise for r in workload.requests)])
    found = {
        asked.id: search.offers(asked, expression, agent, most)
        for asked, expression in _helpable(planned, workload)
    }
    refusals = tuple(
        {**refusal, "offers": list(found.get(refusal["id"], ()))} for refusal in document.refusals
    )
    return replace(document, refusals=refusals)


def _helpable(
    planned: Planned, workload: CompiledWorkload
) -> Iterator[tuple[Request | UncompiledRequest, Expression]]:
    """Yield every refused line that an offer may help, not malformed lines or duplicate ids."""
    for request, result in zip(workload.requests, planned.results, strict=True):
        if result.code is not None and result.code not in HOPELESS:
            yield request, request.graph.expression
    for one in workload.refusals:
        if one.code not in HOPELESS:
            yield one.request, read_source(one.line.source)
