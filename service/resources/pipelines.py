"""Pipelines: a reservation, and the applications of its stages, made together or not at all.

The pipeline and its applications are rows in the transaction of the commit that admits the
reservation. So a request that is refused leaves nothing, and one that is granted is dispatched
even if processes are killed meanwhile. A pipeline that recurs gets the applications of each run
when that is due (`service.dispatching.run_starter`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Any, Final

import msgspec

from dispatch.backends.run_records import RunState
from dispatch.executions.job_file import (
    StageApplication,
    applications_of,
    read_stages,
    recurrence_of,
    stage_id,
)
from dispatch.executions.job_runs import (
    JobOccurrence,
    Overlap,
    due_after,
    job_occurrences,
    occurrence_of,
    spans_of_parts,
)
from dispatch.executions.states import FINAL_EXECUTION_STATES, ExecutionState
from planner.files.errors import FileError, FileProblems
from planner.placement import Code
from planner.reservations.reservation import Reservation
from planner.reservations.state import LIVE
from rdl.compile.compiler import compile_expression
from rdl.compile.context import CompileContext
from rdl.compile.source import read_source
from rdl.errors import ProblemList, RdlError
from rdl.meaning.request_meaning import window_ends
from rdl.time_grid import TimeGrid
from rdl.work_graph import WorkGraph
from service.access.user import User, present_actor
from service.asks import EXAMPLE, ReservationRequest, read_ask
from service.commits.commands import Admission, Answer, Ask, Key, ReservationAnswer
from service.commits.screening import context_of
from service.dispatching.documents import Document, encode_document, read_document
from service.dispatching.run_starter import PipelineDocument
from service.http.kinds import Flag, Word, any_value, choice, integer, length_up_to
from service.http.kit import Answer as Shown
from service.http.kit import Calls, Count, Input, Instant, Once, OpenAnswer, doc, one_of
from service.http.route import links_from
from service.ownership import own_filter
from service.problems import (
    ApiError,
    ApiProblemError,
    ProblemDocument,
    malformed_problem,
    problem,
    problem_of_file,
)
from service.rendering import recall, respond
from service.resources.applications import (
    ApplicationView,
    TaskCounts,
    application_states,
    check_backend,
    check_images,
    show_applications,
)
from service.resources.reservation_pages import ReservationView
from service.resources.reservations import PLACING, DryRun
from service.response import Response, problem_response
from service.runtime import Runtime
from service.store import ApplicationRow, AuditRow, IdTakenError, PipelineRow

_STAGES: Final = {"load": {"command": ["./load.sh"], "retries": 2, "timeout": "30m"}}
_EXAMPLE: Final = {**EXAMPLE, "rdl": f"load: {EXAMPLE['rdl']}", "stages": _STAGES}
_STAGES_SCHEMA: Final = {
    "type": "object",
    "minProperties": 1,
    "additionalProperties": {"type": "object"},
    "examples": [_STAGES],
}


_OVERLAPS: Final = tuple(one.value for one in Overlap)

#: States of a run: of its stages together.
_RUN_STATES: Final = ("running", "succeeded", "failed", "skipped")

#: States of stages that have ended.
_OVER: Final = frozenset(state.value for state in FINAL_EXECUTION_STATES)

#: The numbers of children and occurrences in a path.
_NUMBERS: Final = re.compile(r"[0-9]+")

#: Longest margin: a time of day that is moved by a day is the same.
_LONGEST_MARGIN_MS: Final = 23 * 3_600_000

#: Deadlines are computed on horizons that are multiples of so many steps.
_HORIZONS: Final = 4096

#: Most runs in one answer.
_MOST_RUNS: Final = 100


class PipelineRequest(ReservationRequest, kw_only=True):
    """The body of POST /v1/reservations, and the work of each stage."""

    stages: Annotated[
        Any,
        any_value(_STAGES_SCHEMA),
        doc(
            "Stages by the name of their atom: `command` (a script, or a list of words), "
            "`environment`, "
            "`directory`, `retries`, `backoff`, `timeout`, `success`, `on_late`, `ports`, `tasks`, "
            "`image` (docs/dispatch.md)."
        ),
    ]
    overlap: Annotated[
        str | None,
        choice(_OVERLAPS),
        doc(
            "For a recurring pipeline: whether a run that is due before the previous one has "
            "ended waits for it (`queue`, the default), is skipped, or starts."
        ),
    ] = None
    margin: Annotated[
        int,
        length_up_to(_LONGEST_MARGIN_MS, "30m", "23h", ["30m"], None),
        doc(
            "Time between the required end of the last stage and the end of its window; default: "
            "none."
        ),
    ] = 0


class StageView(OpenAnswer, kw_only=True):
    name: str
    application: Annotated[str, doc("Id of the application that runs it; empty before its run.")]
    atom: Annotated[str, doc("Path of its atom, or of its together, in the request.")]
    after: Annotated[list[str], doc("Stages that must succeed before it starts.")]
    state: Annotated[str, one_of(application_states())]
    reason: Annotated[str, doc("Reason why it waits, or of its end.")] = ""
    retries: Annotated[Count, doc("Number of restarts after a failure.")] = 0
    tasks: Annotated[
        TaskCounts | None, doc("Counts of its tasks, if it has tasks and has started.")
    ] = None
    attempt: Annotated[int, doc("Number of the attempt in this run, from 1.")] = 1
    late: Annotated[bool, doc("Whether it has not started, or ended, within its slots.")] = False
    start_at: Annotated[Instant | None, doc("Start of its slots.")] = None
    end_at: Annotated[Instant | None, doc("End of its slots.")] = None
    started_at: Annotated[Instant | None, doc("Start time.")] = None
    ended_at: Annotated[Instant | None, doc("End time.")] = None


class PipelineRunView(OpenAnswer, kw_only=True):
    run: Annotated[Count, doc("From 0, in the order in which runs start.")]
    state: Annotated[str, one_of(_RUN_STATES)]
    late: Annotated[bool, doc("Whether a stage is, or was, late.")]
    start_at: Annotated[Instant | None, doc("Start of its first slot.")]
    end_at: Annotated[Instant | None, doc("End of its last slot.")]
    deadline_at: Annotated[Instant | None, doc("When its window ends, as far as it is planned.")]
    stages: Annotated[
        list[StageView], doc("In the order of the request; none if their ids were taken.")
    ]


class PipelineView(Shown):
    id: Annotated[str, doc("Of the reservation.")]
    reservation: ReservationView
    stages: Annotated[list[StageView], doc("Of the newest run, in the order of the request.")]
    notes: Annotated[list[str], doc("Warnings for its owner.")]
    recurs: bool
    overlap: Annotated[str, one_of(_OVERLAPS)]
    runs: Annotated[Count, doc("Number of runs that were started, skipped or missed.")]
    next_at: Annotated[Instant | None, doc("Start of the next run, if it is planned.")]
    deadline_at: Annotated[
        Instant | None, doc("End of the window of the next run, or of the last.")
    ]
    slack: Annotated[
        float | None,
        doc("Least time from the end of the slots of one of its stages to that of its window, s."),
    ]
    reason: Annotated[str, doc("Reason why no further run starts, if there is one.")]


class PipelineLine(OpenAnswer, kw_only=True):
    id: str
    tenant: str
    submitted_at: Instant
    recurs: bool
    runs: Count
    state: Annotated[str, one_of(("waiting", *_RUN_STATES)), doc("State of its newest run.")]
    next_at: Instant | None
    slack: Annotated[float | None, doc("As of the pipeline.")]
    over: Annotated[bool, doc("Whether no further run starts.")]
    reason: str


class PipelineList(Shown):
    pipelines: Annotated[list[PipelineLine], doc("Newest first.")]


class PipelineRunList(Shown):
    runs: Annotated[list[PipelineRunView], doc("Newest first.")]
    next: Annotated[int | None, doc("Value of `before` for the next page.")]


class PipelineQuery(Input):
    dry_run: DryRun = False


class PipelinesQuery(Input):
    tenant: Annotated[Word | None, doc("Only of this tenant.")] = None
    limit: Annotated[int, integer(1, 1000), doc("Maximum number of entries.")] = 100


class PipelineRunsQuery(Input):
    before: Annotated[int | None, integer(0, 2**31), doc("Only runs with smaller numbers.")] = None
    limit: Annotated[int, integer(1, _MOST_RUNS), doc("Maximum number of runs.")] = 30


class AgainRequest(Input, kw_only=True):
    run: Annotated[int, integer(0, 2**31), doc("Which run.")] = 0
    all_: Annotated[Flag, doc("Also what succeeded: every stage, and all of its tasks.")] = False


calls = Calls()


@calls.post(
    "/v1/pipelines",
    "The reservation is promised, its stages are submitted, and all of it is on disk.",
    status=201,
    also={200: "It would be promised (dry_run), or already exists from the same request."},
    fails=(
        Code.MALFORMED,
        *PLACING,
        Code.DUPLICATE_ID,
        "idempotency_mismatch",
        "wrong_state",
        "unavailable",
        "clock_unconfirmed",
        "plan_ahead",
    ),
    headers={"Location": "Path of the pipeline."},
    links=links_from(
        "$response.body#/id",
        "getPipeline",
        "listPipelineRuns",
        "runPipelineAgain",
        "getReservation",
        "cancelReservation",
    ),
    examples={"one stage": _EXAMPLE},
)
def create_pipeline(
    runtime: Runtime, body: PipelineRequest, once: Once, query: PipelineQuery
) -> Annotated[Response, PipelineView]:
    """Reserve capacity for a pipeline and submit its stages, all or nothing."""
    return once(lambda key: _create(runtime, body, key, dry_run=query.dry_run))


@calls.get("/v1/pipelines", "The pipelines.", fails=(Code.MALFORMED,))
def list_pipelines(runtime: Runtime, user: User, query: PipelinesQuery) -> PipelineList:
    """Pipelines with reservations in the Plan, and the outcome of their newest run."""
    tenant = own_filter(user, query.tenant)
    rows = runtime.dispatcher.store.pipelines.page(tenant, user.scope, query.limit)
    lines: list[PipelineLine] = []
    for row in rows:
        try:
            known = _Known.of(runtime, user, row.id)
        except ApiProblemError:  # its reservation has left the Plan
            continue
        facts = known.facts()
        lines.append(
            PipelineLine(
                id=row.id,
                tenant=row.tenant,
                submitted_at=runtime.calendar(row.submitted_ms),
                state=known.state(),
                over=row.over,
                **{name: facts[name] for name in ("recurs", "runs", "next_at", "slack", "reason")},
            )
        )
    return PipelineList(pipelines=lines)


@calls.get("/v1/pipelines/{id}", "The pipeline.", fails=("not_found",))
def get_pipeline(runtime: Runtime, user: User, id_: str) -> PipelineView:
    """One pipeline: its reservation, and the progress of its newest run."""
    known = _Known.of(runtime, user, id_)
    newest = known.runs(max(known.row.runs - 1, 0), known.row.runs)
    stages = newest[0].stages if newest else []
    return PipelineView(
        id=id_,
        reservation=msgspec.convert(known.reservation.to_json(known.grid), ReservationView),
        stages=stages or known.planned_stages(),
        notes=_notes_of(runtime),
        **known.facts(),
    )


@calls.get("/v1/pipelines/{id}/runs", "The runs.", fails=(Code.MALFORMED, "not_found"))
def list_pipeline_runs(
    runtime: Runtime, user: User, id_: str, query: PipelineRunsQuery
) -> PipelineRunList:
    """The runs of a pipeline, newest first: each stage with its promise and outcome."""
    known = _Known.of(runtime, user, id_)
    end = known.row.runs if query.before is None else min(query.before, known.row.runs)
    first = max(end - query.limit, 0)
    return PipelineRunList(runs=known.runs(first, end)[::-1], next=first or None)


@calls.post(
    "/v1/pipelines/{id}/again",
    "The stages that did not succeed are submitted again.",
    status=202,
    fails=(Code.MALFORMED, "not_found", "wrong_state"),
)
def run_pipeline_again(
    runtime: Runtime, user: User, id_: str, body: AgainRequest
) -> PipelineRunView:
    """Retry the failed stages of a run: in the rest of its slots, then in free capacity.

    Of a stage that has tasks these are the tasks that had not succeeded.
    """
    known = _Known.of(runtime, user, id_)
    _run_again(runtime, known, body.run, everything=body.all_)
    runtime.dispatcher.nudge()
    return known.runs(body.run, body.run + 1)[0]


@dataclass(frozen=True, slots=True)
class _Known:
    """A pipeline that its caller may see, with its reservation."""

    runtime: Runtime
    row: PipelineRow
    reservation: Reservation
    context: CompileContext
    occurrences: list[JobOccurrence]

    @property
    def grid(self) -> TimeGrid:
        """Of the Plan."""
        return self.context.grid

    @classmethod
    def of(cls, runtime: Runtime, user: User, id_: str) -> _Known:
        """Return a pipeline.

        Raises
        ------
        ApiProblemError
            ``not_found`` where there is none, or it is another tenant's.
        """
        row = runtime.dispatcher.store.pipelines.get(id_)
        with runtime.reading() as plan:
            found = plan.reservation(id_)
            context = context_of(plan, 0 if found is None else found.submitted_ms)
        if row is None or found is None or not user.acts_for(row.tenant):
            raise problem("not_found", f"there is no pipeline {id_!r}")
        return cls(runtime, row, found, context, job_occurrences(found.atoms, context.grid))

    @property
    def recurs(self) -> bool:
        """Whether it has a run for each occurrence of its request."""
        return recurrence_of(read_source(self.reservation.expression)) is not None

    def facts(self) -> dict[str, Any]:
        """Return the part of an answer about its runs."""
        document = msgspec.json.decode(self.row.document, type=PipelineDocument)
        at = self.runtime.calendar
        last = (self.row.last_ms, self.row.last_occurrence)
        later = [] if self.row.over else due_after(self.occurrences, last, 2**62)
        facts: dict[str, Any] = {
            "recurs": self.recurs,
            "overlap": document.overlap.value,
            "runs": self.row.runs,
            "next_at": at(later[0].start_ms) if later else None,
            "deadline_at": None,
            "slack": None,
            "reason": self.row.reason,
        }
        run = later[0].number if later else max(self.row.last_occurrence, 0)
        ends = self._window_ends(run)
        spans = _spans_of(self.reservation, self.grid)
        slacks = [end_ms - spans[path][1] for path, end_ms in ends.items() if path in spans]
        if slacks:
            facts |= {"deadline_at": at(_last_of(ends, spans)), "slack": min(slacks) / 1000}
        return facts

    def _window_ends(self, run: int) -> dict[str, int]:
        """Return when the window of each atom of an occurrence ends, in ms, as far as planned."""
        document = msgspec.json.decode(self.row.document, type=PipelineDocument)
        # With a margin the windows are those of the request as written, unless it was replaced.
        written = self.reservation.written if document.margin_ms else ""
        return _window_ends(written or self.reservation.expression, self.context, run)

    def is_over(self) -> bool:
        """Return whether its reservation has no future allocation."""
        ends = [end for _, end in _spans_of(self.reservation, self.grid).values()]
        is_live = self.reservation.state in LIVE
        return not is_live or max(ends, default=0) <= self.runtime.now_ms()

    def planned_stages(self) -> list[StageView]:
        """Return the stages of a pipeline of which no run has begun."""
        document = msgspec.json.decode(self.row.document, type=PipelineDocument)
        problems: FileProblems = FileProblems()
        stages = read_stages(document.stages, problems)
        source = read_source(self.reservation.expression)
        return _planned(self.row.id, applications_of(self.row.id, source, stages, problems))

    def state(self) -> str:
        """Return the state of the newest run."""
        newest = self.row.runs - 1
        if newest < 0:
            return "waiting"
        rows = self.runtime.dispatcher.store.applications.of_pipeline(self.row.id, newest, newest)
        shown = zip(rows, show_applications(self.runtime, rows), strict=True)
        # A later attempt of a stage comes after an earlier one.
        states = {_name_in(self.row.id, row.id): view.state for row, view in shown}
        return _run_state(states.values())

    def runs(self, first: int, end: int) -> list[PipelineRunView]:
        """Return the runs [first, end), the oldest first; one that was left out has no stages."""
        rows = self.runtime.dispatcher.store.applications.of_pipeline(self.row.id, first, end - 1)
        shown = {one.id: one for one in show_applications(self.runtime, rows)}
        spans = _spans_of(self.reservation, self.grid)
        by_run: dict[int, dict[str, StageView]] = {}
        for row in rows:  # a later attempt of a stage comes after an earlier one
            stage = self._stage_of(row, shown[row.id], spans)
            by_run.setdefault(row.run, {})[stage.name] = stage
        return [
            self._run_of(
                run, sorted(by_run.get(run, {}).values(), key=lambda one: _place(one.atom)), spans
            )
            for run in range(first, end)
        ]

    def _stage_of(
        self, row: ApplicationRow, view: ApplicationView, spans: Mapping[str, tuple[int, int]]
    ) -> StageView:
        stage = _stage_of(self.row.id, row)
        stage.state, stage.reason, stage.retries = view.state, view.reason, view.retries
        stage.tasks = view.tasks
        at = self.runtime.calendar
        ended = None if view.ended is None else round(1000 * view.ended)
        stage.started_at = None if view.started is None else at(round(1000 * view.started))
        stage.ended_at = None if ended is None else at(ended)
        span = spans.get(stage.atom)
        if span is not None:
            stage.start_at, stage.end_at = at(span[0]), at(span[1])
            until = self.runtime.now_ms() if ended is None else ended
            # What ends early releases the rest from the step on in which it ended.
            grace_ms = self.grid.step_ms if self._is_cut(stage.atom, span[1]) else 0
            stage.late = until > span[1] + grace_ms and view.state not in ("rejected", "killed")
        stage.late = stage.late or view.reason.startswith("late: ")
        return stage

    def _is_cut(self, path: str, end_ms: int) -> bool:
        """Return whether the slots of an atom, or of a together, end where the rest was released.

        Of what recurs the rest is not released.
        """
        return any(
            self.grid.ms(int(start)) == end_ms
            for atom in self.reservation.atoms
            if atom.released is not None and (not path or f"{atom.path}.".startswith(f"{path}."))
            for start in atom.released[:, 0]
        )

    def _run_of(
        self, run: int, stages: list[StageView], spans: Mapping[str, tuple[int, int]]
    ) -> PipelineRunView:
        number = occurrence_of(stages[0].atom) if stages else None
        window_ends_ms = self._window_ends(number or 0) if stages else {}
        starts = [one.start_at for one in stages if one.start_at is not None]
        ends = [one.end_at for one in stages if one.end_at is not None]
        return PipelineRunView(
            run=run,
            state=_run_state(one.state for one in stages),
            late=any(one.late for one in stages),
            start_at=min(starts, default=None),
            end_at=max(ends, default=None),
            deadline_at=(
                self.runtime.calendar(_last_of(window_ends_ms, spans)) if window_ends_ms else None
            ),
            stages=stages,
        )


def _last_of(ends: Mapping[str, int], spans: Mapping[str, tuple[int, int]]) -> int:
    """Return the last end of the windows of atoms that hold slots, or else of all.

    Options of an `any` that were not chosen hold none.
    """
    return max([end for path, end in ends.items() if path in spans] or ends.values())


def _window_ends(text: str, context: CompileContext, run: int) -> dict[str, int]:
    """Return when the window of each atom of an occurrence ends, in ms from the origin.

    It is empty where that is not known: the occurrence has no window in the horizon.
    """
    # The horizon grows all the time: rounded up, it finds what was compiled before.
    grid = replace(context.grid, horizon=-(-context.grid.horizon // _HORIZONS) * _HORIZONS)
    graph = _compiled(text, replace(context, grid=grid))
    ends = {} if graph is None else window_ends(graph, run)
    if any(end >= grid.horizon for end in ends.values()):
        return {}
    return {path: grid.ms(end) for path, end in ends.items()}


@lru_cache(maxsize=1024)
def _compiled(text: str, context: CompileContext) -> WorkGraph | None:
    try:
        return compile_expression(read_source(text), context)
    except RdlError:  # the grid has changed
        return None


def _place(path: str) -> tuple[int, ...]:
    """Return the place of an atom in its request: the numbers of its path."""
    return tuple(map(int, _NUMBERS.findall(path)))


def _run_state(states: Iterable[str]) -> str:
    there = set(states)
    if there - _OVER:
        return "running"
    if there <= {ExecutionState.REJECTED.value}:
        return "skipped"
    return "succeeded" if there == {ExecutionState.COMPLETED.value} else "failed"


def _spans_of(reservation: Reservation, grid: TimeGrid) -> dict[str, tuple[int, int]]:
    """Return when the slots of each atom, and of all parts above it, begin and end, in ms."""
    return {
        path: (grid.ms(start), grid.ms(end))
        for path, (start, end) in spans_of_parts(reservation.atoms).items()
    }


def _stage_of(job: str, row: ApplicationRow) -> StageView:
    """Return the stage of a pipeline that an application is."""
    document = read_document(row.document)
    attempt = row.id.rpartition("~")[2] if "~" in row.id.removeprefix(job) else "1"
    return StageView(
        name=document.application.name,
        application=row.id,
        atom=document.application.atom or "",
        after=[_name_in(job, one) for one in document.needs],
        state=row.state,
        attempt=int(attempt),
    )


def _name_in(job: str, application: str) -> str:
    """Return the name of the stage of a pipeline that has an application's id."""
    return application.removeprefix(f"{job}.").partition("@")[0].partition("~")[0]


