"""Start, read, stop, apply, undo and delete optimisations; one function for each call."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from planner.plan.plan import Plan
from planner.reservations.state import LIVE
from rdl.durations import rfc3339_text
from rdl.errors import ProblemList, nearest
from service.calls.jobs.jobs import JobKind
from service.clock import instant_of
from service.optimizing.apply import apply_found, undo_applied
from service.optimizing.job import OptimizationJob
from service.problems import ApiError, malformed_problem, problem
from service.response import Response
from service.store import OptimizationRow, TooManyError
from service.store.rows.optimizations import APPLIED, INTERRUPTED, RUNNING, UNDONE

if TYPE_CHECKING:
    from service.runtime import Runtime

OPTIMIZATIONS: Final = JobKind("p-", "optimisation", "optimization")

#: Milliseconds after its time limit until which rows do not move unless somebody says otherwise:
#: for looking at what was found, and for applying it before time has passed over its rows.
_LOOKING_MS: Final = 300_000

#: States in which there is something to apply.
_FOUND: Final = ("finished", "stopped", INTERRUPTED, APPLIED)

#: Seconds that applying one that runs waits for its best so far, and between two looks at it.
_STOPPING_S: Final = 20.0
_LOOK_S: Final = 0.1


def start(runtime: Runtime, values: Mapping[str, Any]) -> dict[str, Any]:
    """Keep a request for a better Plan and have it worked on; return it as it is shown.

    Raises
    ------
    ApiProblemError
        ``malformed`` with every problem, ``too_many`` where another one runs.
    """
    with runtime.reading() as plan:
        asked = _job_of(runtime, plan, values)
    id_ = OPTIMIZATIONS.new_id(runtime)
    try:
        done = OPTIMIZATIONS.audited(runtime, "start", id_)
        runtime.optimizations.start(id_, asked, audited=done)
    except TooManyError as error:
        detail = "another optimisation runs; wait for it, or stop it"
        raise problem("too_many", detail, headers={"Retry-After": "10"}) from error
    return optimization_json(OPTIMIZATIONS.row_of(runtime, id_))


def _job_of(runtime: Runtime, plan: Plan, values: Mapping[str, Any]) -> OptimizationJob:
    errors: ProblemList[ApiError] = ProblemList()
    if values["lexicographic"] and values["weights"]:
        message = "give either weights or lexicographic"
        errors.append(ApiError(message, pointer="/weights"))
    for index, pin in enumerate(values["pins"]):
        number = plan.table.number_of(pin)
        if number is None or plan.table.state(number) not in LIVE:
            near = nearest(pin, plan.table.ids())
            fix = None if near is None else f"did you mean {near!r}?"
            message = f"no reservation {pin!r} holds anything"
            errors.append(ApiError(message, pointer=f"/pins/{index}", fix=fix))
    time_ms, work = values["time_limit"], values["work"]
    until = runtime.resolve(values["frozen_until"])
    if until is None:
        until = runtime.now_ms() + _LOOKING_MS + (time_ms if work is None else 0)
    frozen = plan.grid.ceil(max(0, until))
    if frozen >= plan.grid.horizon:
        message = "nothing could move: give a time before the horizon"
        errors.append(ApiError(message, pointer="/frozen_until"))
    if errors:
        raise malformed_problem(errors)
    solver = values["solver"]
    return OptimizationJob(
        frozen,
        tuple(values["pins"]),
        values["admit_refused"],
        values["weights"],
        values["lexicographic"],
        time_ms / 1000 if work is None else None,
        work,
        values["seed"],
        {"auto": None, "none": ""}.get(solver, solver),
    )


def one(runtime: Runtime, id_: str) -> dict[str, Any]:
    """Return one optimisation.

    Raises
    ------
    ApiProblemError
        ``not_found``.
    """
    return optimization_json(OPTIMIZATIONS.row_of(runtime, id_))


def page(runtime: Runtime) -> dict[str, Any]:
    """Return all that are remembered, newest first, without what they found."""
    return {"optimizations": [optimization_json(row) for row in OPTIMIZATIONS.rows(runtime)]}


def stop(runtime: Runtime, id_: str) -> dict[str, Any]:
    """Ask one to end with the best so far; one that is over stays as it is."""
    return optimization_json(OPTIMIZATIONS.stop(runtime, id_))


def apply(runtime: Runtime, id_: str, *, partial: bool = False) -> Response:
    """Take over what one found; one that runs is stopped first, and its best so far counts.

    Parameters
    ----------
    partial
        Where the Plan has moved on and not all of it fits, take what does; else take nothing.

    Raises
    ------
    ApiProblemError
        ``not_found``, ``wrong_state`` where there is nothing to apply.
    """
    row = _end(runtime, id_)
    if row.state not in _FOUND:
        detail = f"the optimisation {id_!r} is {row.state}; there is nothing to apply"
        raise problem("wrong_state", detail)
    runner, planner = runtime.optimizations, runtime.planner
    return apply_found(runner, planner, runtime.reading, row, partial=partial)


def undo(runtime: Runtime, id_: str) -> Response:
    """Take back what an applied one changed, as far as nothing of it has begun since.

    Raises
    ------
    ApiProblemError
        ``not_found``, ``wrong_state`` where the Plan does not hold it.
    """
    row = OPTIMIZATIONS.row_of(runtime, id_)
    if row.state not in (APPLIED, UNDONE):
        detail = f"the optimisation {id_!r} is {row.state}; only one that is applied can be undone"
        raise problem("wrong_state", detail)
    return undo_applied(runtime.optimizations, runtime.planner, runtime.reading, row)


def _end(runtime: Runtime, id_: str) -> OptimizationRow:
    """Return the row of an optimisation that is over; one that runs is told to stop."""
    row, until = OPTIMIZATIONS.row_of(runtime, id_), time.monotonic() + _STOPPING_S
    if row.state == RUNNING:
        OPTIMIZATIONS.stop(runtime, id_)
    while row.state == RUNNING:
        if time.monotonic() > until:
            detail = f"the optimisation {id_!r} was asked to stop and has not yet; apply it then"
            raise problem("wrong_state", detail)
        time.sleep(_LOOK_S)
        row = OPTIMIZATIONS.row_of(runtime, id_)
    return row


def optimization_json(row: OptimizationRow) -> dict[str, Any]:
    """Return an optimisation as clients see it; `result` only where the row carries it."""
    asked = msgspec.json.decode(row.document)
    state = "stopping" if row.state == RUNNING and row.unwanted else row.state
    body: dict[str, Any] = {
        "id": row.id,
        "state": state,
        "reason": row.reason,
        "created_at": rfc3339_text(instant_of(row.created_ms)),
        "ended_at": rfc3339_text(instant_of(row.ended_ms)) if row.ended_ms else None,
        "asked": asked,
        "progress": msgspec.json.decode(row.progress),
        "result": None,
    }
    if row.has_result:
        found = msgspec.json.decode(row.result)
        body["result"] = {**found["found"], "based_on": found["based_on"], "diff": found["diff"]}
    return body
