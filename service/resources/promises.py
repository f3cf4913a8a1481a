"""The outcomes of promises by tenant: kept, late, degraded, failed, below."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from dispatch.accounts.promises import Outcome, WorkTimes, outcome_of
from planner.placement import Code
from planner.plan.column_reading import (
    changed_between,
    histories_of,
    ids_of,
    lost_between,
    row_columns,
    scope_column,
)
from planner.plan.plan import Plan
from planner.reservations.reservation import HistoryEntry
from planner.reservations.state import NUMBERED_STATES, State
from rdl.resources import CPU, Resources
from rdl.time_grid import seconds_of
from service.access.user import User
from service.dispatching.documents import counted_in
from service.http.kinds import Flag, QueryLength, QueryTime, choice
from service.http.kit import Answer, Calls, Count, Input, Instant, doc, one_of
from service.problems import ApiError, malformed_problem
from service.runtime import Runtime
from service.store import ApplicationRow, PageOf
from service.store.archive import ArchivePage
from service.store.promise_ledger import times_below

#: Words in a history for a change of times or machines.
_ELSEWHERE: Final = frozenset({"moved", "missed", "relocated", "optimized", "restored"})

#: Applications or archived reservations per page of reading.
_PAGE: Final = 1000

#: Units of the resource `cpu` per core.
_MILLI: Final = 1000

#: The most parts of a time with separate counts.
_MOST_TIMES: Final = 400


class PromiseQuery(Input):
    by: Annotated[str, choice(("tenant",)), doc("Attribute to group by.")] = "tenant"
    from_: Annotated[QueryTime | None, doc("Start; the origin when absent.")] = None
    to: Annotated[QueryTime | None, doc("End; now when absent.")] = None
    step: Annotated[QueryLength | None, doc("Also count each interval of this length.")] = None
    each: Annotated[Flag, doc("Add the outcome of each reservation.")] = False


class PromiseCounts(Answer):
    """Reservations that hold something in a time, or to which something happened.

    Those kept, degraded, unused and failed are all that were promised
    (`dispatch.accounts.promises.Outcome`); moved and late ones may be kept.
    """

    promised: Annotated[Count, doc("Promises that their owners have not cancelled.")] = 0
    kept: Annotated[Count, doc("Promises that always had their machines in time.")] = 0
    degraded: Annotated[Count, doc("Promises that lacked machines while they were due.")] = 0
    failed: Annotated[Count, doc("Promises whose lost machines were not replaced.")] = 0
    moved: Annotated[Count, doc("Promises that were moved in time or to other machines.")] = 0
    unused: Annotated[Count, doc("Promises that covered no work while an application waited.")] = 0
    late: Annotated[
        Count, doc("Promises, kept or not, whose work ended after the reservation.")
    ] = 0
    below: Annotated[
        Count, doc("Promises that have fewer machines now than they are entitled to.")
    ] = 0
    cancelled: Annotated[Count, doc("Promises that their owners have cancelled.")] = 0
    below_s: Annotated[float, doc("Observed seconds below their entitlement.")] = 0.0


class TenantPromises(PromiseCounts, kw_only=True):
    tenant: Annotated[str | None, doc("Null: all others that you may not see.")]


class TimePromises(PromiseCounts, kw_only=True):
    from_: float
    to: float
    from_at: Instant


class ReservationPromise(Answer):
    id: str
    tenant: str
    promise: Annotated[str, one_of(map(str, Outcome))]
    is_over: bool


class Promises(Answer):
    version: Count
    from_: float
    to: float
    from_at: Instant
    to_at: Instant
    tenants: list[TenantPromises]
    times: Annotated[
        list[TimePromises],
        doc("Counts of all tenants for each part of the time, if `step` is given."),
    ]
    reservations: Annotated[
        list[ReservationPromise], doc("Each reservation of your tenants, if `each` is given.")
    ]


calls = Calls()


@calls.get("/v1/promises", "The counts.", fails=(Code.MALFORMED,))
def get_promises(runtime: Runtime, user: User, query: PromiseQuery) -> Promises:
    """The outcome of promises by tenant: kept, degraded, unused, failed, late, below.

    All tenants that the user does not act for are counted together. Archived reservations are
    counted, too.
    """
    now_ms = runtime.now_ms()
    start_ms, end_ms = _time_of(runtime, query, now_ms)
    facts = work_facts(runtime, now_ms)
    found, version = promises_between(runtime, start_ms, end_ms)
    counts: dict[str | None, TenantPromises] = {}
    for one in found:
        name = one.tenant if user.acts_for(one.tenant) else None
        add_outcome(counts.setdefault(name, TenantPromises(tenant=name)), one, facts)
    return Promises(
        version=version,
        from_=seconds_of(start_ms),
        to=seconds_of(end_ms),
        from_at=runtime.calendar(start_ms),
        to_at=runtime.calendar(end_ms),
        tenants=sorted(counts.values(), key=lambda one: (one.tenant is None, str(one.tenant))),
        times=_by_time(runtime, found, facts, (start_ms, end_ms, query.step)),
        reservations=[
            ReservationPromise(
                id=one.id,
                tenant=one.tenant,
                promise=facts.outcome_of(one).value,
                is_over=one.finish_ms <= now_ms,
            )
            for one in (found if query.each else ())
            if user.acts_for(one.tenant)
        ],
    )


def work_facts(runtime: Runtime, now_ms: int) -> WorkFacts:
    """Return the dispatcher's data about the work of all reservations."""
    return WorkFacts(
        _work_of(runtime),
        set(msgspec.json.decode(runtime.dispatcher.rows.assignment()).get("below", ())),
        times_below(runtime.dispatcher.store, now_ms),
        now_ms,
    )


