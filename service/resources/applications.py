"""Applications: submit, show and end them."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from dispatch.applications.application import SUCCESS, Application, Component
from dispatch.applications.document import COVERS, application_from_json, application_to_json
from dispatch.applications.zapp import application_from_zapp
from dispatch.cycle.cover import cover_faults, names_atom, without_occurrences
from dispatch.cycle.quota_book import owner_text
from dispatch.cycle.uncovered import WAITS_FOR_ROOM
from dispatch.entitlements.directive import Entitlement
from dispatch.entitlements.follower import MOST_AHEAD, PlanFollower
from dispatch.executions.predecessors import predecessors_of
from dispatch.executions.states import ExecutionState
from dispatch.machines.machine_pool import MachinePool
from planner.cluster.cluster import DEFAULT_QUEUE, Cluster
from planner.cluster.policy import ApplicationQuota
from planner.files import FileError
from planner.placement import Code
from planner.plan.plan import Plan
from planner.reservations.reservation import Reservation
from planner.reservations.state import LIVE, State
from rdl.compile.source import read_source
from rdl.errors import ProblemList, did_you_mean
from rdl.expressions import Expression, Together, children_of
from rdl.names import PartNames
from rdl.resources import format_amount
from rdl.time_grid import duration_text
from service.access.user import User, present_actor
from service.commits.commands import Key
from service.dispatching.documents import Document, counted_in, encode_document, read_document
from service.http.kinds import Flag, Id, Word, any_value, choice, integer, matching
from service.http.kit import (
    Answer,
    Calls,
    Count,
    Input,
    Instant,
    Once,
    OpenAnswer,
    doc,
    one_of,
)
from service.http.route import links_from
from service.ownership import own_filter, require_own, tenant_of
from service.problems import ApiError, ApiProblemError, detail_of, problem, problem_of_file
from service.rendering import recall, stored_answer
from service.resources.executors import NO_EXECUTOR, machines_without_images, served_machines
from service.response import Response
from service.runtime import Runtime
from service.store import ApplicationRow, AuditRow, IdTakenError, Judge, PageOf, Submitted

logger = logging.getLogger("agenda.service")

_EXAMPLE: Final = {
    "name": "workers",
    "components": [{"name": "worker", "count": 2, "core": True, "resources": {"cpu": 1}}],
}
_STATES: Final = tuple(state.value for state in ExecutionState)
_CURSOR: Final = matching(
    re.compile(r"(-?[0-9]{1,17}):([A-Za-z0-9_.:@+~-]{1,128})"),
    "is not a cursor; send the `next` of the previous page",
    lambda match: (int(match[1]), match[2]),
)


class Submission(Input, kw_only=True):
    id: Annotated[Id | None, doc("Unique among applications; default: chosen by the server.")] = (
        None
    )
    tenant: Annotated[
        Word | None,
        doc("The tenant that submits it; default: the caller's only one, or `default`."),
    ] = None
    queue: Annotated[
        Word | None,
        doc(
            "The queue in which policies count it; default: that of its reservation, or `default`."
        ),
    ] = None
    reservation: Annotated[
        Word | None,
        doc("The reservation it runs under; default: the one that the application names."),
    ] = None
    atom: Annotated[Word | None, doc("Path of the atom of the reservation that it runs under.")] = (
        None
    )
    close_on_end: Annotated[
        Flag,
        doc("Close its reservation when it has completed and no other application uses it."),
    ] = False
    cover: Annotated[
        str | None,
        choice(COVERS),
        doc(
            "Whether its reservation must cover it; with `none` it runs as best effort. "
            "Default: the application's value."
        ),
    ] = None
    application: Annotated[
        Any,
        any_value({"type": "object", "examples": [_EXAMPLE]}),
        doc("Agenda's own form (docs/dispatch.md), or a ZApp of format 3."),
    ]


class ApplicationQuery(Input):
    state: Annotated[str | None, choice(_STATES), doc("Only in this state.")] = None
    tenant: Annotated[Word | None, doc("Only of this tenant.")] = None
    cursor: Annotated[tuple[int, str] | None, _CURSOR, doc("The `next` of the previous page.")] = (
        None
    )
    limit: Annotated[int, integer(1, 1000), doc("Maximum number of entries.")] = 100


class ComponentView(OpenAnswer, kw_only=True):
    name: str
    core: bool
    wanted: Count
    grown: Annotated[Count | UnsetType, doc("Components above the requested number.")] = UNSET
    assigned: Annotated[Count, doc("Components that have a machine.")]
    running: Annotated[Count, doc("Components that have started.")]
    covered: Annotated[Count, doc("Components under a reservation.")]
    reason: Annotated[str | UnsetType, doc("Why not all of them can run.")] = UNSET


class TaskCounts(OpenAnswer):
    count: Count
    done: Annotated[Count, doc("Tasks that have succeeded.")]
    failed: Annotated[Count, doc("Tasks whose last retry has failed.")]
    left: Annotated[Count, doc("Tasks that run or wait to run.")]


class ApplicationView(OpenAnswer):
    id: str
    tenant: str
    queue: Annotated[str, doc("Policies count it in this queue.")]
    submitted: Annotated[float, doc("Seconds from the origin.")]
    submitted_at: Instant
    state: Annotated[str, one_of(_STATES)]
    reason: Annotated[str, doc("Reason why it waits, or of its end.")]
    started: Annotated[float | None, doc("Seconds from the origin.")]
    ended: Annotated[float | None, doc("Seconds from the origin.")]
    retries: Annotated[Count, doc("Number of restarts after a failure of its own.")]
    tasks: Annotated[
        TaskCounts | None, doc("Counts of its tasks, if it has tasks and has started.")
    ]
    components: list[ComponentView]
    notes: Annotated[list[str], doc("Warnings for its owner.")]
    application: Annotated[dict[str, Any], doc("As submitted, in Agenda's form.")]


class ApplicationPage(OpenAnswer):
    applications: list[ApplicationView]
    next: Annotated[str | None, doc("Cursor of the next page.")]


class RunList(Answer):
    runs: list[dict[str, Any]]


calls = Calls()


@calls.post(
    "/v1/applications",
    "The application is on disk and will be dispatched.",
    status=201,
    fails=(
        Code.MALFORMED,
        "not_found",
        Code.DUPLICATE_ID,
        "wrong_state",
        "not_covered",
        Code.UNSATISFIABLE,
        Code.QUOTA,
        Code.COUNT_LIMIT,
        "idempotency_mismatch",
    ),
    headers={"Location": "Path of the application."},
    links=links_from(
        "$response.body#/id",
        "getApplication",
        "endApplication",
        "listRuns",
        "getLogs",
        "estimateStart",
    ),
    examples={"two workers": {"application": _EXAMPLE}},
)
def create_application(
    runtime: Runtime, body: Submission, once: Once
) -> Annotated[Response, ApplicationView]:
    """Submit an application; 201 means it is on disk and will be dispatched."""
    return once(lambda key: _submit(runtime, body, key))


@calls.get("/v1/applications", "A page of applications.", fails=(Code.MALFORMED,))
def list_applications(runtime: Runtime, user: User, query: ApplicationQuery) -> ApplicationPage:
    """Applications by submission, a page at a time."""
    tenant = own_filter(user, query.tenant)
    wanted = PageOf(query.cursor, query.state, tenant, query.limit + 1, user.scope)
    rows = runtime.dispatcher.rows.page(wanted)
    here = rows[: query.limit]
    more = len(rows) > query.limit
    cursor = f"{here[-1].submitted_ms}:{here[-1].id}" if more else None
    return ApplicationPage(applications=show_applications(runtime, here), next=cursor)


@calls.get("/v1/applications/{id}", "The application.", fails=("not_found",))
def get_application(runtime: Runtime, id_: str) -> ApplicationView:
    """One application and its state."""
    return show_applications(runtime, [own_application(runtime, id_)])[0]


@calls.delete(
    "/v1/applications/{id}",
    "The application is ending or has ended.",
    status=202,
    fails=("not_found",),
)
def end_application(runtime: Runtime, id_: str) -> ApplicationView:
    """End an application: its components are stopped at the next tick."""
    done = _audit_row(runtime, own_application(runtime, id_), "end_application")
    row = runtime.dispatcher.rows.end(id_, done)
    if row is None:
        raise problem("not_found", f"there is no application {id_!r}")
    runtime.dispatcher.nudge()
    return _shown(runtime, row)


@calls.get("/v1/applications/{id}/runs", "The runs, oldest first.", fails=("not_found",))
def list_runs(runtime: Runtime, id_: str) -> RunList:
    """Every run of a component of an application: machine, start and outcome."""
    own_application(runtime, id_)

    def at(ms: int | None) -> str | None:
        return None if ms is None else runtime.calendar(ms)

    return RunList(
        runs=[
            {
                "id": run.id,
                "component": run.component,
                "index": run.number,
                "task": run.task,
                "machine": run.machine,
                "state": run.state.value,
                "wanted": run.wanted,
                "code": run.code,
                "detail": run.detail,
                "since_at": at(run.since_ms),
                "started_at": at(run.started_ms),
                "ended_at": at(run.ended_ms),
            }
            for run in runtime.dispatcher.runs.of_execution(id_)
        ]
    )


def _submit(runtime: Runtime, body: Submission, key: Key | None) -> Response:
    """Store an application and have it dispatched; return it in the form of answers.

    Under a key the answer is stored with it: of two concurrent submissions the later one receives
    the answer of the earlier.
    """
    _check_id(runtime, body.id)
    row, judge = _row_of(runtime, body)
    headers = {"Location": f"/v1/applications/{row.id}"}
    response = Response(201, msgspec.json.encode(_shown(runtime, row)), headers)
    kept = None if key is None else stored_answer(key, response, runtime.clock_ms())
    try:
        done = _audit_row(runtime, row, "submit_application")
        runtime.dispatcher.rows.add(row, kept, judge, done)
    except IdTakenError as error:
        known = None if key is None else recall(runtime.planner, key)
        if known is not None:
            return known
        raise problem(Code.DUPLICATE_ID, f"application {row.id!r} already exists") from error
    runtime.dispatcher.nudge()
    return response


def _check_id(runtime: Runtime, id_: str | None) -> None:
    """Refuse an id that a stage of a later run of a pipeline will have."""
    job, mark, _ = ("", "", "") if id_ is None else id_.rpartition("@")
    while mark and "." in job:
        job = job.rpartition(".")[0]
        if runtime.dispatcher.store.pipelines.get(job) is not None:
            detail = f"ids such as {id_!r} are reserved for the runs of pipeline {job!r}"
            raise problem(Code.DUPLICATE_ID, detail)


def _audit_row(runtime: Runtime, row: ApplicationRow, kind: str) -> AuditRow:
    return AuditRow(present_actor(), runtime.clock_ms(), kind, row.id, row.tenant)


def _row_of(runtime: Runtime, asked: Submission) -> tuple[ApplicationRow, Judge | None]:
    """Return the row of a submission that the cluster, its reservation and quotas can carry.

    Also returns a function that must count the others before the row is written.
    """
    user = present_actor().user
    application, tenant = _read(asked), tenant_of(user, asked.tenant, "")
    at = "" if asked.atom else "/application"
    with runtime.reading() as plan:
        cluster = plan.cluster
        if application.reservation is not None:
            require_own(plan, user, application.reservation)
        application = _with_paths(plan, application)
        after = _check_reservation(plan, application, tenant, f"{at}/atom")
        queue = _queue_of(plan, application, asked.queue)
    pool = MachinePool(cluster)
    parts = [
        (f"/application/components/{index}", part)
        for index, part in enumerate(application.components)
    ]
    check_backend(runtime, parts, ["/application/tasks"] if application.tasks else ())
    check_images(runtime, parts, cluster)
    _check_machines(application, pool)
    _check_cover(runtime, application, pool)
    _check_alone(cluster, application, tenant, queue)
    row = ApplicationRow(
        id=asked.id or runtime.new_id().replace("r-", "a-", 1),
        tenant=tenant,
        submitted_ms=runtime.now_ms(),
        document=encode_document(Document(application, after, asked.close_on_end, queue)),
    )
    return row, _count_judge(cluster, application, tenant, queue)


def check_backend(
    runtime: Runtime,
    components: Iterable[tuple[str, Component]],
    others: Iterable[str] = (),
) -> None:
    """Refuse what Slurm and Kubernetes do not carry out; each component comes with its pointer.

    Parameters
    ----------
    others
        Pointers of keys of stages or applications that are not carried out either.

    Raises
    ------
    ApiProblemError
        ``wrong_state`` with every such key.
    """
    of_slurm = runtime.config.slurm is not None
    if not of_slurm and runtime.config.kubernetes is None:
        return
    where = "a Slurm" if of_slurm else "Kubernetes"
    errors: ProblemList[ApiError] = ProblemList()
    for pointer, component in components:
        given = {
            "directory": of_slurm and component.directory is not None,
            "timeout": of_slurm and component.timeout_ms is not None,
            "success": component.success != SUCCESS,
        }
        for key in (key for key, is_given in given.items() if is_given):
            detail = f"on {where} a component has no {key}"
            fix = "write it into the command"
            errors.append(ApiError(detail, "wrong_state", pointer=f"{pointer}/{key}", fix=fix))
        if not of_slurm and component.image is None:
            detail = "on Kubernetes a component needs an image"
            errors.append(ApiError(detail, "wrong_state", pointer=pointer, fix="name an image"))
    for pointer in others:
        key = pointer.rpartition("/")[2]
        if of_slurm or key == "tasks":
            detail = f"on {where} a component has no {key}"
            errors.append(ApiError(detail, "wrong_state", pointer=pointer, fix="leave it out"))
    if errors:
        raise problem("wrong_state", detail_of(errors), errors)


def check_images(
    runtime: Runtime, components: Iterable[tuple[str, Component]], cluster: Cluster
) -> None:
    """Refuse images if no executor runs them; each component comes with its pointer.

    Raises
    ------
    ApiProblemError
        ``wrong_state`` with every such component.
    """
    errors: ProblemList[ApiError] = ProblemList()
    for pointer, component in components:
        detail, fix = "", "write a command instead of the image"
        if component.image is not None and runtime.config.slurm is not None:
            detail = "on Slurm a component runs a command, not an image"
        elif component.image is not None and runtime.config.executors:
            groups = (one for one in cluster.machines if component.labels <= one.labels)
            names = (name for group in groups for name in group.machine_names())
            without = machines_without_images(runtime, names)
            if without is None:
                detail = "no executor has podman or docker, so no host runs images"
                fix = "install one of them and restart the executor"
            elif without:
                detail = (
                    f"{without[0]} has neither podman nor docker, and the component may be "
                    f"placed there"
                )
                fix = "give the component a label that only machines with podman or docker have"
        if detail:
            errors.append(ApiError(detail, "wrong_state", pointer=f"{pointer}/image", fix=fix))
    if errors:
        raise problem("wrong_state", detail_of(errors), errors)


def _queue_of(plan: Plan, application: Application, named: str | None) -> str:
    """Return the queue that is requested; without one that of its reservation, or the usual one."""
    known = [queue.name for queue in plan.cluster.queues]
    if named is not None and named not in known:
        told = f"there is no queue {named!r}"
        fix = did_you_mean(named, known)
        raise problem(Code.MALFORMED, told, [ApiError(told, pointer="/queue", fix=fix)])
    if application.reservation is not None:
        found = plan.reservation(application.reservation)
        assert found is not None
        if named not in (None, found.queue):
            told = f"{found.id!r} is reserved in queue {found.queue!r}"
            raise problem("wrong_state", told, [ApiError(told, "wrong_state", pointer="/queue")])
        return found.queue
    return named or (DEFAULT_QUEUE if DEFAULT_QUEUE in known else known[0])


def own_application(runtime: Runtime, id_: str) -> ApplicationRow:
    """Return the row of an application of a tenant that the caller acts for."""
    row = runtime.dispatcher.rows.get(id_)
    if row is None or not present_actor().user.acts_for(row.tenant):
        raise problem("not_found", f"there is no application {id_!r}")
    return row


def application_states() -> tuple[str, ...]:
    """Return the states that an application may be shown in."""
    return _STATES


def show_applications(runtime: Runtime, rows: Sequence[ApplicationRow]) -> list[ApplicationView]:
    """Return applications; those that wait for capacity while no executor reports say that."""
    shown = [_shown(runtime, row) for row in rows]
    waiting = [one for one in shown if one.reason == WAITS_FOR_ROOM]
    if waiting and not served_machines(runtime):
        for one in waiting:
            one.reason = NO_EXECUTOR
    return shown


def _shown(runtime: Runtime, row: ApplicationRow) -> ApplicationView:
    document = read_document(row.document)
    status: dict[str, Any] = {
        "reason": "", "started": None, "ended": None, "retries": 0, "tasks": None, "components": [],
    }  # fmt: skip
    written = msgspec.json.decode(row.status)
    status |= {name: value for name, value in written.items() if name in status}
    return ApplicationView(
        id=row.id,
        tenant=row.tenant,
        queue=document.queue,
        submitted=row.submitted_ms / 1000,
        submitted_at=runtime.calendar(row.submitted_ms),
        state="ending" if row.unwanted and not row.over else row.state,
        **status,
        notes=_notes_of(document.application),
        application=application_to_json(document.application),
    )


def _notes_of(application: Application) -> list[str]:
    if application.covered:
        return []
    return ['cover is "none": it runs as best effort, and its reservation does not cover it']


def _read(asked: Submission) -> Application:
    """Read Agenda's own form or a ZApp; `reservation` and `atom` alongside it win."""
    given = asked.application
    is_zapp = isinstance(given, Mapping) and "services" in given
    try:
        application = application_from_zapp(given) if is_zapp else application_from_json(given)
    except FileError as error:
        raise problem_of_file(error, "/application", "the application cannot be read") from error
    reservation = asked.reservation or application.reservation
    atom = asked.atom or application.atom
    covered = application.covered and asked.cover != COVERS[1]
    if asked.close_on_end and not covered:
        detail = "an application that its reservation does not cover cannot close it"
        api_error = ApiError(detail, pointer="/close_on_end", fix="remove one of them")
        raise problem(Code.MALFORMED, detail, [api_error])
    bound = next((at for at, one in enumerate(application.components) if one.atom), None)
    for is_asked, pointer in (
        (atom is not None, "/atom"),
        (bound is not None, f"/application/components/{bound}/atom"),
        (asked.close_on_end, "/close_on_end"),
    ):
        if is_asked and reservation is None:
            fix = "name the reservation that it runs under"
            api_error = ApiError(
                f"{pointer.rpartition('/')[2]} is requested but no reservation",
                pointer=pointer,
                fix=fix,
            )
            raise problem(Code.MALFORMED, api_error.message, [api_error])
    return replace(application, reservation=reservation, atom=atom, covered=covered)