def _planned(job: str, made: Iterable[StageApplication]) -> list[StageView]:
    """Return the stages of a run that has not begun."""
    return [
        StageView(
            name=one.application.name,
            application="",
            atom=one.application.atom or "",
            after=[_name_in(job, need) for need in one.needs],
            state=ExecutionState.QUEUED.value,
        )
        for one in made
    ]


def _run_again(runtime: Runtime, known: _Known, run: int, *, everything: bool) -> None:
    """Submit the stages of a run again: those that have not succeeded, or all of them.

    Raises
    ------
    ApiProblemError
        ``not_found`` for a run that there is not, ``wrong_state`` for one that has not ended or has
        succeeded, and where nothing is reserved any more.
    """
    job = known.row.id
    newest: dict[str, ApplicationRow] = {}
    first: dict[str, ApplicationRow] = {}
    for row in runtime.dispatcher.store.applications.of_pipeline(job, run, run):
        first.setdefault(_name_in(job, row.id), row)
        newest[_name_in(job, row.id)] = row
    if not newest:
        detail = f"pipeline {job!r} has no run {run}; it has had {known.row.runs}"
        raise problem("not_found", detail)
    if not all(row.over for row in newest.values()):
        raise problem("wrong_state", f"run {run} of {job!r} has not ended")
    done = ExecutionState.COMPLETED.value
    chosen = {name: row for name, row in newest.items() if everything or row.state != done}
    if not chosen:
        raise problem("wrong_state", f"run {run} of {job!r} has succeeded")
    if known.is_over():
        detail = f"the reservation of {job!r} is over"
        fix = "submit the job again under another id: agenda run FILE --id OTHER"
        raise problem("wrong_state", detail, [ApiError(detail, "wrong_state", fix=fix)])
    ids = {name: _next_id(job, name, row, recurs=known.recurs) for name, row in chosen.items()}
    rows = []
    for name, row in chosen.items():
        document = read_document(row.document)
        tasks = () if everything else _done_tasks(runtime, row.id, document)
        # A later attempt needs only what was submitted again with it.
        needs = read_document(first[name].document).needs
        document = replace(document, needs=needs, done=tasks)
        rows.append(_again(job, row, document, ids, runtime.now_ms()))
    actor, at_ms = present_actor(), runtime.clock_ms()
    audited = [AuditRow(actor, at_ms, "submit_application", one.id, one.tenant) for one in rows]
    if not runtime.dispatcher.store.pipelines.add_again(rows, audited):
        raise problem("wrong_state", f"run {run} of {job!r} has not ended")


