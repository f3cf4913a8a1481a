"""Submit, read and end applications; one function for each call."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from dispatch.applications.application import Application
from dispatch.applications.document import COVERS, application_from_json, application_to_json
from dispatch.applications.zapp import application_from_zapp
from dispatch.cycle.cover.cover import names_atom, without_occurrences
from dispatch.cycle.cover.coverage import cover_faults
from dispatch.cycle.uncovered import WAITS_FOR_ROOM
from dispatch.entitlements.directive import Entitlement
from dispatch.entitlements.follower import MOST_AHEAD, PlanFollower
from dispatch.executions.predecessors import predecessors_of
from dispatch.machines.machine_pool import MachinePool
from planner.cluster.cluster import DEFAULT_QUEUE
from planner.files import FileError
from planner.placement import Code
from planner.reservations.state import LIVE, State
from rdl.compile.source import read_source
from rdl.errors import did_you_mean
from rdl.names import PartNames
from service.access.actor import present_actor
from service.calls.applications.quotas import check_alone, count_judge
from service.calls.applications.serving import NO_EXECUTOR, served_machines
from service.commits.answers.idempotency import stored_answer
from service.commits.changes.commands import Key
from service.commits.screening.ownership import require_own, tenant_of
from service.dispatching.documents import Document, encode_document, read_document
from service.problems import ApiError, problem, problem_of_file
from service.response import Response
from service.store import ApplicationRow, AuditRow, IdTakenError, Judge, PageOf

if TYPE_CHECKING:
    from planner.plan.plan import Plan
    from service.runtime import Runtime

logger = logging.getLogger("agenda.service")


def submit(runtime: Runtime, values: Mapping[str, Any], key: Key | None = None) -> Response:
    """Make an application durable and have it dispatched; return it as it is shown.

    Under a key the answer is stored with it: of two submissions at once the later is told the
    answer of the earlier.

    Raises
    ------
    ApiProblemError
        ``malformed`` with every problem, ``not_found`` for its reservation, ``wrong_state`` for
        one that holds nothing any more, ``not_covered`` where its cores cannot run under it,
        ``unsatisfiable`` where no machine could ever run it,
        ``forbidden`` for a tenant that the caller does not act for,
        ``quota`` and ``count_limit`` where a quota on applications leaves it no room,
        ``duplicate_id``, ``idempotency_mismatch``.
    """
    row, judge = _row_of(runtime, values)
    headers = {"Location": f"/v1/applications/{row.id}"}
    response = Response(201, msgspec.json.encode(application_json(runtime, row)), headers)
    kept = None if key is None else stored_answer(key, response, runtime.clock_ms())
    try:
        done = _audit_row(runtime, row, "submit_application")
        runtime.dispatcher.rows.add(row, kept, judge, done)
    except IdTakenError as error:
        known = None if key is None else runtime.planner.recall(key)
        if known is not None:
            return known
        raise problem(Code.DUPLICATE_ID, f"there is an application {row.id!r} already") from error
    runtime.dispatcher.nudge()
    return response


def _row_of(runtime: Runtime, values: Mapping[str, Any]) -> tuple[ApplicationRow, Judge | None]:
    """Return the row of a submission that the cluster, its reservation and quotas can carry.

    With it comes what has to count the others before the row is written.
    """
    user = present_actor().user
    application, tenant = _read(values), tenant_of(user, values["tenant"], "")
    at = "" if values["atom"] else "/application"
    with runtime.reading() as plan:
        cluster = plan.cluster
        if application.reservation is not None:
            require_own(plan, user, application.reservation)
        application = _with_path(plan, application)
        after = _check_reservation(plan, application, tenant, f"{at}/atom")
        queue = _queue_of(plan, application, values["queue"])
    pool = MachinePool(cluster)
    _check_machines(application, pool)
    _check_cover(runtime, application, pool)
    check_alone(cluster, application, tenant, queue)
    row = ApplicationRow(
        id=values["id"] or runtime.new_id().replace("r-", "a-", 1),
        tenant=tenant,
        submitted_ms=runtime.now_ms(),
        document=encode_document(Document(application, after, values["close_on_end"], queue)),
    )
    return row, count_judge(cluster, application, tenant, queue)


def _queue_of(plan: Plan, application: Application, asked: str | None) -> str:
    """Return the queue that is asked for; without one that of its reservation, or the usual one."""
    known = [queue.name for queue in plan.cluster.queues]
    if asked is not None and asked not in known:
        told = f"there is no queue {asked!r}"
        fix = did_you_mean(asked, known)
        raise problem(Code.MALFORMED, told, [ApiError(told, pointer="/queue", fix=fix)])
    if application.reservation is not None:
        found = plan.reservation(application.reservation)
        assert found is not None
        if asked not in (None, found.queue):
            told = f"{found.id!r} is a reservation in queue {found.queue!r}"
            raise problem("wrong_state", told, [ApiError(told, "wrong_state", pointer="/queue")])
        return found.queue
    return asked or (DEFAULT_QUEUE if DEFAULT_QUEUE in known else known[0])


def one(runtime: Runtime, id_: str) -> dict[str, Any]:
    """Return one application.

    Raises
    ------
    ApiProblemError
        ``not_found``.
    """
    return _with_reasons(runtime, [_own(runtime, id_)])[0]


def _audit_row(runtime: Runtime, row: ApplicationRow, kind: str) -> AuditRow:
    return AuditRow(present_actor(), runtime.clock_ms(), kind, row.id, row.tenant)


def _own(runtime: Runtime, id_: str) -> ApplicationRow:
    """Return the row of an application of a tenant that the caller acts for."""
    row = runtime.dispatcher.rows.get(id_)
    if row is None or not present_actor().user.acts_for(row.tenant):
        raise problem("not_found", f"there is no application {id_!r}")
    return row


def page(runtime: Runtime, wanted: PageOf) -> dict[str, Any]:
    """Return applications in order of submission, and where the next page begins."""
    rows = runtime.dispatcher.rows.page(replace(wanted, limit=wanted.limit + 1))
    here = rows[: wanted.limit]
    more = len(rows) > wanted.limit
    cursor = f"{here[-1].submitted_ms}:{here[-1].id}" if more else None
    return {"applications": _with_reasons(runtime, here), "next": cursor}


def _with_reasons(runtime: Runtime, rows: Sequence[ApplicationRow]) -> list[dict[str, Any]]:
    """Return applications; those that wait for room while no executor reports say that."""
    shown = [application_json(runtime, row) for row in rows]
    waiting = [one for one in shown if one["reason"] == WAITS_FOR_ROOM]
    if waiting and not served_machines(runtime):
        for one in waiting:
            one["reason"] = NO_EXECUTOR
    return shown


def end(runtime: Runtime, id_: str) -> dict[str, Any]:
    """Have an application ended; what is over stays as it is.

    Raises
    ------
    ApiProblemError
        ``not_found``.
    """
    done = _audit_row(runtime, _own(runtime, id_), "end_application")
    row = runtime.dispatcher.rows.end(id_, done)
    if row is None:
        raise problem("not_found", f"there is no application {id_!r}")
    runtime.dispatcher.nudge()
    return application_json(runtime, row)


def application_json(runtime: Runtime, row: ApplicationRow) -> dict[str, Any]:
    """Return an application as `/v1/applications` shows it; times in seconds from the origin."""
    document = read_document(row.document)
    waiting: dict[str, Any] = {"reason": "", "started": None, "ended": None, "components": []}
    status: dict[str, Any] = waiting | msgspec.json.decode(row.status)
    return {
        "id": row.id,
        "tenant": row.tenant,
        "queue": document.queue,
        "submitted": row.submitted_ms / 1000,
        "submitted_at": runtime.calendar(row.submitted_ms),
        "state": "ending" if row.unwanted and not row.over else row.state,
        **status,
        "notes": _notes_of(document.application),
        "application": application_to_json(document.application),
    }


def _notes_of(application: Application) -> list[str]:
    if application.covered:
        return []
    return ['cover is "none": it runs as best effort, and its reservation does not cover it']


def _read(values: Mapping[str, Any]) -> Application:
    """Read Agenda's own form or a ZApp; `reservation` and `atom` beside it win."""
    given = values["application"]
    is_zapp = isinstance(given, Mapping) and "services" in given
    try:
        application = application_from_zapp(given) if is_zapp else application_from_json(given)
    except FileError as error:
        raise problem_of_file(error, "/application", "the application cannot be read") from error
    reservation = values["reservation"] or application.reservation
    atom = values["atom"] or application.atom
    covered = application.covered and values["cover"] != COVERS[1]
    if values["close_on_end"] and not covered:
        detail = "an application that its reservation does not cover cannot close it"
        api_error = ApiError(detail, pointer="/close_on_end", fix="leave out one of the two")
        raise problem(Code.MALFORMED, detail, [api_error])
    for asked, pointer in ((atom is not None, "/atom"), (values["close_on_end"], "/close_on_end")):
        if asked and reservation is None:
            fix = "name the reservation that it runs under"
            api_error = ApiError(
                f"{pointer[1:]} is asked for but no reservation", pointer=pointer, fix=fix
            )
            raise problem(Code.MALFORMED, api_error.message, [api_error])
    return replace(application, reservation=reservation, atom=atom, covered=covered)