def _with_paths(plan: Plan, application: Application) -> Application:
    """Return an application with paths where it, or a component, calls an atom by its name."""
    found = None if application.reservation is None else plan.reservation(application.reservation)
    is_named = application.atom or any(one.atom for one in application.components)
    if found is None or not is_named:
        return application
    expression = read_source(found.expression)
    names = PartNames(expression)
    known = _nameable(expression, found)

    def path_of(atom: str | None) -> str | None:
        if atom is None or atom in known:
            return atom
        return next((path for path in known if names.at(path) == atom), atom)

    components = tuple(replace(one, atom=path_of(one.atom)) for one in application.components)
    return replace(application, atom=path_of(application.atom), components=components)


def _nameable(expression: Expression, found: Reservation) -> list[str]:
    """Return the paths that may cover something: of atoms held, then each `together` of them.

    With the numbers of occurrences, then without.
    """
    paths = [path for one in found.atoms for path, _ in one.occurrences()]
    paths += [without_occurrences(path) for path in paths]
    groups = (path.rpartition(".")[0] for path in paths)
    togethers = [path for path in groups if path and _is_together(expression, path)]
    return list(dict.fromkeys([*paths, *togethers]))


def _is_together(expression: Expression, path: str) -> bool:
    here = expression
    for step in path.split("."):
        here = children_of(here)[int(step.partition("@")[0])]
    return isinstance(here, Together)


