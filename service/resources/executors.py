"""Executors: registration, reports, and orders to run components on their machines."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable
from re import fullmatch
from typing import Annotated, Any, Final
from uuid import uuid4

import msgspec

from dispatch.backends.run_records import (
    MOST_PIECES,
    PIECE_BYTES,
    STREAMS,
    ExecutorState,
    ExecutorTakenError,
    LogPiece,
    RunReport,
    RunRow,
    RunState,
    UnknownExecutorError,
)
from planner.placement import Code
from rdl.errors import ProblemList, did_you_mean
from service.access.user import Role, present_actor
from service.http.fields import read_fields, schema_of
from service.http.kinds import ID, Id, MemberKind, array, choice, integer, text
from service.http.kit import Answer, Calls, Count, Input, OpenAnswer, doc, fields_of, one_of
from service.http.route import links_from
from service.problems import ApiError, FieldError, malformed_problem, problem
from service.response import Response
from service.runtime import Runtime
from service.store import AuditRow

#: Setting with the id of the database.
_INSTALLATION: Final = "installation"

#: What an executor may run images with.
_ENGINES: Final = ("", "podman", "docker")

#: The most machines of one executor, and the most runs in one report.
_MOST: Final = 10_000

_LONGEST_ID: Final = 64

#: Maximum length of a piece of a log in base64, characters.
_LONGEST_BODY: Final = -(-PIECE_BYTES // 3) * 4

#: The reason why nothing starts if no executor reports.
NO_EXECUTOR: Final = "no executor is reporting, so no component can start"

#: Base64 in whole groups of four, as Python requires.
_BASE64: Final = r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"


def _read_base64(value: object) -> bytes:
    if not isinstance(value, str) or len(value) > _LONGEST_BODY or not fullmatch(_BASE64, value):
        raise FieldError(f"write 4 to {_LONGEST_BODY} characters of base64")
    return b64decode(value)


_INSTANCE: Final = doc(
    "A random id, created once and stored with the runs; an executor that "
    "has lost its state has a new one."
)


class ExecutorRegistration(Input):
    instance: Annotated[Id, _INSTANCE]
    machines: Annotated[
        tuple[str, ...],
        array(text(255), 1, _MOST, f"write an array of 1 to {_MOST:,} entries"),
        doc("Machines on which the executor runs components."),
    ]
    installation: Annotated[
        str,
        text(64),
        doc(
            "The installation from an earlier answer: servers of other "
            "installations refuse the executor. Absent: any."
        ),
    ] = ""
    address: Annotated[
        str,
        text(255),
        doc("Name or address of its host, for components that run on other hosts. Absent: its id."),
    ] = ""
    engine: Annotated[
        str, choice(_ENGINES), doc("The container engine of its host; empty or absent: none.")
    ] = ""


class ReportedRun(Input):
    id: Annotated[Id, doc("The run.")]
    state: Annotated[
        str,
        choice([state.value for state in RunState]),
        doc(
            "assigned: not started yet; running; exited: code 0; failed: another "
            "code, or never started; stopped: ended on request; lost: ended through "
            "no fault of its own."
        ),
    ]
    code: Annotated[
        int | None, integer(-255, 2**31 - 1), doc("Exit code; for a signal, its negative number.")
    ] = None
    detail: Annotated[str, text(1000), doc("Message for the user.")] = ""


_RUN_FIELDS: Final = fields_of(ReportedRun)


def _read_run(value: object) -> ReportedRun:
    if not isinstance(value, dict):
        raise FieldError("write an object for each run")
    return ReportedRun(**read_fields(_RUN_FIELDS, value, lambda name: f"/runs/{name}"))


class Report(Input):
    instance: Annotated[Id, _INSTANCE]
    runs: Annotated[
        tuple[ReportedRun, ...],
        array(
            MemberKind(schema_of(_RUN_FIELDS), _read_run),
            0,
            _MOST,
            f"write an array of 0 to {_MOST:,} entries",
        ),
        doc("All unsettled runs that the executor has started, in each report."),
    ]
    after: Annotated[
        int | None,
        integer(0, 2**53),
        doc(
            "Number of the newest answer that the executor has, so that late reports "
            "are refused. Absent: no check."
        ),
    ] = None


_LEASE: Final = doc(
    "Seconds without a report after which the executor counts as lost; it "
    "must have stopped all runs by then."
)
_NUMBER: Final = doc("Number of this answer; the next report returns it as `after`.")


class RegisteredExecutor(Answer):
    id: str
    lease: Annotated[float, _LEASE]
    installation: Annotated[str, doc("Id of the database and all its servers.")]
    number: Annotated[int, _NUMBER]


class RunOrder(OpenAnswer):
    id: str
    execution: str
    component: str
    index: int
    machine: str
    application: str
    tenant: str
    command: str | None
    image: str | None
    environment: dict[str, str]
    resources: Annotated[
        dict[str, int], doc("cpu in thousandths of a core, memory in MiB, others in units.")
    ]
    directory: Annotated[
        str | None, doc("Working directory of the command; null: an empty directory of its own.")
    ]
    timeout: Annotated[
        float | None,
        doc("Seconds after which the command is stopped as failed; null: never."),
    ]
    success: Annotated[list[int], doc("Exit codes that count as `exited`, not `failed`.")]


class ExecutorOrders(Answer):
    lease: Annotated[float, _LEASE]
    wanted: Annotated[
        list[RunOrder], doc("All runs that the executor must have; it stops all others.")
    ]
    settled: Annotated[
        list[str], doc("Runs whose ends are recorded; they need not be reported again.")
    ]
    number: Annotated[int, _NUMBER]


class WrittenPiece(Input):
    run: Annotated[Id, doc("The run.")]
    stream: Annotated[str, choice(STREAMS), doc("The stream.")]
    start: Annotated[int, integer(0, 2**53), doc("Offset of the piece in the stream, bytes.")]
    body: Annotated[
        bytes,
        MemberKind(
            {"type": "string", "maxLength": _LONGEST_BODY, "pattern": f"^{_BASE64}$"}, _read_base64
        ),
        doc("Output from that offset on, in base64."),
    ]


_PIECE_FIELDS: Final = fields_of(WrittenPiece)


def _read_piece(value: object) -> LogPiece:
    if not isinstance(value, dict):
        raise FieldError("write an object for each piece")
    read = WrittenPiece(**read_fields(_PIECE_FIELDS, value, lambda name: f"/pieces/{name}"))
    return LogPiece(read.run, read.stream, read.start, read.body)


class Written(Input):
    instance: Annotated[Id, _INSTANCE]
    pieces: Annotated[
        tuple[LogPiece, ...],
        array(
            MemberKind(schema_of(_PIECE_FIELDS), _read_piece),
            1,
            MOST_PIECES,
            f"write an array of 1 to {MOST_PIECES} entries",
        ),
        doc("Output of runs; a piece that is already stored changes nothing."),
    ]


class KeptLogs(Answer):
    ends: Annotated[list[Count], doc("For each piece, the offset at which its stream continues.")]


class ExecutorView(OpenAnswer):
    id: str
    machines: list[str]
    address: Annotated[str, doc("Name or address of its host.")]
    engine: Annotated[str, one_of(_ENGINES), doc("The container engine of its host; empty: none.")]
    state: Annotated[str, one_of(state.value for state in ExecutorState)]
    registered_at: str
    lost_at: str | None


class ExecutorList(Answer):
    executors: list[ExecutorView]
    lease: Annotated[float, doc("Seconds without a report after which an executor counts as lost.")]


_NOTHING: Final = {"type": "object", "maxProperties": 0}

calls = Calls()


@calls.put(
    "/v1/executors/{id}",
    "The executor is registered.",
    status=201,
    also={200: "The executor was registered already."},
    fails=(Code.MALFORMED, "wrong_state"),
    links=links_from(
        "$response.body#/id", "registerExecutor", "syncExecutor", "writeLogs", "removeExecutor"
    ),
    examples={"one machine": {"instance": "5f0c", "machines": ["plain-0"]}},
    role=Role.OPERATOR,
)
def register_executor(
    runtime: Runtime, id_: str, body: ExecutorRegistration
) -> Annotated[Response, RegisteredExecutor]:
    """Register an executor and the machines on which it runs components."""
    _require_good(id_)
    _require_executors(runtime)
    installation = _require_installation(runtime, body.installation)
    with runtime.reading() as plan:
        known = [name for group in plan.cluster.machines for name in group.machine_names()]
    there = set(known)
    errors = ProblemList(
        ApiError(
            f"there is no machine {name!r}",
            pointer=f"/machines/{index}",
            fix=did_you_mean(name, known),
        )
        for index, name in enumerate(body.machines)
        if name not in there
    )
    if errors:
        raise malformed_problem(errors)
    rows = runtime.dispatcher.runs
    try:
        done = _audit_row(runtime, id_, "register_executor", " ".join(body.machines))
        taken = rows.register(
            id_, body.instance, body.machines, runtime.now_ms(), done, body.address, body.engine
        )
    except ExecutorTakenError as error:
        raise problem("wrong_state", str(error)) from error
    runtime.dispatcher.nudge()
    answer = RegisteredExecutor(
        id=id_, lease=runtime.config.lease_s, installation=installation, number=taken.number
    )
    return Response(201 if taken.is_new else 200, answer)


@calls.post(
    "/v1/executors/{id}/sync",
    "The runs that it must have.",
    fails=(Code.MALFORMED, "not_found", "wrong_state"),
    role=Role.OPERATOR,
)
def sync_executor(runtime: Runtime, id_: str, body: Report) -> ExecutorOrders:
    """Report all runs of an executor, and return the runs that it must have."""
    _require_executors(runtime)
    reports = [RunReport(one.id, RunState(one.state), one.code, one.detail) for one in body.runs]
    try:
        answer = runtime.dispatcher.runs.sync(
            id_, body.instance, reports, runtime.now_ms(), body.after
        )
    except UnknownExecutorError as error:
        raise problem("not_found", str(error)) from error
    if any(one.state not in (RunState.ASSIGNED, RunState.RUNNING) for one in reports):
        runtime.dispatcher.nudge()
    return ExecutorOrders(
        lease=runtime.config.lease_s,
        wanted=[_order(run) for run in answer.wanted],
        settled=list(answer.settled),
        number=answer.number,
    )


@calls.post(
    "/v1/executors/{id}/logs",
    "The stored output.",
    fails=(Code.MALFORMED, "not_found", "wrong_state"),
    role=Role.OPERATOR,
)
def write_logs(runtime: Runtime, id_: str, body: Written) -> KeptLogs:
    """Store the output of an executor's runs: the newest mebibyte of each stream."""
    _require_executors(runtime)
    try:
        kept = runtime.dispatcher.runs.add_logs(id_, body.instance, body.pieces)
    except UnknownExecutorError as error:
        raise problem("not_found", str(error)) from error
    return KeptLogs(ends=[one.end for one in kept])


