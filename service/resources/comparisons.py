"""Comparisons: run several agents on the Plan's requests, or on a workload in the body."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Final

import msgspec

from planner.agents import AGENT_NAMES, COMPARED_AGENTS
from planner.files.errors import FileProblem
from planner.files.workload_file import LineError, read_line
from planner.placement import Code
from rdl.durations import rfc3339_text
from rdl.errors import ProblemList, did_you_mean
from service.access.user import Role
from service.clock import instant_of
from service.http.kinds import BodyTime, MemberKind, integer
from service.http.kit import Answer, Calls, Input, Instant, doc, one_of
from service.http.route import links_from
from service.jobs.job import ComparisonJob
from service.problems import ApiError, FieldError, malformed_problem, problem
from service.resources.optimizations import JobKind, TimeLimit
from service.runtime import Runtime
from service.store import OptimizationRow, TooManyError
from service.store.optimizations import RUNNING

#: The most agents of one comparison, and the most lines of a workload in the body.
_MOST_AGENTS: Final = 14
_MOST_LINES: Final = 20_000

#: Default agents of a comparison.
_USUAL: Final = tuple(COMPARED_AGENTS)


def _read_agents(value: object) -> tuple[str, ...]:
    named = isinstance(value, list) and all(isinstance(one, str) for one in value)
    if not isinstance(value, list) or not named or not 0 < len(value) <= _MOST_AGENTS:
        raise FieldError("write an array of names of agents")
    return tuple(value)


def _read_lines(value: object) -> list[Any]:
    if not isinstance(value, list) or not 0 < len(value) <= _MOST_LINES:
        raise FieldError(f"write an array of 1 to {_MOST_LINES} lines of a workload")
    return value


_AGENTS: Final = {
    "type": "array",
    "items": {"type": "string"},
    "minItems": 1,
    "maxItems": _MOST_AGENTS,
    "default": list(_USUAL),
    "examples": [list(_USUAL)],
}
_LINES: Final = {
    "type": "array",
    "items": {"type": "object"},
    "minItems": 1,
    "maxItems": _MOST_LINES,
}


class ComparisonRequest(Input):
    agents: Annotated[
        tuple[str, ...], MemberKind(_AGENTS, _read_agents), doc("Distinct names of agents.")
    ] = _USUAL
    time_limit: Annotated[
        TimeLimit, doc("Stop each agent after this long and keep its best Plan.")
    ] = 60_000
    seed: Annotated[int, integer(0, 2**31 - 1), doc("Seed of the random choices.")] = 0
    since: Annotated[
        BodyTime | None, doc("Only requests of the Plan that were submitted from this time on.")
    ] = None
    workload: Annotated[
        list[Any] | None,
        MemberKind(_LINES, _read_lines),
        doc("Lines of a workload file; default: the requests in the Plan."),
    ] = None


class ComparisonView(Answer):
    id: str
    state: Annotated[
        str,
        one_of(("running", "stopping", "finished", "stopped", "interrupted", "failed", "lost")),
    ]
    reason: Annotated[str, doc("Reason for the state.")]
    created_at: Instant
    ended_at: Instant | None
    asked: dict[str, Any]
    phase: Annotated[str, doc("Progress, as text.")]
    result: Annotated[
        dict[str, Any] | None,
        doc(
            "baseline, bound_by (the agent that gave the least bound), agents (basis, metrics, "
            "work, relative to the baseline, differences), disagreements: what `agenda compare -o "
            "json` prints; with requests, how many were planned, based_on, the version of the "
            "Plan, and skylines: the allocations of each agent's Plan over time, by resource and "
            "tenant, on one axis. Basis is plan (the current Plan, with value and bound of "
            "/v1/plan/bound), arrival (requests answered one by one, as a server does) or "
            "hindsight (all requests known in advance)."
        ),
    ]


class ComparisonList(Answer):
    comparisons: list[ComparisonView]


_COMPARISONS: Final = JobKind("c-", "comparison", "comparison")

calls = Calls()


@calls.post(
    "/v1/comparisons",
    "It has begun.",
    status=202,
    fails=(Code.MALFORMED, "too_many"),
    headers={"Location": "Path of the job."},
    links=links_from("$response.body#/id", "getComparison", "stopComparison", "forgetComparison"),
    examples={"two heuristics": {"agents": ["gree", "headroom"], "time_limit": 5}},
    role=Role.OPERATOR,
)
def start_comparison(runtime: Runtime, body: ComparisonRequest) -> ComparisonView:
    """Plan the same requests from scratch with several agents, alongside the service."""
    since_ms = runtime.resolve(body.since) or 0
    errors = _wrong_agents(body.agents)
    if body.workload is not None:
        with runtime.reading() as plan:
            origin = plan.cluster.origin
        _check_lines(body.workload, origin, errors)
    if errors:
        raise malformed_problem(errors)
    job = ComparisonJob(body.agents, body.time_limit / 1000, body.seed, since_ms, body.workload)
    id_ = _COMPARISONS.new_id(runtime)
    try:
        done = _COMPARISONS.audited(runtime, "start", id_, " ".join(job.agents))
        runtime.optimizations.start(id_, job, done)
    except TooManyError as error:
        detail = "another comparison runs; wait for it, or stop it"
        raise problem("too_many", detail, headers={"Retry-After": "10"}) from error
    return _shown(_COMPARISONS.row_of(runtime, id_))


@calls.get("/v1/comparisons", "The comparisons.", role=Role.OPERATOR)
def list_comparisons(runtime: Runtime) -> ComparisonList:
    """Stored comparisons, newest first, without their results."""
    return ComparisonList(comparisons=[_shown(row) for row in _COMPARISONS.rows(runtime)])


@calls.get("/v1/comparisons/{id}", "The comparison.", fails=("not_found",), role=Role.OPERATOR)
def get_comparison(runtime: Runtime, id_: str) -> ComparisonView:
    """One comparison: its progress and result."""
    return _shown(_COMPARISONS.row_of(runtime, id_))


@calls.post(
    "/v1/comparisons/{id}/stop",
    "The comparison stops, or has ended already.",
    status=202,
    fails=("not_found",),
    role=Role.OPERATOR,
)
def stop_comparison(runtime: Runtime, id_: str) -> ComparisonView:
    """Stop a comparison: the running agent returns its best plan, and the remaining agents are
    skipped."""
    return _shown(_COMPARISONS.stop(runtime, id_))


@calls.delete(
    "/v1/comparisons/{id}",
    "The comparison is deleted.",
    status=204,
    fails=("not_found",),
    role=Role.OPERATOR,
)
def forget_comparison(runtime: Runtime, id_: str) -> None:
    """Delete a comparison and its result; a running one is stopped."""
    _COMPARISONS.forget(runtime, id_)


def _wrong_agents(agents: Sequence[str]) -> ProblemList[ApiError]:
    errors: ProblemList[ApiError] = ProblemList()
    for index, name in enumerate(agents):
        if name not in AGENT_NAMES:
            fix = did_you_mean(name, AGENT_NAMES)
            told = f"there is no agent {name!r}"
            errors.append(ApiError(told, pointer=f"/agents/{index}", fix=fix))
        elif name in agents[:index]:
            errors.append(ApiError(f"{name!r} is named twice", pointer=f"/agents/{index}"))
    return errors


def _check_lines(lines: Sequence[Any], origin: Any, errors: ProblemList[ApiError]) -> None:
    ids: set[str] = set()
    for index, line in enumerate(lines):
        try:
            id_ = read_line(line, index + 1, origin).id
        except LineError as error:
            at = f"/workload/{index}"
            errors.extend(error.problems.each(partial(_line_error, at)))
            continue
        if id_ in ids:
            errors.append(ApiError(f"the id {id_!r} is given twice", pointer=f"/workload/{index}"))
        ids.add(id_)


def _line_error(at: str, one: FileProblem) -> ApiError:
    return ApiError(one.message, pointer=f"{at}{one.pointer or ''}", fix=one.fix)


def _shown(row: OptimizationRow) -> ComparisonView:
    """Return a comparison as clients see it; a workload is replaced by its length."""
    asked = msgspec.json.decode(row.document)
    lines = asked.pop("workload")
    result = msgspec.json.decode(row.result) if row.has_result else None
    if result is not None:
        result.pop("runs", None)  # only needed to continue the comparison
    return ComparisonView(
        id=row.id,
        state="stopping" if row.state == RUNNING and row.unwanted else row.state,
        reason=row.reason,
        created_at=rfc3339_text(instant_of(row.created_ms)),
        ended_at=rfc3339_text(instant_of(row.ended_ms)) if row.ended_ms else None,
        asked={**asked, "workload_lines": None if lines is None else len(lines)},
        phase=msgspec.json.decode(row.progress).get("phase", "waiting"),
        result=result,
    )