def _check_reservation(
    plan: Plan, application: Application, tenant: str, pointer: str
) -> tuple[str, ...]:
    """Return the atoms before its own; the reservation must be live, of the tenant, and have it."""
    name = application.reservation
    if name is None:
        return ()
    found = plan.reservation(name)
    if found is None:
        raise problem("not_found", f"there is no reservation {name!r}")
    if found.tenant != tenant:
        api_error = ApiError(
            f"{name!r} is a reservation of tenant {found.tenant!r}", pointer="/tenant"
        )
        raise problem("wrong_state", api_error.message, [api_error])
    if found.state not in LIVE:
        raise problem("wrong_state", f"{name!r} is {found.state.value}: it promises nothing")
    expression = read_source(found.expression)
    known, after = _nameable(expression, found), tuple[str, ...]()
    components = "/application/components"
    bound = [(one.atom, f"{components}/{at}/atom") for at, one in enumerate(application.components)]
    for atom, where in ((application.atom, pointer), *bound):
        if atom is not None and atom not in known:
            raise _no_such_atom(expression, found, atom, where)
        if atom is not None and not names_atom(atom, application.atom or atom):
            message = f"{atom!r} is not part of {application.atom!r}, which the application names"
            raise problem("not_found", message, [ApiError(message, "not_found", pointer=where)])
    if application.atom is not None:
        after = predecessors_of(expression, application.atom)
    return after


