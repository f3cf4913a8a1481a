"""Compare agents on one workload: the metrics, and the outcome of each request."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from planner.agent import Agent, Limits, SolverOutcome
from planner.agents import AGENT_NAMES, agent_named
from planner.cluster.cluster import Cluster
from planner.files.cluster_writer import cluster_to_json
from planner.files.plan_document import PlanDocument
from planner.metrics import Metrics, RequestOutcome, measure
from planner.request import Request
from planner.reservations.state import State
from planner.value import size_of
from planner.workload.compile import CompiledWorkload
from planner.workload.diff import COMPARED, PlanDiff, plan_diff
from planner.workload.plan import Planned, plan_by_arrival, plan_from_nothing, work_of
from rdl.text.formatter import format_expression
from rdl.time_grid import TimeGrid, seconds_of
from rdl.work_graph import ATOM, BUNDLE, KIND, MAX_HEIGHT, SHIFT_COUNT

_LOG = logging.getLogger(__name__)

#: Status of an agent that was not run.
NOT_RUN = "not_run"

#: Metrics shown relative to the baseline.
RELATIVE = COMPARED

#: What a run knew in advance: all requests, each on its arrival, or none (the current Plan, and the
#: record of a log).
HINDSIGHT, ARRIVAL, AS_IT_STANDS, RECORDED = "hindsight", "arrival", "plan", "recorded"

#: Suffix of the agent's name in a row planned by arrival.
BY_ARRIVAL = ", by arrival"

#: The baseline if it takes part, else the first agent.
BASELINE = AGENT_NAMES[0]

#: Name used instead of an agent's.
_RECORDED_NAME = "as recorded"

#: Code of a request without a run in the log.
NOT_RECORDED = "not_recorded"


@dataclass(frozen=True, slots=True)
class AgentRun:
    """The result of one agent on the workload.

    Attributes
    ----------
    status
        How its run ended: ``placed`` or a value of `SolverOutcome`; ``not_run`` if the comparison
        was stopped before its turn.
    detail
        One sentence on the status, or empty.
    metrics, document
        None if there is no plan: the agent failed or was not run.
    relative
        Metric divided by the baseline's; None if either is missing or the baseline's is 0.
    differences
        From the baseline's plan to this one; None for the baseline and without a plan.
    basis
        ``hindsight``: planned with all requests known. ``arrival``: each request answered in the
        order of submission, before any later one was known. ``plan``: the current Plan.
        ``recorded``: when each job ran according to the log.
    """

    agent: str
    status: str
    detail: str = ""
    metrics: Metrics | None = None
    document: PlanDocument | None = None
    relative: Mapping[str, float | None] = field(default_factory=dict)
    differences: PlanDiff | None = None
    basis: str = HINDSIGHT

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON, without the whole plan."""
        return {
            "agent": self.agent,
            "basis": self.basis,
            "status": self.status,
            "detail": self.detail,
            "order": None if self.document is None else self.document.order,
            "metrics": None if self.metrics is None else self.metrics.to_json(),
            "work": None if self.document is None else work_of(self.document).to_json(),
            "relative": dict(self.relative),
            "differences": None if self.differences is None else self.differences.to_json(),
            "left_out": [one.to_json() for one in self.left_out()],
        }

    def left_out(self) -> list[LeftOutRequest]:
        """Return the requests not accepted, with reasons, in workload order; empty without a plan.

        Reasons refer to the agent's final plan.
        """
        refusals = () if self.document is None else self.document.to_json()["refusals"]
        return [LeftOutRequest(x["id"], x["tenant"], x["code"], x["detail"]) for x in refusals]