def _next_id(job: str, name: str, row: ApplicationRow, *, recurs: bool) -> str:
    """Return the id of the next attempt of a stage."""
    attempt = _stage_of(job, row).attempt + 1
    return stage_id(job, name, row.run if recurs else None, attempt)


def _done_tasks(runtime: Runtime, id_: str, document: Document) -> tuple[int, ...]:
    """Return the tasks that an attempt of a stage and those before it have done."""
    if not document.application.tasks:
        return ()
    runs = runtime.dispatcher.runs.of_execution(id_, state=RunState.EXITED.value)
    return tuple(sorted({*document.done, *(run.task for run in runs if run.task is not None)}))


def _again(
    job: str, row: ApplicationRow, document: Document, ids: Mapping[str, str], now_ms: int
) -> ApplicationRow:
    """Return a row that runs a stage again, after those of its run that do so before it."""
    before = (_name_in(job, need) for need in document.needs)
    needs = tuple(ids[name] for name in before if name in ids)
    return ApplicationRow(
        id=ids[document.application.name],
        tenant=row.tenant,
        submitted_ms=now_ms,
        document=encode_document(replace(document, needs=needs, on_late="")),
        pipeline=job,
        run=row.run,
    )


@dataclass(frozen=True, slots=True)
class _Job:
    """A pipeline as requested: the request, its row, and those of its only run's stages.

    Attributes
    ----------
    made
        The applications of a run.
    """

    ask: Ask
    pipeline: PipelineRow
    made: tuple[StageApplication, ...]
    rows: tuple[ApplicationRow, ...]

    @property
    def id(self) -> str:
        """Of its reservation."""
        return self.ask.request.id

    def body(self, answer: ReservationAnswer, notes: list[str]) -> bytes:
        """Return the answer for its client."""
        document = msgspec.json.decode(self.pipeline.document, type=PipelineDocument)
        recurs = not self.rows
        stages = [_stage_of(self.id, row) for row in self.rows] or _planned(self.id, self.made)
        shown = {
            "id": self.id,
            "reservation": answer.to_json(),
            "stages": stages,
            "notes": notes,
            "recurs": recurs,
            "overlap": document.overlap.value,
            "runs": self.pipeline.runs,
            "next_at": None,
            "deadline_at": None,
            "slack": None,
            "reason": "",
        }
        return msgspec.json.encode(shown)