def _no_such_atom(
    expression: Expression, found: Reservation, atom: str, pointer: str
) -> ApiProblemError:
    """Return the refusal of an atom that a reservation does not hold, with those that it does."""
    try:
        predecessors_of(expression, atom)
        message = f"{found.id!r} has no allocation at {atom!r}"
    except ValueError as error:
        message = str(error)
    names = PartNames(expression)
    called = [(names.at(one.path), one.path) for one in found.atoms]
    # A part without a name is called by what it needs, which no one would write here.
    known = sorted({path if name is None or "<" in name else name for name, path in called})
    fix = did_you_mean(atom, known) if known else None
    return problem("not_found", message, [ApiError(message, "not_found", pointer=pointer, fix=fix)])


def _check_cover(runtime: Runtime, application: Application, pool: MachinePool) -> None:
    """Refuse an application whose cores its reservation cannot cover at any time from now on.

    A degraded reservation without capacity and a best-effort session are not checked. Most
    applications are covered by the first entitlement. The Plan is not locked during the check.
    """
    name = application.entitled_by
    if name is None:
        return
    first = _ahead_of(runtime, name, 1)
    if first and not cover_faults(first, application, pool):
        return
    ahead = _ahead_of(runtime, name, MOST_AHEAD)
    with runtime.reading() as plan:
        found = plan.reservation(name)
    is_unjudged = found is None or found.state is State.DEGRADED or not found.atoms
    if not ahead and is_unjudged:
        return
    errors = [
        ApiError(
            fault.detail,
            "not_covered",
            pointer="/application/components"
            + ("" if fault.component is None else f"/{fault.component}"),
            fix=fault.fix,
        )
        for fault in cover_faults(ahead, application, pool)
    ]
    if errors:
        detail = f"reservation {name!r} cannot cover the core components of this application"
        raise problem("not_covered", detail, errors)


