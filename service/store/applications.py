"""Applications on disk: submissions, outcomes, and the dispatching process.

Any process takes submissions and answers reads; one at a time, the leader, runs the dispatcher and
writes its results. Leadership that is not renewed runs out, and another process takes over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec
import sqlalchemy as sa
from sqlalchemy.exc import IntegrityError

from service.store.answers import IdempotentAnswer
from service.store.audit import AuditRow, write_audit
from service.store.notifications import APPLICATIONS, tell
from service.store.schema import answers, applications, dispatching
from service.store.table import TableRows, insert_or

#: Row of `dispatching` that says who leads.
DISPATCHER: Final = "dispatcher"

#: Row of `dispatching` that is locked while applications are counted.
_JUDGED: Final = "submissions"

#: By how many times the length of a leadership the clocks of two hosts may differ.
_SKEW: Final = 6


class IdTakenError(Exception):
    """There is an application of this id already."""


class LeadershipLostError(Exception):
    """Another tenure of the dispatch has begun; nothing was written."""


@dataclass(frozen=True, slots=True)
class ApplicationRow:
    """One application.

    Attributes
    ----------
    id, tenant, submitted_ms
        Tenant, user and time, in ms from the Plan's origin.
    document
        The application and its submission, JSON.
    taken, unwanted, over
        Whether the dispatcher has it, whether its owner wants it ended, whether it has.
    state, status
        As the dispatcher last wrote them; status is JSON.
    pipeline, run
        The pipeline of which it is a stage (empty: none), and the number of the run.
    """

    id: str
    tenant: str
    submitted_ms: int
    document: bytes
    taken: bool = False
    unwanted: bool = False
    over: bool = False
    state: str = "queued"
    status: bytes = b"{}"
    pipeline: str = ""
    run: int = 0


@dataclass(frozen=True, slots=True)
class Submitted:
    """The owner of an application, and its submission."""

    tenant: str
    document: bytes


#: Judges the applications that have not ended, a new one among them; raises to refuse it.
Judge: TypeAlias = Callable[[Sequence[Submitted]], None]


@dataclass(frozen=True, slots=True)
class StatusRow:
    """The outcome of one application."""

    id: str
    state: str
    over: bool
    status: bytes


@dataclass(frozen=True, slots=True)
class PageOf:
    """Which applications to list: after (submitted_ms, id), of a state, of a tenant.

    `tenants` are those whose applications may be shown at all; None: all.
    """

    after: tuple[int, str] | None = None
    state: str | None = None
    tenant: str | None = None
    limit: int = 100
    tenants: frozenset[str] | None = None


class _KeptApplication(msgspec.Struct):
    """The key of an application that names its reservation."""

    reservation: str | None = None


class _KeptDocument(msgspec.Struct):
    """The key of a submission that names its reservation."""

    application: _KeptApplication


_BY_SUBMISSION: Final = (applications.c.submitted_ms, applications.c.id)

_DECODER: Final = msgspec.json.Decoder(_KeptDocument)


class ApplicationRows(TableRows[ApplicationRow]):
    """The rows of one database."""

    table, kind = applications, ApplicationRow

    def add(
        self,
        row: ApplicationRow,
        remembered: IdempotentAnswer | None = None,
        judge: Judge | None = None,
        audited: AuditRow | None = None,
    ) -> None:
        """Make a submission durable, and the answer to it and the audit of it with it.

        `judge` gets all current applications, including the new one; if it raises, nothing is
        written. Submissions that are judged come one after another.

        Raises
        ------
        IdTakenError
            If its id, or the key of the answer, is there already.
        """
        try:
            with self._engine.begin() as connection:
                connection.execute(sa.insert(applications).values(self.values(row)))
                if judge is not None:
                    judge(self._open_alone(connection))
                if remembered is not None:
                    connection.execute(sa.insert(answers).values(remembered.values()))
                if audited is not None:
                    write_audit(connection, audited)
                tell(connection, APPLICATIONS)
        except IntegrityError as error:
            raise IdTakenError(row.id) from error

    def _open_alone(self, connection: sa.Connection) -> list[Submitted]:
        """Return the current applications; no other process may judge them meanwhile."""
        _first_row(connection, _JUDGED, "", 0)
        locked = sa.select(dispatching.c.name).where(dispatching.c.name == _JUDGED)
        connection.execute(locked.with_for_update())
        table = applications.c
        found = connection.execute(sa.select(table.tenant, table.document).where(~table.over))
        return [Submitted(one.tenant, bytes(one.document)) for one in found]

    def get(self, id_: str) -> ApplicationRow | None:
        """Return one application, or None."""
        return next(iter(self.select(applications.c.id == id_)), None)

    def ids_starting_with(self, prefix: str, *, limit: int) -> list[str]:
        """Return ids of applications that begin with a prefix."""
        column = applications.c.id
        query = sa.select(column).where(column.startswith(prefix, autoescape=True)).limit(limit)
        with self.reading() as connection:
            return list(connection.execute(query).scalars())

    def of_pipeline(
        self, pipeline: str, first: int = 0, last: int | None = None
    ) -> list[ApplicationRow]:
        """Return the stages of the runs `first` to `last` of a pipeline, by run and submission."""
        table = applications.c
        until = () if last is None else (table.run <= last,)
        wanted = (table.pipeline == pipeline, table.run >= first, *until)
        return self.select(*wanted, order=(table.run, *_BY_SUBMISSION))

    def page(self, wanted: PageOf) -> list[ApplicationRow]:
        """Return applications in order of submission."""
        table = applications.c
        where: list[sa.ColumnElement[bool]] = []
        if wanted.after is not None:
            at_ms, id_ = wanted.after
            later = sa.and_(table.submitted_ms == at_ms, table.id > id_)
            where.append(sa.or_(table.submitted_ms > at_ms, later))
        if wanted.state is not None:
            where.append(table.state == wanted.state)
        if wanted.tenant is not None:
            where.append(table.tenant == wanted.tenant)
        if wanted.tenants is not None:
            where.append(table.tenant.in_(sorted(wanted.tenants)))
        return self.select(*where, order=_BY_SUBMISSION, limit=wanted.limit)

    def end(self, id_: str, audited: AuditRow | None = None) -> ApplicationRow | None:
        """Note that its owner wants an application ended; return it, or None if there is none."""
        with self._engine.begin() as connection:
            ended = connection.execute(
                sa.update(applications)
                .where(applications.c.id == id_, ~applications.c.over, ~applications.c.unwanted)
                .values(unwanted=True)
            )
            if ended.rowcount and audited is not None:
                write_audit(connection, audited)
            tell(connection, APPLICATIONS)
        return self.get(id_)

    def open(self, *, fresh: bool = False) -> list[ApplicationRow]:
        """Return the applications that have not ended, by submission; fresh: not yet taken."""
        table = applications.c
        fresh_ones = (~table.taken,) if fresh else ()
        return self.select(~table.over, *fresh_ones, order=_BY_SUBMISSION)

    def counts(self) -> dict[str, int]:
        """Return how many applications that have not ended are in each state."""
        table = applications.c
        query = sa.select(table.state, sa.func.count()).where(~table.over).group_by(table.state)
        with self.reading() as connection:
            return {str(state): int(count) for state, count in connection.execute(query)}

    def led_until_ms(self) -> int:
        """Return until when a process leads the dispatch, Unix ms; -1 if none ever has."""
        query = sa.select(dispatching.c.until_ms).where(dispatching.c.name == DISPATCHER)
        with self.reading() as connection:
            found = connection.execute(query).scalar_one_or_none()
        return -1 if found is None else int(found)

    def open_ids_of(self, tenants: frozenset[str]) -> frozenset[str]:
        """Return the ids of the applications of some tenants that have not ended."""
        table = applications.c
        query = sa.select(table.id).where(~table.over, table.tenant.in_(sorted(tenants)))
        with self.reading() as connection:
            return frozenset(connection.execute(query).scalars())

    def reservations_in_use(self) -> frozenset[str]:
        """Return the ids of reservations under which applications run that have not ended."""
        query = sa.select(applications.c.document).where(~applications.c.over)
        with self.reading() as connection:
            read = [_DECODER.decode(raw) for raw in connection.execute(query).scalars()]
        return frozenset(
            one.application.reservation for one in read if one.application.reservation is not None
        )

    def ids_to_end(self) -> list[str]:
        """Return the ids that are to be ended and are not yet."""
        query = sa.select(applications.c.id).where(~applications.c.over, applications.c.unwanted)
        with self.reading() as connection:
            return list(connection.execute(query).scalars())

    def lead(self, holder: str, now_ms: int, until_ms: int) -> int:
        """Take or renew leadership of the dispatch.

        Returns
        -------
        int
            Number of the tenure, the same for as long as no other process leads; 0 while another
            process does.
        """
        table = dispatching.c
        query = sa.select(table.holder, table.until_ms).where(table.name == DISPATCHER)
        with self.reading() as connection:  # anyone who has to wait does not ask for the write lock
            found = connection.execute(query).one_or_none()
        # Leadership far ahead was taken before the clock was set back; its holder may be gone.
        latest_ms = now_ms + _SKEW * (until_ms - now_ms)
        if found is not None and found.holder != holder and now_ms < found.until_ms <= latest_ms:
            return 0
        mine = sa.or_(table.holder == holder, table.until_ms <= now_ms, table.until_ms > latest_ms)
        with self._engine.begin() as connection:
            if found is None:
                return _first_row(connection, DISPATCHER, holder, until_ms)
            # Judged again on the row as it is now: of two that found it free one takes it.
            taken = connection.execute(
                sa.update(dispatching)
                .where(table.name == DISPATCHER, mine)
                .values(
                    holder=holder,
                    until_ms=until_ms,
                    tenure=sa.case((table.holder == holder, table.tenure), else_=table.tenure + 1),
                )
                .returning(table.tenure)
            ).scalar_one_or_none()
        return taken or 0

    def give_up_leadership(self, holder: str) -> None:
        """Let another process take over immediately."""
        table = dispatching.c
        mine = sa.update(dispatching).where(table.name == DISPATCHER, table.holder == holder)
        self.change(mine.values(until_ms=0))

    def write(
        self,
        tenure: int,
        statuses: Sequence[StatusRow],
        assignment: bytes | None,
        taken: Callable[[sa.Connection], None] | None = None,
    ) -> None:
        """Store the results of a cycle, all or nothing; `taken` writes its further rows.

        Raises
        ------
        LeadershipLostError
            If another tenure has begun.
        """
        with self._engine.begin() as connection:
            require_leader(connection, tenure)
            if taken is not None:
                taken(connection)
            for one in statuses:
                connection.execute(
                    sa.update(applications)
                    .where(applications.c.id == one.id)
                    .values(state=one.state, over=one.over, status=one.status, taken=True)
                )
            if assignment is not None:
                connection.execute(
                    sa.update(dispatching)
                    .where(dispatching.c.name == DISPATCHER)
                    .values(body=assignment)
                )

    def assignment(self) -> bytes:
        """Return the assignment written last, JSON; an empty object before the first."""
        query = sa.select(dispatching.c.body).where(dispatching.c.name == DISPATCHER)
        with self.reading() as connection:
            found = connection.execute(query).scalar_one_or_none()
        return b"{}" if found is None else bytes(found)


def _first_row(connection: sa.Connection, name: str, holder: str, until_ms: int) -> int:
    """Write a row of `dispatching` unless it is there; return its tenure, 0 if it was there."""
    row = {"name": name, "holder": holder, "until_ms": until_ms, "body": b"{}", "tenure": 1}
    first = insert_or(connection.dialect.name, dispatching).values(row)
    return connection.execute(first.returning(dispatching.c.tenure)).scalar_one_or_none() or 0


def require_leader(connection: sa.Connection, tenure: int) -> None:
    """Hold leadership until a transaction is durable, so that no one takes over in the middle.

    Raises
    ------
    LeadershipLostError
        If another tenure has begun.
    """
    present = connection.execute(
        sa.select(dispatching.c.tenure).where(dispatching.c.name == DISPATCHER).with_for_update()
    ).scalar_one_or_none()
    if present != tenure:
        raise LeadershipLostError(f"tenure {present}, not {tenure}")