def promises_between(
    runtime: Runtime, start_ms: int, end_ms: int, *, cores: bool = False
) -> tuple[list[PastPromise], int]:
    """Return the reservations of a time from Plan and archive, and the Plan's version.

    Parameters
    ----------
    cores
        Whether to add their cores over time.
    """
    with runtime.reading() as plan:
        found = list(_found_in_plan(plan, start_ms, end_ms, cores=cores))
        version = plan.version
    known = {(one.id, one.finish_ms) for one in found}
    archived = _found_in_archive(runtime, start_ms, end_ms, known, cores=cores)
    return [*found, *archived], version


def _time_of(runtime: Runtime, query: PromiseQuery, now_ms: int) -> tuple[int, int]:
    asked, until = runtime.resolve(query.from_), runtime.resolve(query.to)
    start_ms = 0 if asked is None else max(0, asked)
    end_ms = max(now_ms, start_ms + 1) if until is None else until
    if end_ms <= start_ms:
        start, end = runtime.calendar(start_ms), runtime.calendar(end_ms)
        message = f"the start {start} is not before the end {end}"
        raise malformed_problem([ApiError(message, pointer="?from")])
    if query.step is not None and end_ms - start_ms > _MOST_TIMES * query.step:
        message = f"more than {_MOST_TIMES} steps lie between from and to"
        raise malformed_problem([ApiError(message, pointer="?step", fix="a longer step")])
    return start_ms, end_ms


@dataclass(frozen=True, slots=True)
class WorkFacts:
    """The dispatcher's data about work by reservation.

    These are times of the work, reservations below their entitlement now, how long each was below
    it in ms, and the present time.
    """

    work: Mapping[str, WorkTimes]
    below: set[str]
    below_ms: Mapping[str, int]
    now_ms: int

    def outcome_of(self, one: PastPromise) -> Outcome:
        """Return the outcome of a reservation."""
        length_ms, below_ms = max(0, one.finish_ms - one.begin_ms), self.below_ms.get(one.id, 0)
        work = self.work.get(one.id)
        waited = work is not None and work.has_waited(one.finish_ms, self.now_ms)
        return outcome_of(one.state, one.history, self.now_ms, length_ms, below_ms, waited=waited)

    def is_late(self, one: PastPromise) -> bool:
        """Return whether work ended after the reservation, or still runs or waits after its end."""
        work = self.work.get(one.id)
        return work is not None and work.is_late(one.finish_ms, self.now_ms)