@calls.get("/v1/executors", "The executors.", role=Role.OPERATOR)
def list_executors(runtime: Runtime) -> ExecutorList:
    """The executors, and whether they report."""
    found = [
        ExecutorView(
            id=row.id,
            machines=list(row.machines),
            address=row.address,
            engine=row.engine,
            state=row.state.value,
            registered_at=runtime.calendar(row.registered_ms),
            lost_at=None if row.lost_ms is None else runtime.calendar(row.lost_ms),
        )
        for row in runtime.dispatcher.runs.executors()
    ]
    return ExecutorList(executors=found, lease=runtime.config.lease_s)


@calls.delete(
    "/v1/executors/{id}",
    "The executor is removed.",
    fails=("not_found", "wrong_state"),
    role=Role.OPERATOR,
)
def remove_executor(runtime: Runtime, id_: str) -> Annotated[Response, _NOTHING]:
    """Remove an idle executor; nothing more starts on its machines."""
    try:
        done = _audit_row(runtime, id_, "remove_executor")
        known = runtime.dispatcher.runs.remove(id_, done)
    except ExecutorTakenError as error:
        raise problem("wrong_state", str(error)) from error
    if not known:
        raise problem("not_found", f"there is no executor {id_!r}")
    runtime.dispatcher.nudge()
    return Response(200, {})