def _ahead_of(runtime: Runtime, reservation: str, most: int) -> list[Entitlement]:
    with runtime.reading() as plan:
        ahead = PlanFollower(plan).ahead(reservation)
        return [entitlement for _, entitlement in islice(ahead, most)]


def _check_machines(application: Application, pool: MachinePool) -> None:
    errors = [
        ApiError(why, Code.UNSATISFIABLE, pointer=f"/application/components/{index}")
        for index, component in enumerate(application.components)
        if component.core and (why := pool.why_never(component)) is not None
    ]
    if errors:
        raise problem(Code.UNSATISFIABLE, "it can never run on these machines", errors)
    together = pool.why_never_all(application)
    if together is not None:
        api_error = ApiError(together, Code.UNSATISFIABLE, pointer="/application/components")
        raise problem(Code.UNSATISFIABLE, together, [api_error])


# What quotas on applications refuse when one is submitted: what no later tick could let run. An
# application that names a reservation is refused nothing here: what its entitlement covers does not
# count, and what is not covered waits in the dispatcher.


def _check_alone(cluster: Cluster, application: Application, tenant: str, queue: str) -> None:
    """Refuse an application that exceeds a quota on its own.

    Raises
    ------
    ApiProblemError
        ``quota``, with an entry for each quota and resource.
    """
    if application.entitled_by is not None:
        return
    errors: list[ApiError] = []
    for quota in _quotas_of(cluster, tenant, queue):
        errors += _too_large(quota, application)
        longest, size = quota.max_run_ms, application.size_ms
        if longest is not None and size is not None and size > longest:
            told = f"it runs for {duration_text(size)}; policy {quota.name!r} allows"
            told += f" {duration_text(longest)}"
            fix = "name a reservation, or split the work into shorter applications"
            errors.append(ApiError(told, Code.QUOTA, pointer="/application/size", fix=fix))
    if errors:
        raise problem(Code.QUOTA, "a quota on applications leaves no capacity for it", errors)


