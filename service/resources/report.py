"""The usage report: promised, used and refused amounts of each tenant, queue or user in a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final

import msgspec

from dispatch.accounts.promises import Outcome
from planner.cluster.cluster import Cluster
from planner.placement import Code
from planner.value import cpu_hours_of
from rdl.compile.compiler import compile_expression
from rdl.compile.source import read_source
from rdl.errors import RdlError
from rdl.resources import CPU
from rdl.time_grid import TimeGrid, seconds_of
from service.access.user import User
from service.dispatching.documents import read_document
from service.dispatching.records import ElasticUse
from service.http.kinds import QueryTime, choice
from service.http.kit import Answer, Calls, Count, Input, Instant, doc
from service.problems import ApiError, malformed_problem
from service.resources.promises import (
    PastPromise,
    PromiseCounts,
    WorkFacts,
    add_outcome,
    application_rows,
    promises_between,
    work_facts,
)
from service.runtime import Runtime
from service.store.archive import ArchivePage
from service.store.audit import AuditKey

_HOUR_MS: Final = 3_600_000
_MILLI: Final = 1000
_PAGE: Final = 1000

#: Kinds of audit rows that name the user who requested a reservation or submitted an application.
_ASKED: Final = ("admit", "hold_accepted", "refuse")
_SUBMITTED: Final = ("submit_application",)

#: The most distinct requests that are compiled for one report, which takes some seconds.
_MOST_COMPILED: Final = 5_000

#: State of refusals in the archive.
_REFUSED: Final = "refused"

_BROKEN: Final = frozenset({Outcome.DEGRADED, Outcome.FAILED, Outcome.UNUSED})


class ReportQuery(Input):
    from_: Annotated[QueryTime | None, doc("Start; 30 days before the end when absent.")] = None
    to: Annotated[QueryTime | None, doc("End; now when absent.")] = None
    by: Annotated[str, choice(("tenant", "queue", "user")), doc("Attribute to group rows by.")] = (
        "tenant"
    )


class ReportRow(PromiseCounts, kw_only=True):
    """Counts and core-hours of one tenant, queue or user, within the time."""

    name: Annotated[str | None, doc("Null: all others that you may not see.")]
    refused: Annotated[Count, doc("Requests refused.")] = 0
    promised_core_hours: float = 0.0
    kept_core_hours: float = 0.0
    late_core_hours: float = 0.0
    broken_core_hours: Annotated[
        float, doc("Core-hours of degraded, failed or unused promises that are still allocated.")
    ] = 0.0
    refused_core_hours: Annotated[
        float, doc("Core-hours of refused requests, at most 5,000 distinct ones.")
    ] = 0.0
    used_core_hours: Annotated[
        float, doc("Core-hours of core and elastic components while they ran.")
    ] = 0.0
    peak_cores: Annotated[float, doc("Largest number of cores allocated at a time.")] = 0.0
    peak_at: Annotated[Instant | None, doc("Start of that peak.")] = None


class UsageReport(Answer):
    version: Count
    by: str
    from_: float
    to: float
    from_at: Instant
    to_at: Instant
    total: ReportRow
    rows: Annotated[list[ReportRow], doc("In order of promised core-hours, largest first.")]


@dataclass(slots=True)
class _Account:
    """The totals for one row."""

    row: ReportRow
    held: list[tuple[int, int, float]] = field(default_factory=list)


calls = Calls()


@calls.get("/v1/report", "The report.", fails=(Code.MALFORMED,))
def get_report(runtime: Runtime, user: User, query: ReportQuery) -> UsageReport:
    """Promised, used, kept, late, broken and refused work in a period by tenant, queue or user.

    Core-hours count what lies within the time. Archived reservations are counted,
    too. All tenants that the caller does not act for are one row.
    """
    now_ms = runtime.now_ms()
    start_ms, end_ms = _time_of(runtime, query, now_ms)
    facts = work_facts(runtime, now_ms)
    promises, version = promises_between(runtime, start_ms, end_ms, cores=True)
    refusals = list(_refusals(runtime, start_ms, end_ms))
    runs = list(_runs(runtime, start_ms, end_ms, now_ms))
    asked, submitted = dict[AuditKey, str](), dict[AuditKey, str]()
    if query.by == "user":
        ids = {one.id for one in promises} | {one.id for one in refusals}
        asked = runtime.audit.users_of(sorted(ids), _ASKED)
        submitted = runtime.audit.users_of(sorted({one.id for one in runs}), _SUBMITTED)
    total = _Account(ReportRow(name="total"))
    accounts: dict[str | None, _Account] = {}

    def accounts_of(
        one: PastPromise | _Asked, users: Mapping[AuditKey, str] = asked
    ) -> Iterator[_Account]:
        yield total
        name = None
        if user.acts_for(one.tenant):
            key = one.tenant, one.id
            name = users.get(key, "") if query.by == "user" else str(getattr(one, query.by))
        yield accounts.setdefault(name, _Account(ReportRow(name=name)))

    span = (start_ms, end_ms)
    for promise in promises:
        for account in accounts_of(promise):
            _add_promise(account, promise, facts, span)
    for refusal in refusals:
        for account in accounts_of(refusal):
            account.row.refused += 1
            account.row.refused_core_hours += refusal.core_hours
    for run in runs:
        for account in accounts_of(run, submitted):
            account.row.used_core_hours += run.core_hours
    rows = [_finished(runtime, account) for account in accounts.values()]
    rows.sort(key=lambda one: (one.name is None, -one.promised_core_hours, str(one.name)))
    return UsageReport(
        version=version,
        by=query.by,
        from_=seconds_of(start_ms),
        to=seconds_of(end_ms),
        from_at=runtime.calendar(start_ms),
        to_at=runtime.calendar(end_ms),
        total=_finished(runtime, total),
        rows=rows,
    )


def _time_of(runtime: Runtime, query: ReportQuery, now_ms: int) -> tuple[int, int]:
    asked, until = runtime.resolve(query.from_), runtime.resolve(query.to)
    end_ms = now_ms if until is None else until
    start_ms = max(0, end_ms - 30 * 24 * _HOUR_MS) if asked is None else max(0, asked)
    if end_ms <= start_ms:
        if query.from_ is None and query.to is None:
            return start_ms, start_ms + 1
        start, end = runtime.calendar(start_ms), runtime.calendar(end_ms)
        message = f"the start {start} is not before the end {end}"
        raise malformed_problem([ApiError(message, pointer="?from")])
    return start_ms, end_ms


def _add_promise(
    account: _Account, one: PastPromise, facts: WorkFacts, span: tuple[int, int]
) -> None:
    """Add a reservation's outcome, and its core-hours within the time."""
    row = account.row
    add_outcome(row, one, facts)
    outcome = facts.outcome_of(one)
    if outcome is Outcome.CANCELLED:
        return
    within = [
        (max(start, span[0]), min(end, span[1]), cores)
        for start, end, cores in one.cores
        if start < span[1] and end > span[0]
    ]
    account.held += within
    hours = sum((end - start) * cores for start, end, cores in within) / _HOUR_MS
    row.promised_core_hours += hours
    row.kept_core_hours += hours if outcome is Outcome.KEPT else 0
    row.broken_core_hours += hours if outcome in _BROKEN else 0
    row.late_core_hours += hours if facts.is_late(one) else 0


