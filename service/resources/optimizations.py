"""Optimisations: search for a better Plan, watch the search, apply its result, undo it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from planner.placement import Code
from planner.plan.plan import Plan
from planner.reservations.state import LIVE
from rdl.durations import rfc3339_text
from rdl.errors import ProblemList, nearest
from service.access.user import Role, present_actor
from service.clock import instant_of
from service.http.kinds import (
    ID,
    BodyTime,
    Flag,
    MemberKind,
    QueryLength,
    array,
    choice,
    integer,
    length_up_to,
)
from service.http.kit import STREAM_HEADERS, Answer, Calls, Input, Instant, doc, one_of
from service.http.route import links_from
from service.jobs.apply import apply_found, undo_applied
from service.jobs.job import OptimizationJob
from service.jobs.runner import Runner
from service.problems import ApiError, FieldError, malformed_problem, problem
from service.resources.events import longest_s, permit_of
from service.response import JSON, Response
from service.runtime import Runtime
from service.store import AuditRow, OptimizationRow, TooManyError
from service.store.optimizations import APPLIED, INTERRUPTED, RUNNING, UNDONE
from service.streaming.plan_stream import HEARTBEAT, MEDIA, RETRY, event_text

#: The most pins of one request.
_MOST_PINS: Final = 10_000

#: Agents that compute an upper bound of the value; `auto` lets the optimiser choose.
_SOLVERS: Final = ("auto", "none", "exact", "hybrid", "milp")

_WEIGHTS: Final = ("reject", "churn", "falls", "cost")
_MOST_WEIGHT: Final = 1e9

#: Default time after the time limit within which rows do not move, milliseconds: time to inspect
#: the result and to apply it before its rows are in the past.
_LOOKING_MS: Final = 300_000

#: States with a result that can be applied.
_FOUND: Final = ("finished", "stopped", INTERRUPTED, APPLIED)

#: How long applying a running job waits for its best result, and the polling interval, seconds.
_STOPPING_S: Final = 20.0
_LOOK_S: Final = 0.1

#: Polling interval of a stream, seconds.
_STREAM_LOOK_S: Final = 0.5

#: Time limit of a search: 60 s when absent, an hour at most; ms.
TimeLimit: TypeAlias = Annotated[int, length_up_to(3_600_000, "5m", "1h", [60, "5m"])]


def _read_weights(value: object) -> dict[str, float]:
    if not isinstance(value, dict) or not value.keys() <= set(_WEIGHTS):
        raise FieldError(f"write an object of {', '.join(_WEIGHTS)}")
    for name, weight in value.items():
        number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not number or not 0 <= weight <= _MOST_WEIGHT:
            raise FieldError(f"{name} must be a number between 0 and {_MOST_WEIGHT:g}")
    return {name: float(weight) for name, weight in value.items()}


_WEIGHT: Final = {"type": "number", "minimum": 0, "maximum": _MOST_WEIGHT}
_WEIGHTS_KIND: Final = MemberKind(
    {
        "type": "object",
        "properties": dict.fromkeys(_WEIGHTS, _WEIGHT),
        "additionalProperties": False,
    },
    _read_weights,
)


class OptimizationRequest(Input):
    time_limit: Annotated[TimeLimit, doc("Stop after this long and keep the best Plan found.")] = (
        60_000
    )
    work: Annotated[
        int | None,
        integer(0, 10**6),
        doc("Limit of trials; equal limits give equal Plans."),
    ] = None
    seed: Annotated[int, integer(0, 2**31 - 1), doc("Seed of the random choices.")] = 0
    frozen_until: Annotated[
        BodyTime | None,
        doc(
            "Allocations before this time do not move; default: five minutes after the time limit."
        ),
    ] = None
    pins: Annotated[
        tuple[str, ...],
        array(ID, 0, _MOST_PINS, f"write an array of at most {_MOST_PINS} ids"),
        doc("Reservations that must not change."),
    ] = ()
    admit_refused: Annotated[Flag, doc("Whether refused requests may be admitted.")] = False
    weights: Annotated[
        dict[str, float],
        _WEIGHTS_KIND,
        doc("Weights of the shares; absent ones are 1000, 1, 0.5 and 0.5 (docs/optimize.md)."),
    ] = msgspec.field(default_factory=dict)
    lexicographic: Annotated[
        Flag,
        doc("Compare Plans by value refused; on a tie by work moved, then decreases, then price."),
    ] = False
    solver: Annotated[str, choice(_SOLVERS), doc("The solver that computes the upper bound.")] = (
        "auto"
    )


class OptimizationView(Answer):
    id: str
    state: Annotated[
        str,
        one_of(
            ("running", "stopping", "finished", "stopped", "interrupted", "failed", "lost",
             "applied", "undone")
        ),
    ]  # fmt: skip
    reason: Annotated[str, doc("Reason for the state.")]
    created_at: Instant
    ended_at: Instant | None
    asked: Annotated[dict[str, Any], doc("The settings of the request; times in steps.")]
    progress: Annotated[
        dict[str, Any],
        doc(
            "Best so far: elapsed (s), value, bound, gap, source; trace has [elapsed, value, "
            "bound, source] of each improvement; based_on is the Plan's version."
        ),
    ]
    result: Annotated[
        dict[str, Any] | None,
        doc(
            "Status, value, bound, gap, parts of the score before and after, and diff: the "
            "requests that are moved, admitted or removed, by how much, with the rows [start, end, "
            "bundles] before and after; its times are seconds from its origin, an instant. "
            "left_out has id, code and detail of each waiting request without a place."
        ),
    ]


class OptimizationList(Answer):
    optimizations: list[OptimizationView]


class LeftOutChange(Answer):
    id: str
    code: str
    detail: str


class AppliedOptimization(Answer):
    version: Annotated[int, doc("Version of the Plan with the changes.")]
    merged: Annotated[bool, doc("Whether the Plan had changed since the search began.")]
    changed: Annotated[int, doc("Reservations that were moved or admitted.")]
    left_out: Annotated[
        list[LeftOutChange],
        doc("Changes that no longer fit, or that gain nothing without such changes."),
    ]


class KeptReservation(Answer):
    id: str
    code: Annotated[str, one_of(("begun", "changed", "gone", "partial"))]
    detail: str


class UndoneOptimization(Answer):
    version: Annotated[int, doc("Version of the Plan in which the changes were undone.")]
    changed: Annotated[int, doc("Reservations that were moved back or cancelled.")]
    left: Annotated[list[KeptReservation], doc("Reservations that stay as applied.")]


#: One event; before OpenAPI 3.2, the schema of a stream describes a single event.
_EVENT: Final = {
    "type": "object",
    "properties": {
        "event": {"type": "string", "enum": ["progress", "ended", "forgotten"]},
        "data": {"type": "string", "contentMediaType": JSON},
    },
    "required": ["event", "data"],
}


@dataclass(frozen=True, slots=True)
class JobKind:
    """One kind of job.

    Attributes
    ----------
    prefix
        Prefix of its ids.
    noun
        Its name in messages.
    word
        Its name in paths and in the audit.
    """

    prefix: str
    noun: str
    word: str

    def new_id(self, runtime: Runtime) -> str:
        """Return a new id."""
        return runtime.new_id().replace("r-", self.prefix, 1)

    def row_of(self, runtime: Runtime, id_: str) -> OptimizationRow:
        """Return the row of a job.

        Raises
        ------
        ApiProblemError
            ``not_found``.
        """
        row = runtime.optimizations.rows.get(id_)
        if row is None or not id_.startswith(self.prefix):
            raise problem("not_found", f"there is no {self.noun} {id_!r}")
        return row

    def audited(self, runtime: Runtime, verb: str, id_: str, detail: str = "") -> AuditRow:
        """Return the audit row of an action on a job: start, stop, apply or delete."""
        kind = f"{verb}_{self.word}"
        return AuditRow(present_actor(), runtime.clock_ms(), kind, id_, detail=detail)

    def rows(self, runtime: Runtime) -> list[OptimizationRow]:
        """Return all stored jobs, newest first."""
        return runtime.optimizations.rows.page(self.prefix)

    def stop(self, runtime: Runtime, id_: str) -> OptimizationRow:
        """Ask a job to end with its best result; a job that has ended does not change.

        Raises
        ------
        ApiProblemError
            ``not_found``.
        """
        self.row_of(runtime, id_)
        runtime.optimizations.rows.stop(id_, self.audited(runtime, "stop", id_))
        return self.row_of(runtime, id_)

    def forget(self, runtime: Runtime, id_: str) -> None:
        """Delete a job and its result; a running job ends and its result is discarded.

        Raises
        ------
        ApiProblemError
            ``not_found``.
        """
        self.row_of(runtime, id_)
        runtime.optimizations.rows.delete(id_, self.audited(runtime, "delete", id_))


OPTIMIZATIONS: Final = JobKind("p-", "optimisation", "optimization")

calls = Calls()


@calls.post(
    "/v1/optimizations",
    "The search has begun.",
    status=202,
    fails=(Code.MALFORMED, "too_many"),
    headers={"Location": "Path of the job."},
    links=links_from(
        "$response.body#/id",
        "getOptimization",
        "watchOptimization",
        "stopOptimization",
        "applyOptimization",
        "undoOptimization",
        "forgetOptimization",
    ),
    role=Role.OPERATOR,
)
def start_optimization(runtime: Runtime, body: OptimizationRequest) -> OptimizationView:
    """Search for a better Plan that lowers no promise; it has no effect until it is applied."""
    with runtime.reading() as plan:
        asked = _job_of(runtime, plan, body)
    id_ = OPTIMIZATIONS.new_id(runtime)
    try:
        done = OPTIMIZATIONS.audited(runtime, "start", id_)
        runtime.optimizations.start(id_, asked, audited=done)
    except TooManyError as error:
        detail = "another optimisation runs; wait for it, or stop it"
        raise problem("too_many", detail, headers={"Retry-After": "10"}) from error
    return shown_optimization(OPTIMIZATIONS.row_of(runtime, id_))


@calls.get("/v1/optimizations", "The optimisations.", role=Role.OPERATOR)
def list_optimizations(runtime: Runtime) -> OptimizationList:
    """The last 100 optimisations, newest first, without their results."""
    rows = OPTIMIZATIONS.rows(runtime)
    return OptimizationList(optimizations=[shown_optimization(row) for row in rows])


@calls.get("/v1/optimizations/{id}", "The optimisation.", fails=("not_found",), role=Role.OPERATOR)
def get_optimization(runtime: Runtime, id_: str) -> OptimizationView:
    """One optimisation: its progress and result."""
    return shown_optimization(OPTIMIZATIONS.row_of(runtime, id_))


@calls.get(
    "/v1/optimizations/{id}/events",
    "`progress` at every better plan or bound, then `ended` or `forgotten`; each has an "
    "Optimization without its result.",
    media=MEDIA,
    fails=("not_found", "too_many"),
    role=Role.OPERATOR,
)
def watch_optimization(
    runtime: Runtime,
    id_: str,
    wait: Annotated[
        QueryLength | None, doc("End the stream after this time; default: an hour.")
    ] = None,
) -> Annotated[Response, _EVENT]:
    """The progress of an optimisation as server-sent events."""
    OPTIMIZATIONS.row_of(runtime, id_)
    source = JobSource(runtime.optimizations, id_)
    stream = runtime.streams.open(source, longest_s(wait), permit_of(runtime))
    return Response(200, stream, STREAM_HEADERS, MEDIA)


@calls.post(
    "/v1/optimizations/{id}/stop",
    "The optimisation stops, or has ended already.",
    status=202,
    fails=("not_found",),
    role=Role.OPERATOR,
)
def stop_optimization(runtime: Runtime, id_: str) -> OptimizationView:
    """Stop an optimisation and keep the best Plan found."""
    return shown_optimization(OPTIMIZATIONS.stop(runtime, id_))


@calls.post(
    "/v1/optimizations/{id}/apply",
    "The changes are in the Plan.",
    fails=("not_found", "wrong_state", Code.CONFLICT),
    role=Role.OPERATOR,
)
def apply_optimization(
    runtime: Runtime,
    id_: str,
    *,
    partial: Annotated[Flag, doc("If not all changes fit any more, apply those that do.")] = False,
) -> Annotated[Response, AppliedOptimization]:
    """Apply the result, merged with changes since; a running optimisation is stopped first."""
    row = _end(runtime, id_)
    if row.state not in _FOUND:
        detail = f"the optimisation {id_!r} is {row.state}; there is nothing to apply"
        raise problem("wrong_state", detail)
    runner, planner = runtime.optimizations, runtime.planner
    return apply_found(runner, planner, runtime.reading, row, partial=partial)


@calls.post(
    "/v1/optimizations/{id}/undo",
    "The Plan is as before, except for `left`.",
    fails=("not_found", "wrong_state", Code.CONFLICT),
    role=Role.OPERATOR,
)
def undo_optimization(runtime: Runtime, id_: str) -> Annotated[Response, UndoneOptimization]:
    """Undo an applied optimisation, except for changes that have taken effect."""
    row = OPTIMIZATIONS.row_of(runtime, id_)
    if row.state not in (APPLIED, UNDONE):
        detail = f"the optimisation {id_!r} is {row.state}; only one that is applied can be undone"
        raise problem("wrong_state", detail)
    return undo_applied(runtime.optimizations, runtime.planner, runtime.reading, row)


@calls.delete(
    "/v1/optimizations/{id}",
    "The optimisation is deleted.",
    status=204,
    fails=("not_found",),
    role=Role.OPERATOR,
)
def forget_optimization(runtime: Runtime, id_: str) -> None:
    """Delete an optimisation and its result; a running one is stopped."""
    OPTIMIZATIONS.forget(runtime, id_)


def _job_of(runtime: Runtime, plan: Plan, body: OptimizationRequest) -> OptimizationJob:
    errors: ProblemList[ApiError] = ProblemList()
    if body.lexicographic and body.weights:
        message = "give either weights or lexicographic"
        errors.append(ApiError(message, pointer="/weights"))
    for index, pin in enumerate(body.pins):
        number = plan.table.number_of(pin)
        if number is None or plan.table.state(number) not in LIVE:
            near = nearest(pin, plan.table.ids())
            fix = None if near is None else f"did you mean {near!r}?"
            message = f"there is no current reservation {pin!r}"
            errors.append(ApiError(message, pointer=f"/pins/{index}", fix=fix))
    time_ms, work = body.time_limit, body.work
    until = runtime.resolve(body.frozen_until)
    if until is None:
        until = runtime.now_ms() + _LOOKING_MS + (time_ms if work is None else 0)
    frozen = plan.grid.ceil(max(0, until))
    if frozen >= plan.grid.horizon:
        message = "nothing could move: give a time before the horizon"
        errors.append(ApiError(message, pointer="/frozen_until"))
    if errors:
        raise malformed_problem(errors)
    solver = body.solver
    return OptimizationJob(
        frozen,
        body.pins,
        body.admit_refused,
        body.weights,
        body.lexicographic,
        time_ms / 1000 if work is None else None,
        work,
        body.seed,
        {"auto": None, "none": ""}.get(solver, solver),
    )


def _end(runtime: Runtime, id_: str) -> OptimizationRow:
    """Return the row of an optimisation after its end, stopping it if it runs."""
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


class JobSource:
    """The events of one optimisation for a client: its state without the result, at each change.

    A client that reconnects gets the present state, so it misses nothing.
    """

    def __init__(self, runner: Runner, id_: str) -> None:
        self._runner = runner
        self._id = id_
        self._looked = -_STREAM_LOOK_S
        self._seen: object = None
        self._head = RETRY
        self.over = False

    def take(self) -> bytes:
        """Return the present state if it has changed."""
        if time.monotonic() - self._looked < _STREAM_LOOK_S:
            return b""
        self._looked = time.monotonic()
        head, self._head = self._head, b""
        return head + self._news()

    def _news(self) -> bytes:
        row = self._runner.rows.get(self._id)
        if row is None:
            self.over = True
            return event_text("forgotten", {"id": self._id})
        self.over = row.state != RUNNING
        now = (row.state, row.unwanted, row.progress)
        if now == self._seen:
            return b""
        self._seen = now
        body = msgspec.structs.asdict(shown_optimization(row))
        del body["result"]
        return event_text("ended" if self.over else "progress", body)

    def heartbeat(self) -> bytes:
        """Return a comment."""
        return HEARTBEAT


def shown_optimization(row: OptimizationRow) -> OptimizationView:
    """Return an optimisation as clients see it, with `result` if the row has it."""
    result = None
    if row.has_result:
        found = msgspec.json.decode(row.result)
        result = {**found["found"], "based_on": found["based_on"], "diff": found["diff"]}
    return OptimizationView(
        id=row.id,
        state="stopping" if row.state == RUNNING and row.unwanted else row.state,
        reason=row.reason,
        created_at=rfc3339_text(instant_of(row.created_ms)),
        ended_at=rfc3339_text(instant_of(row.ended_ms)) if row.ended_ms else None,
        asked=msgspec.json.decode(row.document),
        progress=msgspec.json.decode(row.progress),
        result=result,
    )