def served_machines(runtime: Runtime) -> int | bool:
    """Return the number of machines with an executor that reports; True if all have one."""
    if not runtime.config.executors:
        return True
    live = {
        name
        for one in runtime.store.runs.executors()
        if one.state is ExecutorState.LIVE
        for name in one.machines
    }
    with runtime.reading() as plan:
        machines = {name for group in plan.cluster.machines for name in group.machine_names()}
    return live >= machines or len(live & machines)


def machines_without_images(runtime: Runtime, names: Iterable[str]) -> list[str] | None:
    """Return the machines, of those named, whose executor runs no images.

    None if no executor at all runs images. A machine that has no executor now is not returned.
    """
    rows = runtime.store.runs.executors()
    if not any(row.engine for row in rows):
        return None
    without = {name for row in rows if not row.engine for name in row.machines}
    return sorted(without.intersection(names))


def _audit_row(runtime: Runtime, id_: str, kind: str, detail: str = "") -> AuditRow:
    return AuditRow(present_actor(), runtime.clock_ms(), kind, id_, detail=detail)


def _require_installation(runtime: Runtime, named: str) -> str:
    """Return the id of this database and all its servers, created once.

    Raises
    ------
    ApiProblemError
        ``wrong_state`` if an executor names another installation.
    """
    own = runtime.store.find_setting(_INSTALLATION)
    if own is None:
        own = runtime.store.setting(_INSTALLATION, uuid4().hex)
    if named and named != own:
        raise problem(
            "wrong_state",
            f"this server belongs to installation {own}, but the executor to {named}: use a "
            "server of that installation, or give the executor another state directory",
        )
    return own


def _require_executors(runtime: Runtime) -> None:
    if not runtime.config.executors:
        detail = "components run in memory here; start the server with --executors"
        raise problem("wrong_state", detail)


def _order(run: RunRow) -> Any:
    """Return the order for one run, as sent to its executor."""
    return {
        "id": run.id,
        "execution": run.execution,
        "component": run.component,
        "index": run.number,
        "machine": run.machine,
        **msgspec.json.decode(run.document),
    }


def _require_good(id_: str) -> None:
    """Refuse the id of an executor that is too long or has invalid characters."""
    try:
        if len(id_) > _LONGEST_ID:
            raise FieldError(f"write at most {_LONGEST_ID} characters")
        ID.read(id_)
    except FieldError as error:
        raise malformed_problem([ApiError(f"id: {error}", pointer="id")]) from error
