"""Read reservations and refusals: a single one, or a page of a filtered list."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from typing import Annotated, Any, Final, Protocol, TypeAlias

import msgspec
import numpy as np
from msgspec import UNSET, Meta, UnsetType
from numpy.typing import NDArray

from planner.placement import BINDING_KINDS, Code
from planner.plan.plan import Plan
from planner.promise import PromiseLevel
from planner.reservations.reservation import Refusal
from planner.reservations.state import LIVE, State
from rdl.errors import did_you_mean
from rdl.time_grid import TimeGrid, seconds_of
from service.access.user import User, present_actor
from service.commits.commands import refusal_with_requests
from service.http.kinds import QueryTime, Word, choice, integer, matching
from service.http.kit import Answer, Calls, Count, Input, Instant, OpenAnswer, doc, one_of
from service.http.route import json_of
from service.ownership import own_filter, require_own
from service.problems import ApiError, malformed_problem, problem
from service.response import Response
from service.runtime import Runtime
from service.shown_rows import ShownRows
from service.store.archive import ArchivePage, ArchiveRows
from service.windows import HeldTimes, history_of, work_entry

#: Reservations that are scanned, and the most that are read, while holding the Plan's lock once; a
#: long list releases it in between.
_STRIDE: Final = 50_000
_READ: Final = 100

#: Letters of cursors for the parts of a list: reservations by ordinal, refusals, the archive.
_LIVE, _REFUSED, _OLD = "a", "x", "o"

#: States in which a reservation may have been archived.
_ENDED: Final = frozenset(State) - LIVE


STATES: Final = (
    "accepted",
    "active",
    "completed",
    "cancelled",
    "degraded",
    "failed",
    "refused",
)
_CODES: Final = tuple(str(code) for code in Code)
_LEVELS: Final = tuple(level.value for level in PromiseLevel)

_Maybe: TypeAlias = float | UnsetType | None
PartName: TypeAlias = Annotated[
    str | UnsetType,
    doc("Name of the limit, or a description of the need; absent: it is the request itself."),
]
_Triple: TypeAlias = Annotated[list[float], Meta(min_length=3, max_length=3)]
_Pair: TypeAlias = Annotated[list[Instant], Meta(min_length=2, max_length=2)]
_ROWS: Final = doc("[start, end, bundles], seconds, half-open, sorted and merged.")
_SECONDS: Final = doc("Seconds from the origin.")
_WRITTEN: Final = doc("The request as submitted, if the canonical text differs.")
_ZONE: Final = doc(
    "Zone in which its times are read: the request's, else the cluster's; absent: UTC."
)
HOLDERS: Final = doc(
    "The reservations that use the scarce resource at that time, as in an explanation."
)
HELD_BY: Final = doc("The same as text; empty if there are none.")
#: The bound of the Plan as a part of an answer.
PlanBoundBeside: TypeAlias = Annotated[
    Any,
    Meta(
        description="With `bound`: an upper bound of the value of any plan of the same requests.",
        extra_json_schema={"anyOf": [json_of("PlanBound"), {"type": "null"}]},
    ),
]


class BindingView(OpenAnswer):
    path: str | UnsetType = UNSET
    kind: Annotated[str | UnsetType, one_of(BINDING_KINDS)] = UNSET
    at: _Maybe = UNSET
    at_at: Instant | UnsetType = UNSET
    resource: str | UnsetType | None = UNSET
    needed: float | str | UnsetType | None = UNSET
    free: float | str | UnsetType | None = UNSET
    policy: str | UnsetType | None = UNSET
    name: PartName = UNSET


class AllocatedAtom(OpenAnswer, kw_only=True):
    path: str
    name: PartName = UNSET
    bundle: dict[str, Any]
    allocation: Annotated[list[_Triple], _ROWS]
    allocation_at: Annotated[
        list[_Pair] | UnsetType, doc("[start, end] of each row of the allocation.")
    ] = UNSET
    released: Annotated[list[_Triple] | UnsetType, _ROWS] = UNSET


class DisplacedReservation(OpenAnswer):
    id: Annotated[str, doc("Empty if the caller may not see it.")]
    tenant: str
    fate: Annotated[str, one_of(("moved", "degraded"))]
    value: Annotated[float | UnsetType, doc("The value of keeping it.")] = UNSET
    moved: Annotated[float | UnsetType, doc("Moved work, in steps of the whole cluster.")] = UNSET
    reason: str | UnsetType = UNSET


class RequestView(OpenAnswer):
    id: str
    tenant: str
    queue: str
    submitted: Annotated[float, _SECONDS]
    weight: float
    priority: int
    expression: Annotated[str, doc("Canonical RDL of the request.")]


class ReservationView(RequestView, kw_only=True):
    state: Annotated[str, one_of(STATES)]
    runs_on: Annotated[
        bool | UnsetType,
        doc("True if it is completed and its time is over, but its job in Slurm still runs."),
    ] = UNSET
    revision: Annotated[int, Meta(ge=1)]
    agent: str
    choices: dict[str, int]
    notes: list[str]
    atoms: list[AllocatedAtom]
    submitted_at: Instant | UnsetType = UNSET
    zone: Annotated[str | UnsetType, _ZONE] = UNSET
    version: Annotated[Count | UnsetType, doc("Version of the Plan of this answer.")] = UNSET
    written: Annotated[str | UnsetType, _WRITTEN] = UNSET
    promise: Annotated[str | UnsetType, one_of(_LEVELS), doc("The promise level.")] = UNSET
    degradation: Annotated[
        dict[str, Any] | UnsetType,
        doc(
            "Time and reason of the degradation, and offers; also if it was degraded when its "
            "owner closed it."
        ),
    ] = UNSET
    begin: Annotated[float | UnsetType, doc("Start of the allocation.")] = UNSET
    begin_at: Instant | UnsetType = UNSET
    finish: Annotated[_Maybe, doc("End of the allocation; null: none.")] = UNSET
    finish_at: Instant | UnsetType | None = UNSET
    window: Annotated[
        list[float] | UnsetType | None,
        doc("Window of the request, seconds."),
    ] = UNSET
    window_at: Annotated[list[Instant] | UnsetType | None, doc("The window in RFC 3339.")] = UNSET
    held_until: Annotated[float | UnsetType, doc("Expiry of the hold unless it is accepted.")] = (
        UNSET
    )
    history: list[dict[str, Any]] | UnsetType = UNSET
    displaced: Annotated[
        list[DisplacedReservation] | UnsetType,
        doc(
            "Outcomes of the displaced reservations, in the answer to the request that displaced "
            "them."
        ),
    ] = UNSET
    plan_bound: PlanBoundBeside | UnsetType = UNSET


class ChangedNumber(Answer, kw_only=True):
    kind: Annotated[str, one_of(("deadline", "start", "size", "option"))]
    asked: float | None
    offered: float
    asked_at: Instant | UnsetType | None = UNSET
    offered_at: Annotated[Instant | UnsetType | None, doc("The same times in RFC 3339.")] = UNSET
    share: Annotated[float, doc("Share of the request that the offer changes, 0 to 1.")]


class OfferView(Answer, kw_only=True):
    expression: Annotated[str, doc("Canonical RDL to submit.")]
    change: ChangedNumber
    sentence: Annotated[str | UnsetType, doc("Description of the change for users.")] = UNSET
    at_version: Annotated[Count, doc("Version of the Plan in which it would be accepted.")]
    request: Annotated[
        dict[str, Any] | UnsetType,
        doc("The whole body for POST /v1/reservations that accepts it."),
    ] = UNSET


class RefusalView(RequestView, kw_only=True):
    state: Annotated[str | UnsetType, Meta(extra_json_schema={"const": "refused"})] = UNSET
    submitted_at: Instant | UnsetType = UNSET
    zone: Annotated[str | UnsetType, _ZONE] = UNSET
    written: Annotated[str | UnsetType, _WRITTEN] = UNSET
    promise: Annotated[
        str | UnsetType,
        one_of(_LEVELS),
        doc("The requested level; absent if it is the cluster's default."),
    ] = UNSET
    code: Annotated[str, one_of(_CODES)]
    detail: str
    binding: Annotated[BindingView | UnsetType | None, doc("The limit that was binding.")] = UNSET
    offers: list[OfferView] | UnsetType = UNSET
    holders: Annotated[list[dict[str, Any]] | UnsetType, HOLDERS] = UNSET
    held_by: Annotated[str | UnsetType, HELD_BY] = UNSET


class PageView(OpenAnswer):
    version: Count
    reservations: Annotated[
        list[Any],
        Meta(extra_json_schema={"items": {"anyOf": [json_of("Reservation"), json_of("Refusal")]}}),
    ]
    next: Annotated[str | None, doc("Cursor of the next page.")]


@dataclass(frozen=True, slots=True)
class Filter:
    """The filter of a list; None matches all. Times are ms from the origin.

    `tenants` are the tenants whose entries may be shown.
    """

    tenant: str | None = None
    queue: str | None = None
    state: str | None = None
    start_ms: int | None = None
    end_ms: int | None = None
    tenants: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class PageCursor:
    """The start of a page: a part of the list, and a number in it."""

    part: str = _LIVE
    number: int = 0

    def __str__(self) -> str:
        """Return the text of the cursor in a query."""
        return f"{self.part}{self.number}"


_CURSOR: Final = matching(
    re.compile(r"([axo])([0-9]{1,12})"),
    "is not a cursor; send `next` of the previous page",
    lambda match: PageCursor(match[1], int(match[2])),
)


class ReservationQuery(Input):
    tenant: Annotated[Word | None, doc("Only of this tenant.")] = None
    queue: Annotated[Word | None, doc("Only of this queue.")] = None
    state: Annotated[str | None, choice(STATES), doc("Only in this state.")] = None
    from_: Annotated[
        QueryTime | None, doc("Only reservations with an allocation at or after this time.")
    ] = None
    to: Annotated[
        QueryTime | None, doc("Only reservations with an allocation before this time.")
    ] = None
    cursor: Annotated[PageCursor, _CURSOR, doc("The `next` of the previous page.")] = msgspec.field(
        default_factory=PageCursor
    )
    limit: Annotated[int, integer(1, 1000), doc("Maximum number of entries.")] = 100


class Source(Protocol):
    """The data that lists are read from."""

    @property
    def archive(self) -> ArchiveRows:
        """Reservations and refusals that have left the Plan."""
        ...

    @property
    def shown_rows(self) -> ShownRows:
        """Cached JSON of reservations."""
        ...

    def reading(self) -> AbstractContextManager[Plan]:
        """Lock the Plan for reading."""
        ...


calls = Calls()


@calls.get("/v1/reservations", "A page of reservations and refusals.", fails=(Code.MALFORMED,))
def list_reservations(
    runtime: Runtime, user: User, query: ReservationQuery
) -> Annotated[Response, PageView]:
    """Reservations and refusals, oldest first, a page at a time; with a final `state` also
    archived ones.
    """
    wanted = Filter(
        tenant=own_filter(user, query.tenant),
        tenants=user.scope,
        queue=query.queue,
        state=query.state,
        start_ms=runtime.resolve(query.from_),
        end_ms=runtime.resolve(query.to),
    )
    return Response(200, page_of(runtime, wanted, query.cursor, query.limit))


@calls.get(
    "/v1/reservations/{id}",
    "The reservation, or the refusal.",
    headers={"ETag": "Revision of the reservation."},
    fails=("not_found",),
)
def get_reservation(
    runtime: Runtime, id_: str
) -> Annotated[Response, ReservationView, RefusalView]:
    """One reservation with its allocation and history, or one refusal."""
    body, revision = one(runtime, id_)
    return Response(200, body, {"ETag": f'"{revision}"'})


def one(runtime: Runtime, id_: str) -> tuple[dict[str, Any], int]:
    """Return one reservation with its history, or one refusal, and its revision.

    If it has left the Plan, it is read from the archive.

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
        return body | told | work_entry(reservation), reservation.revision
    if refusal is None:
        old = runtime.archive.find(id_)
        if old is None or not present_actor().user.acts_for(old.tenant):
            raise problem("not_found", f"there is no reservation {id_!r}")
        shown = msgspec.json.decode(old.body)
        return {**shown, "version": version}, shown.get("revision", 1)
    return {**refusal_to_json(refusal, grid), "version": version}, 1