class PastPromise(NamedTuple):
    """One reservation: owner, history, and start and end of its allocation.

    `cores` are rows of start and end in ms and allocated cores; empty if they are not requested.
    """

    id: str
    tenant: str
    queue: str
    state: State
    history: Sequence[HistoryEntry]
    begin_ms: int
    finish_ms: int
    cores: Sequence[tuple[int, int, float]] = ()

    @property
    def words(self) -> set[str]:
        """The words of its history."""
        return {entry.what for entry in self.history}

    @property
    def told_ms(self) -> int:
        """The time of the last entry of its history."""
        return max((entry.at_ms for entry in self.history), default=0)


def _found_in_plan(plan: Plan, start_ms: int, end_ms: int, *, cores: bool) -> Iterator[PastPromise]:
    """Yield the reservations of a time that are still in the Plan."""
    table, grid = plan.table, plan.grid
    first, last = grid.floor(start_ms), grid.ceil(end_ms)
    meta = table.meta
    held = np.flatnonzero((meta["begin"] < last) & (meta["finish"] > first))
    # A reservation that has lost its whole allocation would not be found by its times.
    lost = lost_between(table, start_ms, end_ms, (State.DEGRADED, State.FAILED))
    numbers = np.union1d(np.union1d(held, lost), changed_between(table, start_ms, end_ms))
    tenants, queues = (scope_column(table, numbers, name) for name in ("tenant", "queue"))
    changed = histories_of(table, numbers)
    held_cores = _cores_in_plan(plan, numbers) if cores else {}
    ids = ids_of(table, numbers)
    for place, number in enumerate(numbers.tolist()):
        yield PastPromise(
            ids[place],
            tenants.words[int(tenants.place[place])],
            queues.words[int(queues.place[place])],
            NUMBERED_STATES[int(meta["state"][number])],
            changed.get(number, ()),
            grid.ms(int(meta["begin"][number])),
            grid.ms(min(int(meta["finish"][number]), grid.horizon)),
            held_cores.get(number, ()),
        )


def _cores_in_plan(
    plan: Plan, numbers: NDArray[np.int64]
) -> dict[int, list[tuple[int, int, float]]]:
    """Return rows of start and end in ms and allocated cores, by reservation."""
    columns, grid = row_columns(plan.table, numbers), plan.grid
    sizes = [bundle.get(CPU, 0) / _MILLI for bundle in columns.bundles]
    found: dict[int, list[tuple[int, int, float]]] = {}
    rows = zip(columns.number.tolist(), columns.kind.tolist(), columns.rows.tolist(), strict=True)
    for number, kind, (start, end, bundles) in rows:
        row = (grid.ms(start), grid.ms(min(end, grid.horizon)), bundles * sizes[kind])
        found.setdefault(number, []).append(row)
    return found


class _ArchivedEntry(msgspec.Struct):
    """The decoded part of an entry of an archived history."""

    what: str
    at: float = 0.0
    lost_from: float | None = None
    lost_to: float = 0.0

    def entry(self) -> HistoryEntry:
        """Return the entry in the form of the Plan; its version is not needed."""
        at_ms = round(1000 * self.at)
        if self.lost_from is None:
            return HistoryEntry(at_ms, 0, self.what)
        lost = round(1000 * self.lost_from), round(1000 * self.lost_to)
        return HistoryEntry(at_ms, 0, self.what, lost=lost)


class _ArchivedAtom(msgspec.Struct):
    """The decoded part of an atom of an archived reservation."""

    bundle: dict[str, Any] = {}
    allocation: tuple[tuple[float, float, int], ...] = ()


class _Archived(msgspec.Struct):
    """The decoded part of an archived reservation."""

    history: tuple[_ArchivedEntry, ...] = ()


class _ArchivedWithCores(_Archived):
    """The same with allocations."""

    atoms: tuple[_ArchivedAtom, ...] = ()

    def cores(self) -> Iterator[tuple[int, int, float]]:
        """Yield start and end of each row in ms, and the allocated cores."""
        for atom in self.atoms:
            size = Resources.from_json(atom.bundle).get(CPU, 0) / _MILLI
            for start_s, end_s, bundles in atom.allocation:
                yield round(1000 * start_s), round(1000 * end_s), bundles * size