@dataclass(frozen=True, slots=True)
class LeftOutRequest:
    """A request that an agent did not accept: its code, and one sentence for users."""

    id: str
    tenant: str
    code: str
    detail: str

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {"id": self.id, "tenant": self.tenant, "code": self.code, "detail": self.detail}


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A request with different answers by different agents.

    Attributes
    ----------
    answers
        Per run: ``accepted``, the code of the refusal, or None without a plan.
    """

    id: str
    tenant: str
    weight: float
    answers: tuple[str | None, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "id": self.id,
            "tenant": self.tenant,
            "weight": self.weight,
            "answers": list(self.answers),
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """All runs, in the requested order.

    Attributes
    ----------
    bound_by
        The agent with the lowest bound; among equals one that proved its own plan optimal. None if
        there is no bound.
    """

    baseline: str
    runs: tuple[AgentRun, ...]
    bound_by: str | None = None

    def run(self, agent: str) -> AgentRun:
        """Return the run of an agent.

        Raises
        ------
        KeyError
            If it did not take part.
        """
        for one in self.runs:
            if one.agent == agent:
                return one
        raise KeyError(agent)

    def disagreements(self) -> list[Disagreement]:
        """Return the requests that some agents accept and others refuse, in order of their ids."""
        asked: dict[str, tuple[str, float]] = {}
        answers: list[dict[str, str]] = []
        for run in self.runs:
            answers.append({})
            if run.document is None or run.basis == RECORDED:
                continue
            plain = run.document.to_json()
            for entry in (*plain["reservations"], *plain["refusals"]):
                asked[entry["id"]] = entry["tenant"], entry["weight"]
                answers[-1][entry["id"]] = entry.get("code") or "accepted"
        found = [
            Disagreement(id_, *of, tuple(answer.get(id_) for answer in answers))
            for id_, of in sorted(asked.items())
        ]
        return [
            one for one in found if len({a == "accepted" for a in one.answers if a is not None}) > 1
        ]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return {
            "baseline": self.baseline,
            "bound_by": self.bound_by,
            "agents": [run.to_json() for run in self.runs],
            "disagreements": [one.to_json() for one in self.disagreements()],
        }


def compare(
    cluster: Cluster,
    workload: CompiledWorkload,
    agents: Sequence[str | Agent],
    limits: Limits | None = None,
    *,
    times: Mapping[str, float] | None = None,
    timer: Callable[[], float] = time.perf_counter,
) -> Comparison:
    """Plan the same workload with each agent on an empty Plan.

    The row of an agent that fails says so. After a stop the current agent ends with its best plan
    so far, and the remaining ones are not run.

    Parameters
    ----------
    agents
        Names or agents, at least one, each once.
    limits
        Limits of each agent.
    times
        Seconds for agents by name, instead of `limits.time_s`.

    Raises
    ------
    ValueError
        If there is no agent, or one is unknown or named twice.
    """
    chosen = [agent_named(one) if isinstance(one, str) else one for one in agents]
    names = [agent.name for agent in chosen]
    if not names or len(set(names)) < len(names):
        raise ValueError("name at least one agent, each once")
    own = limits or Limits()
    runs: list[AgentRun] = []
    for agent in chosen:
        allowed = (times or {}).get(agent.name, own.time_s)
        if runs and own.stop is not None and own.stop():
            runs.append(run_without_turn(agent.name))
            continue
        runs.append(run_agent(cluster, workload, agent, replace(own, time_s=allowed), timer))
    return comparison_of(runs, recorded_run(cluster, workload))


def recorded_run(cluster: Cluster, workload: CompiledWorkload) -> AgentRun | None:
    """Return the row of the recorded runs; None if no line has a recorded run."""
    found = _recorded_plan(cluster, workload)
    return (
        None
        if found is None
        else AgentRun(_RECORDED_NAME, found[0].status, "", *found, basis=RECORDED)
    )


def comparison_of(runs: Sequence[AgentRun], recorded: AgentRun | None = None) -> Comparison:
    """Combine runs on one workload into a comparison, wherever each was made.

    A bound applies to every plan of the workload, so each plan is compared with the lowest one;
    except the recorded one, which ignores windows: it comes last, without a bound.
    """
    bound_by = _agent_of_least_bound(runs)
    runs = _with_least_bound(runs)
    names = [run.agent for run in runs]
    base = names.index(BASELINE) if BASELINE in names else 0
    whole = [*runs, recorded] if recorded is not None else runs
    return Comparison(names[base], tuple(_beside(run, runs[base]) for run in whole), bound_by)


def _agent_of_least_bound(runs: Sequence[AgentRun]) -> str | None:
    """Return the agent with the lowest bound, preferably one whose own plan reaches it."""
    known = [
        (one.metrics.bound, one.status != SolverOutcome.OPTIMAL.value, place)
        for place, one in enumerate(runs)
        if one.metrics is not None and one.metrics.bound is not None
    ]
    return runs[min(known)[2]].agent if known else None


def _with_least_bound(runs: Sequence[AgentRun]) -> list[AgentRun]:
    """Return the runs with the lowest bound of all, and the gaps to it."""
    known = [one.metrics.bound for one in runs if one.metrics and one.metrics.bound is not None]
    if not known:
        return list(runs)
    return [
        run
        if run.metrics is None
        else replace(run, metrics=run.metrics.with_bound(min(known), run.metrics.status))
        for run in runs
    ]


def run_without_turn(agent: str) -> AgentRun:
    """Return the row of an agent that was not run."""
    return AgentRun(agent, NOT_RUN, "the comparison was stopped before its turn")


def run_agent(
    cluster: Cluster,
    workload: CompiledWorkload,
    agent: Agent,
    limits: Limits,
    timer: Callable[[], float] = time.perf_counter,
    *,
    basis: str = HINDSIGHT,
) -> AgentRun:
    """Plan a workload with one agent on an empty Plan; the row of a failed agent says so."""
    plan = plan_by_arrival if basis == ARRIVAL else plan_from_nothing
    name = agent.name + BY_ARRIVAL if basis == ARRIVAL else agent.name
    try:
        done: Planned = plan(cluster, workload, agent, limits, timer=timer)
    except Exception as error:  # noqa: BLE001 - one agent's fault must not cost the others' answers
        _LOG.error("agent %s broke", agent.name, exc_info=True)
        detail = f"the agent failed: {type(error).__name__}: {error}"
        return AgentRun(name, SolverOutcome.FAILED.value, detail, basis=basis)
    status, metrics = done.metrics.status, done.metrics
    return AgentRun(name, status, done.detail, metrics, done.document, basis=basis)


def _beside(run: AgentRun, base: AgentRun) -> AgentRun:
    """Return a run with its metrics and differences relative to the baseline."""
    if run.metrics is None or base.metrics is None:
        return replace(run, relative=dict.fromkeys(RELATIVE))
    assert run.document is not None
    assert base.document is not None
    differences = None if run is base else plan_diff(base.document, run.document)
    relative = relative_to(base.metrics, run.metrics)
    return replace(run, relative=relative, differences=differences)


def relative_to(base: Metrics, metrics: Metrics) -> dict[str, float | None]:
    """Return each metric divided by the baseline's."""
    found: dict[str, float | None] = {}
    for name in RELATIVE:
        whole, part = getattr(base, name), getattr(metrics, name)
        found[name] = None if not whole or part is None else part / whole
    return found


