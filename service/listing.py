"""Reading reservations and refusals: one, or a page of those that match."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from planner.plan import Plan
from planner.reservation import Refusal, Reservation
from planner.states import State
from rdl.time_grid import TimeGrid
from service.api.fields import FieldError
from service.problems import problem
from service.runtime import Runtime

#: Reservations looked at under one hold of the Plan; a long search lets others in between.
_STRIDE = 2_000

#: How cursors look.
CURSOR: Final = re.compile(r"([ax])([0-9]{1,12})")


@dataclass(frozen=True, slots=True)
class Filter:
    """What a list is narrowed to; None does not narrow. Times are ms from the origin."""

    tenant: str | None = None
    queue: str | None = None
    state: str | None = None
    start_ms: int | None = None
    end_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a page begins: a number in the list of reservations, then in that of refusals."""

    refused: bool = False
    number: int = 0

    def __str__(self) -> str:
        """What :func:`read_cursor` reads back."""
        return f"{'x' if self.refused else 'a'}{self.number}"


def read_cursor(text: str) -> Cursor:
    """Return the cursor that an earlier page gave.

    Raises
    ------
    FieldError
        For any other text.
    """
    match = CURSOR.fullmatch(text)
    if match is None:
        raise FieldError(f"{text!r} is none; send `next` of the page before")
    return Cursor(match[1] == "x", int(match[2]))


def one(runtime: Runtime, id_: str) -> tuple[dict[str, Any], int]:
    """Return one reservation with its history, or one refusal, and its revision.

    Raises
    ------
    ApiProblemError
        ``not_found``.
    """
    with runtime.reading() as plan:
        reservation, refusal = plan.reservation(id_), plan.refusal(id_)
        grid, version = plan.grid, plan.version
    if reservation is not None:
        body = reservation.to_json(grid, history=True)
        return {**body, "version": version}, reservation.revision
    if refusal is None:
        raise problem("not_found", f"there is no reservation {id_!r}")
    return {**refusal_to_json(refusal, grid), "version": version}, 1


def page_of(runtime: Runtime, wanted: Filter, cursor: Cursor, limit: int) -> dict[str, Any]:
    """Return up to `limit` entries from `cursor` on: reservations by admission, then refusals."""
    found: list[dict[str, Any]] = []
    place: Cursor | None = cursor
    version = 0
    while place is not None and len(found) < limit:
        with runtime.reading() as plan:
            version = plan.version
            entries, place = _stride(plan, wanted, place, limit - len(found))
            grid = plan.grid
        for entry in entries:
            if isinstance(entry, Refusal):
                found.append(refusal_to_json(entry, grid))
            else:
                found.append(entry.to_json(grid))
    return {
        "version": version,
        "reservations": found,
        "next": None if place is None else str(place),
    }


def refusal_to_json(refusal: Refusal, grid: TimeGrid) -> dict[str, Any]:
    """Return a refusal as the API shows it: with its state, like a reservation."""
    return {**refusal.to_json(grid), "state": State.REFUSED.value}


def _stride(
    plan: Plan, wanted: Filter, cursor: Cursor, most: int
) -> tuple[list[Reservation | Refusal], Cursor | None]:
    """Return what matches among the next `_STRIDE` entries, and where to go on."""
    if cursor.refused:
        refusals = plan.refusals
        numbers = range(cursor.number, min(cursor.number + _STRIDE, len(refusals)))
        rows: list[Reservation | Refusal] = []
        for number in numbers:
            if _refusal_matches(refusals[number], wanted):
                rows.append(refusals[number])
            if len(rows) == most:
                return rows, Cursor(True, number + 1)
        return rows, Cursor(True, numbers.stop) if numbers.stop < len(refusals) else None
    table = plan.table
    numbers = range(cursor.number, min(cursor.number + _STRIDE, len(table)))
    rows = []
    for number in numbers:
        if _matches(plan, number, wanted):
            rows.append(table.read(number))
        if len(rows) == most:
            return rows, Cursor(False, number + 1)
    return rows, Cursor(False, numbers.stop) if numbers.stop < len(table) else Cursor(True)


def _matches(plan: Plan, number: int, wanted: Filter) -> bool:
    table = plan.table
    tenant, queue = table.scope(number)
    if wanted.tenant not in (None, tenant) or wanted.queue not in (None, queue):
        return False
    if wanted.state not in (None, table.state(number).value):
        return False
    if wanted.start_ms is None and wanted.end_ms is None:
        return True
    meta = table.meta[number]
    begin, finish = int(meta["begin"]), int(meta["finish"])
    step_ms = plan.grid.step_ms
    return (
        begin < finish
        and (wanted.start_ms is None or finish * step_ms > wanted.start_ms)
        and (wanted.end_ms is None or begin * step_ms < wanted.end_ms)
    )


def _refusal_matches(refusal: Refusal, wanted: Filter) -> bool:
    """A refusal holds nothing: its time is that of its submission."""
    return (
        wanted.tenant in (None, refusal.tenant)
        and wanted.queue in (None, refusal.queue)
        and wanted.state in (None, State.REFUSED.value)
        and (wanted.start_ms is None or refusal.submitted_ms >= wanted.start_ms)
        and (wanted.end_ms is None or refusal.submitted_ms < wanted.end_ms)
    )