def _count_judge(
    cluster: Cluster, application: Application, tenant: str, queue: str
) -> Judge | None:
    """Return a function that refuses an application if too many wait or run; None if none are
    counted.

    The returned function raises ApiProblemError with ``count_limit``.
    """
    counted = [quota for quota in _quotas_of(cluster, tenant, queue) if quota.max_count is not None]
    if application.entitled_by is not None or not counted:
        return None

    def judge(present: Sequence[Submitted]) -> None:
        read = [(one.tenant, *counted_in(one.document)) for one in present]
        free = [(who, where) for who, reservation, where in read if reservation is None]
        for quota in counted:
            account = quota.scope.key(tenant, queue)
            count = sum(quota.scope.key(*scope) == account for scope in free)
            if quota.max_count is not None and count > quota.max_count:
                assert account is not None
                told = f"policy {quota.name!r} lets {owner_text(*account)} have"
                told += f" {quota.max_count:,} applications without a reservation at a time"
                told += f", and {count - 1:,} wait or run"
                fix = "wait until one ends, end one, or name a reservation"
                error = ApiError(told, Code.COUNT_LIMIT, pointer="/application", fix=fix)
                raise problem(Code.COUNT_LIMIT, told, [error])

    return judge


def _quotas_of(cluster: Cluster, tenant: str, queue: str) -> Iterable[ApplicationQuota]:
    for quota in cluster.application_quotas:
        if quota.scope.key(tenant, queue) is not None:
            yield quota


def _too_large(quota: ApplicationQuota, application: Application) -> Iterable[ApiError]:
    for name, most in quota.limit:
        asked = sum(one.resources.get(name, 0) * one.count for one in application.core)
        if asked > most:
            told = (
                f"its core components request {format_amount(name, asked)}; policy {quota.name!r}"
            )
            told += f" allows {format_amount(name, most)}"
            fix = "name a reservation, or make components elastic"
            yield ApiError(told, Code.QUOTA, pointer="/application/components", fix=fix)