def check(plan: Plan, wanted: Filter) -> None:
    """Refuse a filter that can never match.

    Raises
    ------
    ApiProblemError
        ``malformed`` for a time that ends before it starts, or a queue that never existed.
    """
    start_ms, end_ms = wanted.start_ms, wanted.end_ms
    if start_ms is not None and end_ms is not None and start_ms > end_ms:
        message = f"from ({seconds_of(start_ms)} s) is after to ({seconds_of(end_ms)} s)"
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

    If the filter has a state in which entries may have left the Plan, the archive follows.

    Raises
    ------
    ApiProblemError
        As in `check`.
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
    """Return a refusal as in the API, with a state like that of a reservation."""
    return {**refusal_with_requests(refusal.to_json(grid)), "state": State.REFUSED.value}


def _stride(
    plan: Plan, wanted: Filter, cursor: PageCursor, most: int
) -> tuple[NDArray[np.int64], PageCursor]:
    """Return the matches among the next `_STRIDE` reservations, and where to continue."""
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
    """Return the matches in the archive, and where to continue."""
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
    """Return the reservations among `numbers` that match the filter."""
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
    """Return whether a refusal matches a filter; its time is that of its submission."""
    return (
        wanted.tenant in (None, refusal.tenant)
        and (wanted.tenants is None or refusal.tenant in wanted.tenants)
        and wanted.queue in (None, refusal.queue)
        and wanted.state in (None, State.REFUSED.value)
        and (wanted.start_ms is None or refusal.submitted_ms >= wanted.start_ms)
        and (wanted.end_ms is None or refusal.submitted_ms < wanted.end_ms)
    )


def with_times(
    runtime: Runtime, entries: Sequence[dict[str, Any]], grid: TimeGrid
) -> list[dict[str, Any]]:
    """Return documents of reservations and refusals, adding times and dates to reservations.

    `window` is the window of the request; `begin` and `finish` are start and end of the allocation
    (`finish` is null if it has no end).
    """
    book = runtime.windows
    with runtime.reading() as plan:
        numbers = [plan.table.number_of(entry["id"]) for entry in entries]
        known = np.array([one for one in numbers if one is not None], dtype=np.int64)
        unread = book.unread(plan, known)
        ends = plan.table.meta[["begin", "finish"]][known].tolist()
        ordinals = plan.table.meta["ordinal"][known].tolist()
        holds = {number: hold for number, hold in plan.table.holds.items() if number in known}
    book.read(unread)
    told = zip(known.tolist(), ends, book.windows(ordinals), strict=True)
    shown = []
    for entry, number in zip(entries, numbers, strict=True):
        if number is None:
            shown.append(entry)
            continue
        _, (begin, finish), window = next(told)
        told_entry = HeldTimes(begin, finish, window).beside(entry, grid)
        if number in holds:
            told_entry["held_until"] = holds[number].until
        shown.append(told_entry)
    return shown
