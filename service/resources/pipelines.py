"""Pipelines: a reservation, and the applications of its stages, made together or not at all.

The applications are rows in the transaction of the commit that admits the reservation. So a request
that is refused leaves nothing, and one that is granted is dispatched whatever is killed meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec

from dispatch.executions.job_file import StageApplication, applications_of, read_stages
from planner.files.errors import FileError, FileProblems
from planner.placement import Code
from rdl.errors import ProblemList
from service.access.actor import present_actor
from service.access.user import User
from service.asks import EXAMPLE, ReservationRequest, read_ask
from service.commits.commands import Admission, Answer, Ask, Key, ReservationAnswer
from service.dispatching.documents import Document, encode_document, read_document
from service.http.kinds import any_value
from service.http.kit import Answer as Shown
from service.http.kit import Calls, Count, Input, Once, OpenAnswer, doc, one_of
from service.http.route import links_from
from service.problems import (
    ApiError,
    ApiProblemError,
    ProblemDocument,
    malformed_problem,
    problem,
    problem_of_file,
)
from service.rendering import recall, respond
from service.resources.applications import application_states, check_slurm, show_applications
from service.resources.reservation_pages import ReservationView
from service.resources.reservations import PLACING, DryRun
from service.response import Response, problem_response
from service.runtime import Runtime
from service.store import ApplicationRow, AuditRow, IdTakenError

_STAGES: Final = {"load": {"command": ["./load.sh"], "retries": 2, "timeout": "30m"}}
_EXAMPLE: Final = {**EXAMPLE, "rdl": f"load: {EXAMPLE['rdl']}", "stages": _STAGES}
_STAGES_SCHEMA: Final = {
    "type": "object",
    "minProperties": 1,
    "additionalProperties": {"type": "object"},
    "examples": [_STAGES],
}


class PipelineRequest(ReservationRequest, kw_only=True):
    """What POST /v1/reservations takes, and what each stage of it runs."""

    stages: Annotated[
        Any,
        any_value(_STAGES_SCHEMA),
        doc(
            "By the name of its atom: `command` (a script, or a list of words), `environment`, "
            "`directory`, `retries`, `backoff`, `timeout`, `success` (docs/dispatch.md)."
        ),
    ]


class StageView(OpenAnswer, kw_only=True):
    name: str
    application: Annotated[str, doc("Id of the application that runs it.")]
    atom: Annotated[str, doc("Path of its atom, or of its together, in the request.")]
    after: Annotated[list[str], doc("Stages that have to succeed before it starts.")]
    state: Annotated[str, one_of(application_states())]
    reason: Annotated[str, doc("Why it waits, or how it ended.")] = ""
    retries: Annotated[Count, doc("How often it was started again after a failure.")] = 0


class PipelineView(Shown):
    id: Annotated[str, doc("Of the reservation.")]
    reservation: ReservationView
    stages: Annotated[list[StageView], doc("In the order of the request.")]
    notes: Annotated[list[str], doc("What its owner should know of how it runs.")]


class PipelineQuery(Input):
    dry_run: DryRun = False


calls = Calls()


@calls.post(
    "/v1/pipelines",
    "The reservation is promised, its stages are submitted, and all of it is on disk.",
    status=201,
    also={200: "It would be promised (dry_run), or was made by this very request before."},
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
    links=links_from("$response.body#/id", "getPipeline", "getReservation", "cancelReservation"),
    examples={"one stage": _EXAMPLE},
)
def create_pipeline(
    runtime: Runtime, body: PipelineRequest, once: Once, query: PipelineQuery
) -> Annotated[Response, PipelineView]:
    """Reserve for a pipeline and submit its stages, all or nothing."""
    return once(lambda key: _create(runtime, body, key, dry_run=query.dry_run))


@calls.get("/v1/pipelines/{id}", "The pipeline.", fails=("not_found",))
def get_pipeline(runtime: Runtime, user: User, id_: str) -> PipelineView:
    """One pipeline: its reservation, and how far its stages are."""
    with runtime.reading() as plan:
        found = plan.reservation(id_)
        grid = plan.grid
    if found is not None and not user.acts_for(found.tenant):
        found = None
    rows = [] if found is None else runtime.dispatcher.rows.starting_with(f"{id_}.")
    stages = [one for row in rows if (one := _stage_of(id_, row)) is not None]
    if found is None or not stages:
        raise problem("not_found", f"there is no pipeline {id_!r}")
    paths = [one.path for one in found.atoms]
    order = {one.atom: _place_of(paths, one.atom) for one in stages}
    stages.sort(key=lambda one: order[one.atom])
    shown = {one.id: one for one in show_applications(runtime, rows)}
    for stage in stages:
        view = shown[stage.application]
        stage.state, stage.reason, stage.retries = view.state, view.reason, view.retries
    reservation = msgspec.convert(found.to_json(grid), ReservationView)
    return PipelineView(id=id_, reservation=reservation, stages=stages, notes=_notes_of(runtime))


def _place_of(paths: Sequence[str], atom: str) -> int:
    """Return the place of an atom, or of the first atom of a `together`, by its path."""
    below = f"{atom}." if atom else ""
    return next((place for place, one in enumerate(paths) if f"{one}.".startswith(below)), 0)


def _stage_of(job: str, row: ApplicationRow) -> StageView | None:
    """Return the stage that an application is of a pipeline; None if it is none."""
    document = read_document(row.document)
    application = document.application
    if application.reservation != job or row.id != f"{job}.{application.name}":
        return None
    return StageView(
        name=application.name,
        application=row.id,
        atom=application.atom or "",
        after=[one.removeprefix(f"{job}.") for one in document.needs],
        state=row.state,
    )


@dataclass(frozen=True, slots=True)
class _Job:
    """A pipeline as requested: the request, and the rows of its stages."""

    ask: Ask
    rows: tuple[ApplicationRow, ...]

    @property
    def id(self) -> str:
        """Of its reservation."""
        return self.ask.request.id

    def body(self, answer: ReservationAnswer, notes: list[str]) -> bytes:
        """Return what its client is sent."""
        stages = [_stage_of(self.id, row) for row in self.rows]
        shown = {"id": self.id, "reservation": answer.to_json(), "stages": stages, "notes": notes}
        return msgspec.json.encode(shown)


def _create(runtime: Runtime, body: PipelineRequest, key: Key | None, *, dry_run: bool) -> Response:
    job = _read_job(runtime, body)
    known = [one for row in job.rows if (one := runtime.dispatcher.rows.get(row.id)) is not None]
    _check_known(job.rows, known)
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
        response = respond(runtime.planner, command, render, key, [*job.rows, *audited])
    except IdTakenError as error:
        stored = None if key is None else recall(runtime.planner, key)
        if stored is not None:
            return stored
        raise _taken(str(error), "application") from error
    runtime.dispatcher.nudge()
    return response


def _read_job(runtime: Runtime, body: PipelineRequest) -> _Job:
    """Return what a body asks for; everything that is wrong with it is reported together.

    Raises
    ------
    ApiProblemError
        ``malformed``, or what :func:`read_ask` raises; ``wrong_state`` for what this server's
        back-end does not carry out.
    """
    problems: FileProblems = FileProblems()
    stages = read_stages(body.stages, problems)
    faults: ProblemList[ApiError] = ProblemList()
    ask = None
    try:
        ask = read_ask(runtime, body)
    except ApiProblemError as error:
        if error.document.code != Code.MALFORMED:
            raise
        faults.extend(error.document.errors)
    made: tuple[StageApplication, ...] = ()
    if ask is not None:
        made = applications_of(ask.request.id, ask.expression, stages, problems)
    if problems:
        faults.extend(problem_of_file(FileError("pipeline", problems)).document.errors)
    if faults:
        raise malformed_problem(faults)
    assert ask is not None
    named = [(f"/stages/{one.application.name}", one.application.components[0]) for one in made]
    check_slurm(runtime, named)
    request = ask.request
    rows = tuple(
        ApplicationRow(
            id=one.id,
            tenant=request.tenant,
            submitted_ms=runtime.now_ms(),
            document=encode_document(
                Document(
                    one.application,
                    one.after,
                    close_on_end=True,
                    queue=request.queue,
                    needs=one.needs,
                    awaits_slot=True,
                )
            ),
        )
        for one in made
    )
    return _Job(ask, rows)


def _check_known(rows: Sequence[ApplicationRow], known: Sequence[ApplicationRow]) -> None:
    """Refuse ids of applications that are taken, unless by this very request before."""
    documents = {row.id: row.document for row in rows}
    same = len(known) == len(rows) and all(documents[one.id] == one.document for one in known)
    if known and not same:
        raise _taken(known[0].id, "application")


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