def _found_in_archive(
    runtime: Runtime, start_ms: int, end_ms: int, known: set[tuple[str, int]], *, cores: bool
) -> Iterator[PastPromise]:
    """Yield the reservations of a time from the archive, except known ones."""
    after, since_ms = 0, runtime.unix_of(start_ms)
    while True:
        rows = runtime.archive.page(ArchivePage(after, _PAGE, left_since_ms=since_ms))
        for row in rows:
            if row.state == State.REFUSED.value or (row.id, row.end_ms) in known:
                continue
            kind = _ArchivedWithCores if cores else _Archived
            archived = msgspec.json.decode(row.body, type=kind)
            entries = [entry.entry() for entry in archived.history]
            if (row.begin_ms < end_ms and row.end_ms > start_ms) or any(
                start_ms <= one.at_ms < end_ms for one in entries
            ):
                yield PastPromise(
                    row.id,
                    row.tenant,
                    row.queue,
                    State(row.state),
                    entries,
                    row.begin_ms,
                    row.end_ms,
                    tuple(archived.cores()) if isinstance(archived, _ArchivedWithCores) else (),
                )
        if len(rows) < _PAGE:
            return
        after = rows[-1].place


def _by_time(
    runtime: Runtime,
    found: Iterable[PastPromise],
    facts: WorkFacts,
    span: tuple[int, int, int | None],
) -> list[TimePromises]:
    """Return the counts of each part of a time.

    A reservation counts in the part with the end of its allocation or with the last entry of its
    history, whichever is later; at the latest in the last part.
    """
    start_ms, end_ms, step_ms = span
    if step_ms is None:
        return []
    parts = [
        TimePromises(
            from_=seconds_of(begin_ms),
            to=seconds_of(min(begin_ms + step_ms, end_ms)),
            from_at=runtime.calendar(begin_ms),
        )
        for begin_ms in range(start_ms, end_ms, step_ms)
    ]
    for one in found:
        place = (max(one.finish_ms, one.told_ms) - start_ms) // step_ms
        add_outcome(parts[min(max(place, 0), len(parts) - 1)], one, facts)
    return parts


def add_outcome(count: PromiseCounts, one: PastPromise, facts: WorkFacts) -> None:
    """Add the outcome of one reservation to counts."""
    outcome = facts.outcome_of(one)
    if outcome is Outcome.CANCELLED:
        count.cancelled += 1
        return
    count.promised += 1
    count.kept += outcome is Outcome.KEPT
    count.degraded += outcome is Outcome.DEGRADED
    count.unused += outcome is Outcome.UNUSED
    count.failed += outcome is Outcome.FAILED
    count.moved += bool(one.words & _ELSEWHERE)
    count.late += facts.is_late(one)
    count.below += one.id in facts.below
    count.below_s += facts.below_ms.get(one.id, 0) / 1000


def _work_of(runtime: Runtime) -> dict[str, WorkTimes]:
    """Return the combined times of the applications of each reservation."""
    found: dict[str, WorkTimes] = {}
    for row in application_rows(runtime):
        reservation = counted_in(row.document)[0]
        if reservation is None:
            continue
        status = msgspec.json.decode(row.status)
        started_ms, ended_ms = (_ms_of(status.get(name)) for name in ("started", "ended"))
        known = found.setdefault(reservation, WorkTimes())
        known.add(row.submitted_ms, started_ms, ended_ms)
    return found


def _ms_of(seconds: float | None) -> int | None:
    return None if seconds is None else round(1000 * seconds)


def application_rows(runtime: Runtime) -> Iterable[ApplicationRow]:
    """Yield all applications in order of submission, reading page by page."""
    after: tuple[int, str] | None = None
    while True:
        page = runtime.dispatcher.rows.page(PageOf(after, limit=_PAGE))
        yield from page
        if len(page) < _PAGE:
            return
        after = page[-1].submitted_ms, page[-1].id