def _create(runtime: Runtime, body: PipelineRequest, key: Key | None, *, dry_run: bool) -> Response:
    job = _read_job(runtime, body)
    known = _check_known(runtime, job)
    notes = _notes_of(runtime)

    def render(answers: Sequence[Answer]) -> Response:
        (answer,) = answers
        if isinstance(answer, ProblemDocument):
            return problem_response(answer)
        assert isinstance(answer, ReservationAnswer)
        if answer.known and not known:
            return problem_response(_taken(job.id, "reservation").document)
        location = {"Location": f"/v1/pipelines/{job.id}"}
        is_new = not (dry_run or answer.known)
        return Response(201 if is_new else 200, job.body(answer, notes), location if is_new else {})

    command = Admission((job.ask,), atomic=True)  # what is refused leaves nothing
    if dry_run:
        return render(runtime.planner.rehearse(command))
    runtime.require_dispatcher()
    actor, at_ms = present_actor(), runtime.clock_ms()
    audited = [AuditRow(actor, at_ms, "submit_application", row.id, row.tenant) for row in job.rows]
    try:
        response = respond(
            runtime.planner, command, render, key, [job.pipeline, *job.rows, *audited]
        )
    except IdTakenError as error:
        stored = None if key is None else recall(runtime.planner, key)
        if stored is not None:
            return stored
        what = "pipeline" if str(error) == job.id else "application"
        raise _taken(str(error), what) from error
    runtime.dispatcher.nudge()
    return response


