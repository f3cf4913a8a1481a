"""Executors register, report and are told what to run; one function for each call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import msgspec

from dispatch.backends.run_records import (
    ExecutorRow,
    ExecutorTakenError,
    RunReport,
    RunRow,
    RunState,
    UnknownExecutorError,
)
from rdl.errors import ProblemList, did_you_mean
from service.access.actor import present_actor
from service.problems import ApiError, malformed_problem, problem
from service.store import AuditRow

if TYPE_CHECKING:
    from service.runtime import Runtime

#: Setting of the database that tells it from others.
_INSTALLATION: Final = "installation"


def register(runtime: Runtime, id_: str, values: Mapping[str, Any]) -> tuple[bool, dict[str, Any]]:
    """Take an executor in; return whether it is new, and what it must know.

    Raises
    ------
    ApiProblemError
        ``wrong_state`` where components run in memory, another executor has the name or a machine,
        or it works for another installation; ``malformed`` for machines that there are not.
    """
    _require_executors(runtime)
    installation = _require_installation(runtime, values.get("installation", ""))
    with runtime.reading() as plan:
        known = [name for group in plan.cluster.machines for name in group.machine_names()]
    there = set(known)
    errors = ProblemList(
        ApiError(
            f"there is no machine {name!r}",
            pointer=f"/machines/{index}",
            fix=did_you_mean(name, known),
        )
        for index, name in enumerate(values["machines"])
        if name not in there
    )
    if errors:
        raise malformed_problem(errors)
    rows = runtime.dispatcher.runs
    try:
        done = _audit_row(runtime, id_, "register_executor", " ".join(values["machines"]))
        taken = rows.register(id_, values["instance"], values["machines"], runtime.now_ms(), done)
    except ExecutorTakenError as error:
        raise problem("wrong_state", str(error)) from error
    runtime.dispatcher.nudge()
    return taken.is_new, {
        "id": id_,
        "lease": runtime.config.lease_s,
        "installation": installation,
        "number": taken.number,
    }


def sync(runtime: Runtime, id_: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Take a report in; return what the executor is to run.

    Raises
    ------
    ApiProblemError
        ``wrong_state`` where components run in memory; ``not_found`` for one that has to register
        first.
    """
    _require_executors(runtime)
    reports = [
        RunReport(one["id"], RunState(one["state"]), one.get("code"), one.get("detail", ""))
        for one in values["runs"]
    ]
    try:
        answer = runtime.dispatcher.runs.sync(
            id_, values["instance"], reports, runtime.now_ms(), values.get("after")
        )
    except UnknownExecutorError as error:
        raise problem("not_found", str(error)) from error
    if any(one.state not in (RunState.ASSIGNED, RunState.RUNNING) for one in reports):
        runtime.dispatcher.nudge()
    return {
        "lease": runtime.config.lease_s,
        "wanted": [_order(run) for run in answer.wanted],
        "settled": list(answer.settled),
        "number": answer.number,
    }


def remove(runtime: Runtime, id_: str) -> None:
    """Forget an executor that runs nothing.

    Raises
    ------
    ApiProblemError
        ``not_found``; ``wrong_state`` where it has runs.
    """
    try:
        done = _audit_row(runtime, id_, "remove_executor")
        known = runtime.dispatcher.runs.remove(id_, done)
    except ExecutorTakenError as error:
        raise problem("wrong_state", str(error)) from error
    if not known:
        raise problem("not_found", f"there is no executor {id_!r}")
    runtime.dispatcher.nudge()


def list_executors(runtime: Runtime) -> dict[str, Any]:
    """Return all executors by name, and the lease on which they must report."""
    found = [_json_of(runtime, row) for row in runtime.dispatcher.runs.executors()]
    return {"executors": found, "lease": runtime.config.lease_s}


def runs_of(runtime: Runtime, application: str) -> dict[str, Any]:
    """Return the runs of an application, the oldest first."""
    found = runtime.dispatcher.runs.of_execution(application)
    return {"runs": [_shown_run(runtime, run) for run in found]}


def _audit_row(runtime: Runtime, id_: str, kind: str, detail: str = "") -> AuditRow:
    return AuditRow(present_actor(), runtime.clock_ms(), kind, id_, detail=detail)


def _require_installation(runtime: Runtime, named: str) -> str:
    """Return what tells this database, and all servers on it, from others; made once.

    Raises
    ------
    ApiProblemError
        ``wrong_state`` where an executor names another.
    """
    own = runtime.store.find_setting(_INSTALLATION)
    if own is None:
        own = runtime.store.setting(_INSTALLATION, uuid4().hex)
    if named and named != own:
        raise problem(
            "wrong_state",
            f"this server is of installation {own}, and the executor works for {named}: name the "
            "server of that one, or give the executor another state directory",
        )
    return own


def _require_executors(runtime: Runtime) -> None:
    if not runtime.config.executors:
        detail = "components run in memory here; start the server with --executors"
        raise problem("wrong_state", detail)


def _order(run: RunRow) -> dict[str, Any]:
    """Return one run as its executor is told."""
    return {
        "id": run.id,
        "execution": run.execution,
        "component": run.component,
        "index": run.number,
        "machine": run.machine,
        **msgspec.json.decode(run.document),
    }


def _json_of(runtime: Runtime, row: ExecutorRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "machines": list(row.machines),
        "state": row.state.value,
        "registered_at": runtime.calendar(row.registered_ms),
        "lost_at": None if row.lost_ms is None else runtime.calendar(row.lost_ms),
    }


def _shown_run(runtime: Runtime, run: RunRow) -> dict[str, Any]:
    def at(ms: int | None) -> str | None:
        return None if ms is None else runtime.calendar(ms)

    return {
        "id": run.id,
        "component": run.component,
        "index": run.number,
        "machine": run.machine,
        "state": run.state.value,
        "wanted": run.wanted,
        "code": run.code,
        "detail": run.detail,
        "since_at": at(run.since_ms),
        "started_at": at(run.started_ms),
        "ended_at": at(run.ended_ms),
    }
