"""Start, read, stop and forget comparisons of agents; one function for each call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from planner.agents import AGENT_NAMES
from planner.files.errors import FileProblem
from planner.files.workload_file import LineError, read_line
from rdl.durations import rfc3339_text
from rdl.errors import ProblemList, did_you_mean
from service.calls.jobs.jobs import JobKind
from service.clock import instant_of
from service.optimizing.comparison_job import ComparisonJob
from service.problems import ApiError, malformed_problem, problem
from service.store import OptimizationRow, TooManyError
from service.store.rows.optimizations import RUNNING

if TYPE_CHECKING:
    from service.runtime import Runtime

COMPARISONS: Final = JobKind("c-", "comparison", "comparison")

#: Most lines of a workload that is sent.
MOST_LINES: Final = 20_000


def start(runtime: Runtime, values: Mapping[str, Any]) -> dict[str, Any]:
    """Keep a request for a comparison and have it worked on; return it as it is shown.

    Raises
    ------
    ApiProblemError
        ``malformed`` with every problem, ``too_many`` where another one runs.
    """
    since_ms = runtime.resolve(values["since"]) or 0
    errors = _wrong_agents(values["agents"])
    if values["workload"] is not None:
        with runtime.reading() as plan:
            origin = plan.cluster.origin
        _check_lines(values["workload"], origin, errors)
    if errors:
        raise malformed_problem(errors)
    job = ComparisonJob(
        tuple(values["agents"]),
        values["time_limit"] / 1000,
        values["seed"],
        since_ms,
        values["workload"],
    )
    id_ = COMPARISONS.new_id(runtime)
    try:
        done = COMPARISONS.audited(runtime, "start", id_, " ".join(job.agents))
        runtime.optimizations.start(id_, job, done)
    except TooManyError as error:
        detail = "another comparison runs; wait for it, or stop it"
        raise problem("too_many", detail, headers={"Retry-After": "10"}) from error
    return comparison_json(COMPARISONS.row_of(runtime, id_))


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


def one(runtime: Runtime, id_: str) -> dict[str, Any]:
    """Return one comparison, with its result where it has one.

    Raises
    ------
    ApiProblemError
        ``not_found``.
    """
    return comparison_json(COMPARISONS.row_of(runtime, id_))


def page(runtime: Runtime) -> dict[str, Any]:
    """Return all that are remembered, newest first, without their results."""
    return {"comparisons": [comparison_json(row) for row in COMPARISONS.rows(runtime)]}


def stop(runtime: Runtime, id_: str) -> dict[str, Any]:
    """Ask one to end with what is done; one that is over stays as it is."""
    return comparison_json(COMPARISONS.stop(runtime, id_))


def comparison_json(row: OptimizationRow) -> dict[str, Any]:
    """Return a comparison as clients see it; of a workload that was sent only its length."""
    asked = msgspec.json.decode(row.document)
    lines = asked.pop("workload")
    result = msgspec.json.decode(row.result) if row.has_result else None
    if result is not None:
        result.pop("runs", None)  # for who goes on with it
    return {
        "id": row.id,
        "state": "stopping" if row.state == RUNNING and row.unwanted else row.state,
        "reason": row.reason,
        "created_at": rfc3339_text(instant_of(row.created_ms)),
        "ended_at": rfc3339_text(instant_of(row.ended_ms)) if row.ended_ms else None,
        "asked": {**asked, "workload_lines": None if lines is None else len(lines)},
        "phase": msgspec.json.decode(row.progress).get("phase", "waiting"),
        "result": result,
    }