def _read_job(runtime: Runtime, body: PipelineRequest) -> _Job:
    """Return the request of a body; all of its errors are reported together.

    Raises
    ------
    ApiProblemError
        ``malformed``, or the errors of :func:`read_ask`; ``wrong_state`` for what this server's
        back-end does not carry out.
    """
    problems: FileProblems = FileProblems()
    stages = read_stages(body.stages, problems)
    faults: ProblemList[ApiError] = ProblemList()
    ask = None
    try:
        ask = read_ask(runtime, body, margin_ms=body.margin)
    except ApiProblemError as error:
        if error.document.code != Code.MALFORMED:
            raise
        faults.extend(error.document.errors)
    made: tuple[StageApplication, ...] = ()
    if ask is not None:
        made = applications_of(ask.request.id, ask.expression, stages, problems)
    if ask is not None and body.overlap is not None and recurrence_of(ask.expression) is None:
        detail = "overlap applies to recurring jobs, and this request has no every(...)"
        faults.append(ApiError(detail, Code.MALFORMED, pointer="/overlap", fix="leave it out"))
    if problems:
        faults.extend(problem_of_file(FileError("pipeline", problems)).document.errors)
    if faults:
        raise malformed_problem(faults)
    assert ask is not None
    named = [(f"/stages/{part.name}", part) for one in made for part in one.application.core]
    others = [f"/stages/{one.name}/on_late" for one in stages if one.on_late]
    others += [f"/stages/{one.name}/tasks" for one in stages if one.tasks]
    check_backend(runtime, named, others)
    if any(component.image is not None for _, component in named):
        with runtime.reading() as plan:
            cluster = plan.cluster
        check_images(runtime, named, cluster)
    request = ask.request
    recurs = recurrence_of(ask.expression) is not None
    overlap = Overlap(body.overlap or Overlap.QUEUE)
    document = PipelineDocument(body.stages, request.queue, overlap, body.margin)
    pipeline = PipelineRow(
        id=request.id,
        tenant=request.tenant,
        submitted_ms=runtime.now_ms(),
        document=msgspec.json.encode(document, order="deterministic"),
        runs=0 if recurs else 1,
        over=not recurs,
    )
    if recurs:
        return _Job(ask, pipeline, made, ())
    rows = tuple(
        ApplicationRow(
            id=one.id,
            tenant=request.tenant,
            submitted_ms=pipeline.submitted_ms,
            pipeline=request.id,
            document=encode_document(
                Document(
                    one.application,
                    one.after,
                    close_on_end=True,
                    queue=request.queue,
                    needs=one.needs,
                    awaits_slot=True,
                    on_late=one.on_late,
                )
            ),
        )
        for one in made
    )
    return _Job(ask, pipeline, made, rows)