def _with_path(plan: Plan, application: Application) -> Application:
    """Return an application with the path of its atom, where it calls the atom by its name."""
    found = None if application.reservation is None else plan.reservation(application.reservation)
    if found is None or application.atom is None:
        return application
    names = PartNames(read_source(found.expression))
    paths = [path for one in found.atoms for path, _ in one.occurrences()]
    for path in (*paths, *map(without_occurrences, paths)):
        if application.atom not in paths and names.at(path) == application.atom:
            return replace(application, atom=path)
    return application


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
    if application.atom is None:
        return ()
    atom = application.atom
    try:
        after = predecessors_of(read_source(found.expression), atom)
        paths = [path for one in found.atoms for path, _ in one.occurrences()]
        if not any(names_atom(path, atom) for path in paths):
            raise ValueError(f"{name!r} holds nothing at {atom!r}")
    except ValueError as error:
        names = PartNames(read_source(found.expression))
        called = [(names.at(one.path), one.path) for one in found.atoms]
        # A part without a name is called by what it needs, which nobody would write here.
        known = sorted({path if name is None or "<" in name else name for name, path in called})
        fix = did_you_mean(atom, known) if known else None
        api_error = ApiError(str(error), "not_found", pointer=pointer, fix=fix)
        raise problem("not_found", str(error), [api_error]) from error
    return after


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