def _finished(runtime: Runtime, account: _Account) -> ReportRow:
    """Return the row with its peak, rounded for display."""
    row = account.row
    peak, at_ms = _peak(account.held)
    row.peak_cores = round(peak, 3)
    row.peak_at = None if at_ms is None else runtime.calendar(at_ms)
    for name in row.__struct_fields__:
        if name.endswith("core_hours"):
            setattr(row, name, round(getattr(row, name), 3))
    return row


def _peak(held: Iterable[tuple[int, int, float]]) -> tuple[float, int | None]:
    """Return the most cores held at one time, and the start of that time; (0, None) if empty."""
    change: dict[int, float] = {}
    for start, end, cores in held:
        change[start] = change.get(start, 0.0) + cores
        change[end] = change.get(end, 0.0) - cores
    cores, peak, at_ms = 0.0, 0.0, None
    for instant in sorted(change):
        cores += change[instant]
        if cores > peak + 1e-9:
            peak, at_ms = cores, instant
    return peak, at_ms


@dataclass(frozen=True, slots=True)
class _Asked:
    """A refusal with its requested core-hours, or a run with its used core-hours."""

    id: str
    tenant: str
    queue: str
    core_hours: float


class _ArchivedRefusal(msgspec.Struct):
    expression: str = ""