def _check_known(runtime: Runtime, job: _Job) -> bool:
    """Return whether this very pipeline was made before.

    Raises
    ------
    ApiProblemError
        ``duplicate_id`` where its id, or that of a stage, is another's.
    """
    known = runtime.dispatcher.store.pipelines.get(job.id)
    if known is not None:
        if (known.tenant, known.document) == (job.pipeline.tenant, job.pipeline.document):
            return True
        raise _taken(job.id, "pipeline")
    applications = runtime.dispatcher.rows
    taken = [row.id for row in job.rows if applications.get(row.id) is not None]
    if not job.rows:  # of later runs, too, nothing else may have the ids of stages
        if applications.ids_starting_with(f"{job.id}.", limit=1):
            taken = [f"{job.id}. ..."]  # it may be another tenant's
        elif runtime.dispatcher.store.pipelines.sharing_ids(job.id) is not None:
            detail = (
                f"stages of {job.id!r} could have the same ids as those of another pipeline, "
                "whose id is the same up to a dot"
            )
            fix = "choose an id with another beginning"
            error = ApiError(detail, Code.DUPLICATE_ID, pointer="/id", fix=fix)
            raise problem(Code.DUPLICATE_ID, detail, [error])
    if taken:
        raise _taken(taken[0], "application")
    return False


def _taken(id_: str, what: str) -> ApiProblemError:
    detail = f"there is {'an' if what[0] == 'a' else 'a'} {what} {id_!r} already"
    return problem(
        Code.DUPLICATE_ID,
        detail,
        [ApiError(detail, Code.DUPLICATE_ID, pointer="/id", fix="choose another id")],
    )


def _notes_of(runtime: Runtime) -> list[str]:
    if runtime.config.executors or runtime.config.slurm is not None:
        return []
    return [
        "this server has no executors: stages run in memory only, and no command is started "
        "(docs/executors.md)"
    ]
