"""YARN's changes: create an id, submit, update and delete, through the Plan's usual commands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from planner.placement import Code
from planner.reservations.reservation import Reservation
from planner.reservations.state import State
from service.asks import ReservationChange, ReservationRequest, read_ask, read_change
from service.commits.commands import Admission, Cancellation, Command, Renegotiation
from service.problems import ProblemDocument
from service.runtime import Runtime
from service.store import YarnReservationRow
from service.yarn.caller import YarnCaller
from service.yarn.definition import (
    YarnDefinition,
    decode,
    id_text,
    read_definition,
    read_id,
    require_stages,
)
from service.yarn.faults import YarnFault, refusal_fault

_ID: Final = "reservation-id"
_DEFINITION: Final = "reservation-definition"

_NO_QUEUE: Final = "The queue is not specified. Please try again with a valid reservable queue."
_DISABLED: Final = "Reservation is not enabled. Please enable & try again"

#: Attempts of a submission, as another process may submit the same id at the same time.
_ATTEMPTS: Final = 4

#: States in which the id of a reservation may be submitted again.
_GONE: Final = (State.CANCELLED, State.FAILED)


def new_reservation(runtime: Runtime) -> str:
    """Return an id that is unique in this database.

    Raises
    ------
    YarnFault
        500 if no queue of the cluster accepts reservations, as YARN's server answers.
    """
    if not _has_plans(runtime):
        raise YarnFault(f"Unable to create new reservation from RM web service: {_DISABLED}", 500)
    return id_text(*runtime.yarn.next_id(runtime.clock_ms()))


def submit(runtime: Runtime, caller: YarnCaller, body: Mapping[str, Any]) -> None:
    """Make the reservation of a definition; submitting an id again with the same one is no error.

    Raises
    ------
    YarnFault
        For an invalid submission or a refusal, as YARN's server answers.
    """
    name = _submitted_id(body)
    queue = require_plan(runtime, body.get("queue"))
    definition = read_definition(body[_DEFINITION], runtime.clock_ms())
    for _ in range(_ATTEMPTS):
        standing = _live_reservation(runtime, name)
        if standing is not None:
            _require_same(caller, *standing, definition)
            return
        document = _admit(runtime, caller, _row_of(runtime, caller, name, queue, definition))
        if document is None:
            return
        if document.code != Code.DUPLICATE_ID:
            raise refusal_fault(document)
    raise YarnFault(f"{name} is being submitted by others again and again", 503)


def update(runtime: Runtime, caller: YarnCaller, body: Mapping[str, Any]) -> None:
    """Replace the definition of a reservation; if that fails, nothing changes.

    Raises
    ------
    YarnFault
        As in :func:`submit`; 400 for an unknown id.
    """
    require_stages(body.get(_DEFINITION))
    _refuse_unknown(body, "queue", _ID, _DEFINITION)
    if not body.get(_ID):
        raise YarnFault("Update operations must specify an existing ReservationId")
    row, reservation = _row_with_reservation(runtime, read_id(body[_ID]))
    definition = read_definition(body[_DEFINITION], runtime.clock_ms())
    caller.require(reservation.tenant, row.name, "update")
    ask = read_change(runtime, row.id, ReservationChange(rdl=definition.document))
    changed = _row(row.id, row.name, row.queue, row.submitter, row.accepted_ms, definition)
    runtime.require_dispatcher()
    _carry_out(runtime, Renegotiation(ask, None), changed)


def delete(runtime: Runtime, caller: YarnCaller, body: Mapping[str, Any]) -> None:
    """Cancel a reservation.

    Raises
    ------
    YarnFault
        400 for a missing or unknown id, or a reservation that has ended.
    """
    _refuse_unknown(body, _ID)
    if not body.get(_ID):
        raise YarnFault("Missing reservation id. Please try again by specifying a reservation id.")
    row, reservation = _row_with_reservation(runtime, read_id(body[_ID]))
    caller.require(reservation.tenant, row.name, "delete")
    _carry_out(runtime, Cancellation(row.id, None))


def require_plan(runtime: Runtime, queue: object) -> str:
    """Return the name of a queue that accepts reservations, which YARN calls a plan.

    Raises
    ------
    YarnFault
        400 for a missing or unknown queue, or one that accepts no reservations.
    """
    if not _has_plans(runtime):
        raise YarnFault(_DISABLED)
    if not isinstance(queue, str) or not queue:
        raise YarnFault(_NO_QUEUE)
    with runtime.reading() as plan:
        known = plan.cluster.queue(queue)
    if known is None or not known.reservable:
        raise YarnFault(
            f"The specified queue: {queue[:200]} is not managed by reservation system. "
            "Please try again with a valid reservable queue."
        )
    return queue


def standing_row(runtime: Runtime, name: str) -> YarnReservationRow | None:
    """Return the row of a client's id if its reservation is not cancelled or failed, else None."""
    standing = _live_reservation(runtime, name)
    return None if standing is None else standing[0]