def _refusals(runtime: Runtime, start_ms: int, end_ms: int) -> Iterator[_Asked]:
    """Yield the refusals of a time from Plan and archive."""
    with runtime.reading() as plan:
        here = [one for one in plan.refusals if start_ms <= one.submitted_ms < end_ms]
        sizes = _Sizes(plan.cluster, plan.grid)
    for one in here:
        hours = sizes.core_hours(one.expression, one.submitted_ms)
        yield _Asked(one.id, one.tenant, one.queue, hours)
    known = {(one.id, one.submitted_ms) for one in here}
    after, since_ms = 0, runtime.unix_of(start_ms)
    while True:
        wanted = ArchivePage(after, _PAGE, state=_REFUSED, left_since_ms=since_ms)
        rows = runtime.archive.page(wanted)
        for row in rows:
            if start_ms <= row.begin_ms < end_ms and (row.id, row.begin_ms) not in known:
                text = msgspec.json.decode(row.body, type=_ArchivedRefusal).expression
                hours = sizes.core_hours(text, row.begin_ms)
                yield _Asked(row.id, row.tenant, row.queue, hours)
        if len(rows) < _PAGE:
            return
        after = rows[-1].place


@dataclass(slots=True)
class _Sizes:
    """The core-hours of requests; each text is compiled once, up to a limit of texts."""

    cluster: Cluster
    grid: TimeGrid
    known: dict[str, float] = field(default_factory=dict)

    def core_hours(self, text: str, submitted_ms: int) -> float:
        """Return the core-hours of a request; 0 if it cannot be compiled."""
        if text not in self.known and len(self.known) >= _MOST_COMPILED:
            return 0.0
        if text not in self.known:
            context = self.cluster.context(self.grid, submitted_ms)
            try:
                graph = compile_expression(read_source(text), context)
            except RdlError:
                self.known[text] = 0.0
            else:
                self.known[text] = cpu_hours_of(graph)
        return self.known[text]


class _Status(ElasticUse):
    started: float | None = None
    ended: float | None = None


def _runs(runtime: Runtime, start_ms: int, end_ms: int, now_ms: int) -> Iterator[_Asked]:
    """Yield the applications that ran within a time, with the core-hours of their components."""
    for row in application_rows(runtime):
        status = msgspec.json.decode(row.status, type=_Status)
        ended_ms = now_ms if status.ended is None else round(1000 * status.ended)
        until_ms = min(end_ms, ended_ms)
        core_ms = status.core_ms(start_ms, until_ms)
        document = read_document(row.document)
        if status.started is not None:
            length_ms = until_ms - max(start_ms, round(1000 * status.started))
            core_ms += max(0, length_ms) * sum(
                part.count * part.resources.get(CPU, 0) / _MILLI
                for part in document.application.components
                if part.core
            )
        if core_ms > 0:
            yield _Asked(row.id, row.tenant, document.queue, core_ms / _HOUR_MS)