def _recorded_plan(
    cluster: Cluster, workload: CompiledWorkload
) -> tuple[Metrics, PlanDocument] | None:
    """Return metrics and plan file of the recorded runs, None if no line has a recorded run.

    A request that ran counts as accepted with its value, whenever it ended. Its bundles are
    allocated from its recorded start to its recorded end; the use of each part of a request with
    several parts is unknown, so such a request counts but has no allocation. Windows, capacity and
    policies do not apply: the plan is for reading, not for validation, and bounds do not apply to
    it.
    """
    if not workload.recorded:
        return None
    outcomes: list[RequestOutcome] = []
    ran: list[dict[str, Any]] = []
    never: list[dict[str, Any]] = []
    for request in workload.requests:
        size, run = size_of(request.graph, cluster.reference), workload.recorded.get(request.id)
        if run is None:
            outcomes.append(RequestOutcome(request.weight, size, accepted=False))
            never.append(_header(request.id, request) | _missing())
            continue
        atoms = _atoms(request, run)
        held = tuple(
            (request.graph.bundles[bundle], _steps(run, height, workload.grid))
            for bundle, height in atoms
        )
        outcomes.append(RequestOutcome(request.weight, size, accepted=True, held=held))
        ran.append(_header(request.id, request) | _entry(request, run, atoms))
    for one in workload.refusals:
        outcomes.append(RequestOutcome(one.line.weight, 0.0, accepted=False))
        never.append(_header(one.line.id, one.line) | _missing("its request cannot be read"))
    metrics = measure(outcomes, cluster.nominal, workload.grid.horizon, status="recorded")
    document = PlanDocument(
        cluster_to_json(cluster), 0, workload.grid.seconds(1), _RECORDED_NAME, "submitted",
        tuple(ran), tuple(never), metrics.to_json(),
    )  # fmt: skip
    return metrics, document


def _atoms(request: Request, run: tuple[int, int]) -> list[tuple[int, int]]:
    """Return (bundle index, bundles) of a run; empty if it has several parts or no duration."""
    atoms = [row for row in request.graph.vertices if row[KIND] == ATOM]
    if len(atoms) != 1 or int(atoms[0][SHIFT_COUNT]) != 1 or run[1] <= run[0]:
        return []
    return [(int(atoms[0][BUNDLE]), int(atoms[0][MAX_HEIGHT]))]


def _steps(run: tuple[int, int], height: int, grid: TimeGrid) -> np.ndarray[Any, Any]:
    first = run[0] // grid.step_ms
    return np.array([[first, max(first + 1, -(-run[1] // grid.step_ms)), height]], dtype=np.int64)


def _header(id_: str, of: Any) -> dict[str, Any]:
    return {
        "id": id_,
        "tenant": of.tenant,
        "queue": of.queue,
        "submitted": seconds_of(of.submitted_ms),
        "weight": float(of.weight),
        "priority": of.priority,
    }


def _entry(request: Request, run: tuple[int, int], atoms: list[tuple[int, int]]) -> dict[str, Any]:
    start, end = map(seconds_of, run)
    return {
        "state": State.COMPLETED.value,
        "revision": 1,
        "agent": _RECORDED_NAME,
        "expression": format_expression(request.graph.expression),
        "choices": {},
        "notes": [],
        "promise": "pooled",
        "atoms": [
            {
                "path": "",
                "bundle": request.graph.bundles[bundle].to_json(),
                "allocation": [[start, end, height]],
            }
            for bundle, height in atoms
        ],
    }


def _missing(detail: str = "the log has no run of this request") -> dict[str, Any]:
    return {"code": NOT_RECORDED, "detail": detail, "binding": None, "offers": []}