def _live_reservation(runtime: Runtime, name: str) -> tuple[YarnReservationRow, Reservation] | None:
    rows = runtime.yarn.rows_of_client_id(name)
    with runtime.reading() as plan:
        for row in rows:
            reservation = plan.reservation(row.id)
            if reservation is not None and reservation.state not in _GONE:
                return row, reservation
    return None


def _has_plans(runtime: Runtime) -> bool:
    with runtime.reading() as plan:
        return any(queue.reservable for queue in plan.cluster.queues)


def _submitted_id(body: Mapping[str, Any]) -> str:
    """Return the id of a submission; its definition must have stages."""
    require_stages(body.get(_DEFINITION))
    _refuse_unknown(body, "queue", _ID, _DEFINITION)
    if not body.get(_ID):
        raise YarnFault(
            "Reservation id cannot be null. Please try again specifying a valid reservation id "
            "by creating a new reservation id."
        )
    return read_id(body[_ID])


def _refuse_unknown(body: Mapping[str, Any], *known: str) -> None:
    """Refuse an unknown member; an update may name the queue, as a submission does."""
    unknown = [name for name in body if name not in known]
    if unknown:
        raise YarnFault(f"unknown member {unknown[0][:80]!r}; the members are {', '.join(known)}")


def _require_same(
    caller: YarnCaller,
    row: YarnReservationRow,
    reservation: Reservation,
    definition: YarnDefinition,
) -> None:
    """Refuse another definition, and any definition for another tenant's reservation."""
    mine = caller.user.acts_for(reservation.tenant)
    if not mine or row.definition != definition.encode():
        raise YarnFault(
            f"Reservation allocation already exists with the reservation id {row.name}, but a "
            "different reservation definition was provided. Please try again with a new "
            "reservation id, or consider updating the existing reservation."
        )


def _row_of(
    runtime: Runtime, caller: YarnCaller, name: str, queue: str, definition: YarnDefinition
) -> YarnReservationRow:
    """Return the row of a submission, under the first id that neither the Plan nor a row has.

    A row is deleted when its reservation leaves the Plan; until then, the row of a cancelled
    reservation keeps its submitter. If another process has meanwhile made a reservation with this
    id, the Plan refuses it.
    """
    number, id_ = 1, name
    # Ids in `earlier` are or were in the Plan; those of rows still in the Plan are in `present`.
    earlier = {row.id for row in runtime.yarn.rows_of_client_id(name)}
    with runtime.reading() as plan:
        present = {row.id for row in runtime.yarn.rows_of_client_id(name)}
        while plan.knows(id_) or id_ in earlier:
            standing = plan.reservation(id_) if id_ in present else None
            if standing is not None and standing.state not in _GONE:
                break
            number += 1
            id_ = f"{name}~{number}"
    return _row(id_, name, queue, caller.name, runtime.clock_ms(), definition)


def _row(
    id_: str, name: str, queue: str, submitter: str, accepted_ms: int, definition: YarnDefinition
) -> YarnReservationRow:
    return YarnReservationRow(
        id_,
        name,
        queue,
        submitter,
        accepted_ms,
        definition.arrival_ms,
        definition.deadline_ms,
        definition.period_ms,
        definition.encode(),
    )


def _admit(runtime: Runtime, caller: YarnCaller, row: YarnReservationRow) -> ProblemDocument | None:
    """Make the reservation of a row and store the row in the same commit; return any problem."""
    runtime.require_dispatcher()
    document = decode(row.definition).document
    asked = ReservationRequest(id=row.id, tenant=caller.tenant, queue=row.queue, rdl=document)
    (answer,) = runtime.planner.change(Admission((read_ask(runtime, asked),)), [row])
    return answer if isinstance(answer, ProblemDocument) else None


def _row_with_reservation(runtime: Runtime, name: str) -> tuple[YarnReservationRow, Reservation]:
    """Return a row and its current reservation."""
    standing = _live_reservation(runtime, name)
    if standing is not None:
        return standing
    raise YarnFault(
        f"The specified reservation with ID: {name} is unknown. "
        "Please try again with a valid reservation."
    )


def _carry_out(
    runtime: Runtime, command: Command, companion: YarnReservationRow | None = None
) -> None:
    (answer,) = runtime.planner.change(command, [] if companion is None else [companion])
    if isinstance(answer, ProblemDocument):
        raise refusal_fault(answer)
