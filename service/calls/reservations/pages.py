"""Reading reservations and refusals: one, or a page of those that match."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from typing import Any, Final, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from planner.plan.plan import Plan
from planner.reservations.reservation import Refusal
from planner.reservations.state import LIVE, State
from rdl.errors import did_you_mean
from rdl.time_grid import TimeGrid, seconds_of
from service.access.actor import present_actor
from service.calls.reservations.times import with_times
from service.commits.answers.shown_rows import ShownRows
from service.commits.answers.shown_times import history_of
from service.commits.changes.offer_requests import refusal_with_requests
from service.commits.screening.ownership import require_own
from service.problems import ApiError, FieldError, malformed_problem, problem
from service.runtime import Runtime
from service.store.log.archive import ArchivePage, ArchiveRows

#: Reservations looked at, and most that are read, under one hold of the Plan; a long list lets
#: others in between.
_STRIDE: Final = 50_000
_READ: Final = 100

#: How cursors look.
CURSOR: Final = re.compile(r"([axo])([0-9]{1,12})")

#: Parts of a list, by the letter of their cursors: reservations by ordinal, refusals, the archive.
_LIVE, _REFUSED, _OLD = "a", "x", "o"

#: States in which a reservation may have left for the archive.
_ENDED: Final = frozenset(State) - LIVE


@dataclass(frozen=True, slots=True)
class Filter:
    """What a list is narrowed to; None does not narrow. Times are ms from the origin.

    `tenants` are those whose entries may be shown at all.
    """

    tenant: str | None = None
    queue: str | None = None
    state: str | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    tenants: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class PageCursor:
    """Where a page begins: a part of the list, and a number in it."""

    part: str = _LIVE
    number: int = 0

    def __str__(self) -> str:
        """What :func:`read_cursor` reads back."""
        return f"{self.part}{self.number}"


class Source(Protocol):
    """Where lists are read."""

    @property
    def archive(self) -> ArchiveRows:
        """What has left the Plan."""
        ...

    @property
    def shown_rows(self) -> ShownRows:
        """What was written of reservations before."""
        ...

    def reading(self) -> AbstractContextManager[Plan]:
        """Hold the Plan."""
        ...


def read_cursor(text: str) -> PageCursor:
    """Return the cursor that an earlier page gave.

    Raises
    ------
    FieldError
        For any other text.
    """
    match = CURSOR.fullmatch(text)
    if match is None:
        raise FieldError(f"{text!r} is none; send `next` of the page before")
    return PageCursor(match[1], int(match[2]))


def one(runtime: Runtime, id_: str) -> tuple[dict[str, Any], int]:
    """Return one reservation with its history, or one refusal, and its revision.

    One that has left the Plan is read from the archive.

    Raises
    ------
    ApiProblemError
        ``not_found``.
    """
    with runtime.reading() as plan:
        require_own(plan, present_actor().user, id_)
        reservation, refusal = plan.reservation(id_), plan.refusal(id_)
        grid, version = plan.grid, plan.version
    if reservation is not None:
        body = with_times(runtime, [reservation.to_json(grid)], grid)[0]
        told = {"history": list(history_of(reservation, grid)), "version": version}
        return body | told, reservation.revision
    if refusal is None:
        old = runtime.archive.find(id_)
        if old is None or not present_actor().user.acts_for(old.tenant):
            raise problem("not_found", f"there is no reservation {id_!r}")
        shown = msgspec.json.decode(old.body)
        return {**shown, "version": version}, shown.get("revision", 1)
    return {**refusal_to_json(refusal, grid), "version": version}, 1


def check(plan: Plan, wanted: Filter) -> None:
    """Refuse a filter that nothing could ever match.

    Raises
    ------
    ApiProblemError
        ``malformed`` for a time that ends before it starts, or a queue that there never was.
    """
    start_ms, end_ms = wanted.start_ms, wanted.end_ms
    if start_ms is not None and end_ms is not None and start_ms > end_ms:
        message = f"from, {seconds_of(start_ms)} s, is after to, {seconds_of(end_ms)} s"
        raise malformed_problem([ApiError(message, pointer="?from")])
    queue = wanted.queue
    if queue is None or plan.cluster.queue(queue) is not None:
        return
    whole = range(len(plan.table))
    if not len(plan.table.select(whole, queue=queue)) and not any(
        refusal.queue == queue for refusal in plan.refusals
    ):
        fix = did_you_mean(queue, [one.name for one in plan.cluster.queues])
        raise malformed_problem(
            [ApiError(f"there is no queue {queue!r}", pointer="?queue", fix=fix)]
        )


def page_of(
    source: Source,
    wanted: Filter,
    cursor: PageCursor,
    limit: int,
) -> dict[str, Any]:
    """Return up to `limit` entries from `cursor` on: reservations by admission, then refusals.

    Where a state is wanted in which they may have left the Plan, the archive follows.

    Raises
    ------
    ApiProblemError
        As `check`.
    """
    found: list[dict[str, Any] | msgspec.Raw] = []
    place: PageCursor | None = cursor
    version = 0
    with source.reading() as plan:
        check(plan, wanted)
        version = plan.version
    while place is not None and len(found) < limit:
        if place.part == _OLD:
            old, place = _old(source.archive, wanted, place.number, limit - len(found))
            found += old
            continue
        with source.reading() as plan:
            version = plan.version
            most, grid = min(_READ, limit - len(found)), plan.grid
            if place.part == _REFUSED:
                refused, place = _refusals(plan, wanted, place.number, most)
                taken = None
            else:
                numbers, place = _stride(plan, wanted, place, most)
                taken = source.shown_rows.take(plan, numbers)
        if taken is None:
            found += [refusal_to_json(one, grid) for one in refused]
        else:
            found += source.shown_rows.texts(taken)
    return {
        "version": version,
        "reservations": found,
        "next": None if place is None else str(place),
    }


def refusal_to_json(refusal: Refusal, grid: TimeGrid) -> dict[str, Any]:
    """Return a refusal as the API shows it: with its state, like a reservation."""
    return {**refusal_with_requests(refusal.to_json(grid)), "state": State.REFUSED.value}


def _stride(
    plan: Plan, wanted: Filter, cursor: PageCursor, most: int
) -> tuple[NDArray[np.int64], PageCursor]:
    """Return which match among the next `_STRIDE` reservations, and where to go on."""
    table = plan.table
    first = table.number_at(cursor.number)
    stop = min(first + _STRIDE, len(table))
    numbers = _select(plan, wanted, range(first, stop))
    if len(numbers) > most:
        return numbers[:most], PageCursor(_LIVE, table.ordinal(int(numbers[most])))
    more = stop < len(table)
    return numbers, PageCursor(_LIVE, table.ordinal(stop)) if more else PageCursor(_REFUSED)


def _refusals(
    plan: Plan, wanted: Filter, first: int, most: int
) -> tuple[list[Refusal], PageCursor | None]:
    refusals = plan.refusals
    numbers = range(first, min(first + _STRIDE, len(refusals)))
    rows: list[Refusal] = []
    for number in numbers:
        if _refusal_matches(refusals[number], wanted):
            rows.append(refusals[number])
        if len(rows) == most:
            return rows, PageCursor(_REFUSED, number + 1)
    if numbers.stop < len(refusals):
        return rows, PageCursor(_REFUSED, numbers.stop)
    return rows, PageCursor(_OLD) if wanted.state in _ENDED else None


def _old(
    rows: ArchiveRows, wanted: Filter, after: int, most: int
) -> tuple[list[dict[str, Any]], PageCursor | None]:
    """Return what matches in the archive, and where to go on."""
    narrowed = {field.name: getattr(wanted, field.name) for field in fields(wanted)}
    found = rows.page(ArchivePage(after, most, **narrowed))
    shown: list[dict[str, Any]] = [msgspec.json.decode(one.body) for one in found]
    for body in shown:
        body.pop("history", None)
    shown = [
        refusal_with_requests(one) if one["state"] == State.REFUSED.value else one for one in shown
    ]
    return shown, PageCursor(_OLD, found[-1].place) if len(found) == most else None


def _select(plan: Plan, wanted: Filter, numbers: range) -> NDArray[np.int64]:
    """Return the reservations among `numbers` that are wanted."""
    state = None if wanted.state is None else State(wanted.state)
    tenants: list[str | None] = [wanted.tenant]
    if wanted.tenant is None and wanted.tenants is not None:
        tenants = [*sorted(wanted.tenants)]
    parts = [plan.table.select(numbers, one, wanted.queue, state) for one in tenants]
    found = parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))
    if wanted.start_ms is None and wanted.end_ms is None:
        return found
    start = 0 if wanted.start_ms is None else plan.grid.floor(wanted.start_ms)
    end = plan.grid.horizon if wanted.end_ms is None else plan.grid.ceil(wanted.end_ms)
    return plan.table.holding_between(found, start, end)


def _refusal_matches(refusal: Refusal, wanted: Filter) -> bool:
    """A refusal holds nothing: its time is that of its submission."""
    return (
        wanted.tenant in (None, refusal.tenant)
        and (wanted.tenants is None or refusal.tenant in wanted.tenants)
        and wanted.queue in (None, refusal.queue)
        and wanted.state in (None, State.REFUSED.value)
        and (wanted.start_ms is None or refusal.submitted_ms >= wanted.start_ms)
        and (wanted.end_ms is None or refusal.submitted_ms < wanted.end_ms)
    )
