"""Plan a whole workload and write down what came of it, for every client alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from planner.agent import Agent, Limits, SolverAgent, SolverOutcome, SolverReport
from planner.agents import DEFAULT_AGENT, agent_named
from planner.cluster import Cluster
from planner.files.cluster_writer import cluster_to_json
from planner.files.plan_document import PlanDocument
from planner.machines.warm_up import load_machine_kernels
from planner.metrics import Metrics, RequestOutcome, measure, outcome_of
from planner.placement import Code, PlacementResult
from planner.plan.admission import screen
from planner.plan.changes import Admit, Change, Committed, Refuse
from planner.plan.plan import Plan
from planner.promise import PromiseLevel
from planner.request import Request
from planner.value import prices_of
from planner.workload.compile import CompiledWorkload
from planner.workload.warm_up import load_kernels

#: How single agents take requests, larger priority first, in the word of plan files.
SUBMITTED_ORDER = "submitted"


@dataclass(frozen=True, slots=True)
class Planned:
    """A workload planned from nothing.

    Attributes
    ----------
    plan
        The Plan after its one commit.
    results
        What became of each request, in order of `CompiledWorkload.requests`.
    metrics
        The figures.
    document
        The plan file.
    detail
        One sentence on how the agent's run ended, where there is something to say.
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
        Seconds that only move forward; measures `runtime_ms`.
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
    started = timer()
    placed, report = _answers(agent, asked, plan, limits or Limits())
    runtime_ms = (timer() - started) * 1000
    answers = iter(placed)
    results = [next(answers) if refused is None else refused for refused in screened]
    results = _commit(plan, workload, results, agent)
    outcomes = [
        outcome_of(request, result, cluster.nominal)
        for request, result in zip(requests, results, strict=True)
    ]
    outcomes += [RequestOutcome(one.line.weight, 0.0, accepted=False) for one in workload.refusals]
    metrics = measure(
        outcomes,
        cluster.nominal,
        plan.grid.horizon,
        runtime_ms=runtime_ms,
        bound=None if report is None else report.bound,
        status=_status(results) if report is None else report.status,
        prices=prices_of(cluster, plan.grid),
    )
    document = document_of(plan, agent.name, SUBMITTED_ORDER, metrics)
    detail = "" if report is None else report.detail
    return Planned(plan, tuple(results), metrics, document, detail)


def _status(results: Sequence[PlacementResult]) -> str:
    """Return what there is to say of an agent that proves nothing."""
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
    )


def change_of(
    request: Request, result: PlacementResult, agent: str, planner: Agent | None = None
) -> Change:
    """Return the change that an answer asks for.

    Parameters
    ----------
    planner
        Asked once more where machines cannot hold what was placed.
    """
    if result.code is None:
        return Admit(request, result, agent, planner=planner)
    return Refuse(request, result.code, result.detail, result.binding)


def _commit(
    plan: Plan, workload: CompiledWorkload, results: Sequence[PlacementResult], agent: Agent
) -> list[PlacementResult]:
    """Commit every answer in the order of the lines; return the answers as they ended.

    A placement that the Plan does not take (a limit on the number of reservations, or machines,
    which agents do not see) becomes a refusal with the Plan's reason.
    """
    final = {request.id: result for request, result in zip(workload.requests, results, strict=True)}
    prepared = plan.prepare(_changes(workload, final, agent), plan.version)
    if prepared.conflicts:
        for one in prepared.conflicts:
            assert one.id is not None
            final[one.id] = PlacementResult(one.code, one.detail, binding=one.binding)
        prepared = plan.prepare(_changes(workload, final, agent), plan.version)
    for outcome in prepared.outcomes:
        if isinstance(outcome, Committed) and outcome.id is not None and outcome.result is not None:
            final[outcome.id] = outcome.result
    if prepared.record is not None:
        plan.apply(prepared.record, prepared.takings)
    return [final[request.id] for request in workload.requests]


def _changes(
    workload: CompiledWorkload, results: Mapping[str, PlacementResult], agent: Agent
) -> list[Change]:
    """Return one change a line, in the order of the lines."""
    planner = agent_named(DEFAULT_AGENT) if isinstance(agent, SolverAgent) else agent
    changes: list[tuple[int, Change]] = [
        (position, change_of(request, results[request.id], agent.name, planner))
        for request, position in zip(workload.requests, workload.positions, strict=True)
    ]
    changes += [
        (one.position, Refuse(one.request, one.code, str(one.error))) for one in workload.refusals
    ]
    changes.sort(key=lambda entry: entry[0])
    return [change for _, change in changes]


def _answers(
    agent: Agent, asked: Sequence[Request], plan: Plan, limits: Limits
) -> tuple[Sequence[PlacementResult], SolverReport | None]:
    """Ask the agent; one that solves tells its bound and status too."""
    if not asked:
        return (), None
    if isinstance(agent, SolverAgent):
        return agent.solve(asked, plan.view(), limits)
    return agent.plan(asked, plan.view(), limits), None


__all__ = ["Planned", "change_of", "document_of", "plan_from_nothing", "plan_workload"]
