"""Pipelines on disk: the stages of their runs, and the started runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import sqlalchemy as sa

from service.store.applications import ApplicationRow, require_leader
from service.store.audit import AuditRow, write_audit
from service.store.notifications import APPLICATIONS, tell
from service.store.schema import applications, pipelines
from service.store.table import TableRows


@dataclass(frozen=True, slots=True)
class PipelineRow:
    """One pipeline.

    Attributes
    ----------
    id, tenant, submitted_ms
        Id of its reservation, its owner, and its time of submission, in ms from the Plan's origin.
    document
        Its stages as submitted and how its runs overlap, JSON.
    runs
        Number of its runs that have been started, skipped or missed.
    last_ms, last_occurrence
        Start, in ms from the Plan's origin, and number of the last occurrence of its reservation
        for which that was done; -1 before the first.
    over, reason
        Whether no further run starts, and why where something ended it.
    """

    id: str
    tenant: str
    submitted_ms: int
    document: bytes
    runs: int = 0
    last_ms: int = -1
    last_occurrence: int = -1
    over: bool = False
    reason: str = ""


class PipelineRows(TableRows[PipelineRow]):
    """The rows of one database."""

    table, kind = pipelines, PipelineRow

    def get(self, id_: str) -> PipelineRow | None:
        """Return one pipeline, or None."""
        return next(iter(self.select(pipelines.c.id == id_)), None)

    def open(self) -> list[PipelineRow]:
        """Return the pipelines of which more runs may start, by submission."""
        return self.select(~pipelines.c.over, order=(pipelines.c.submitted_ms, pipelines.c.id))

    def page(
        self, tenant: str | None, tenants: frozenset[str] | None, limit: int
    ) -> list[PipelineRow]:
        """Return the pipelines of a tenant (None: of all that may be shown).

        Those that have runs to come are first, then the newest.
        """
        table = pipelines.c
        where: list[sa.ColumnElement[bool]] = []
        if tenant is not None:
            where.append(table.tenant == tenant)
        if tenants is not None:
            where.append(table.tenant.in_(sorted(tenants)))
        return self.select(
            *where, order=(table.over, table.submitted_ms.desc(), table.id), limit=limit
        )

    def sharing_ids(self, id_: str) -> str | None:
        """Return a pipeline whose stages may have ids of stages of another: ``a``, ``a.b``."""
        parts = id_.split(".")
        above = [".".join(parts[:count]) for count in range(1, len(parts))]
        table = pipelines.c
        below = table.id.startswith(f"{id_}.", autoescape=True)
        query = sa.select(table.id).where(sa.or_(table.id.in_(above), below), ~table.over).limit(1)
        with self.reading() as connection:
            found = connection.execute(query).first()
        return None if found is None else str(found[0])

    def has_open_run(self, id_: str) -> bool:
        """Return whether a stage of some run of a pipeline has not ended."""
        table = applications.c
        query = sa.select(table.id).where(table.pipeline == id_, ~table.over).limit(1)
        with self.reading() as connection:
            return connection.execute(query).first() is not None

    def advance(self, tenure: int, row: PipelineRow, stages: Sequence[ApplicationRow] = ()) -> bool:
        """Write how far a pipeline is, and the stages of the run that it starts with that.

        Returns
        -------
        bool
            Whether the ids of all `stages` were free; else none of them is written, and `row` is.

        Raises
        ------
        LeadershipLostError
            If another tenure has begun; nothing was written.
        """
        values = self.values(row)
        del values["id"], values["document"], values["tenant"], values["submitted_ms"]
        with self._engine.begin() as connection:
            require_leader(connection, tenure)
            connection.execute(
                sa.update(pipelines).where(pipelines.c.id == row.id).values(**values)
            )
            return _insert_all(connection, stages)

    def add_again(self, stages: Sequence[ApplicationRow], audited: Sequence[AuditRow]) -> bool:
        """Write stages that are to run again; return False, without a change, if one is there."""
        with self._engine.begin() as connection:
            if not _insert_all(connection, stages):
                return False
            for one in audited:
                write_audit(connection, one)
            tell(connection, APPLICATIONS)
        return True


def _insert_all(connection: sa.Connection, stages: Sequence[ApplicationRow]) -> bool:
    """Insert rows of applications unless an id of theirs is taken; return whether none is."""
    table = applications.c
    ids = [one.id for one in stages]
    if connection.execute(sa.select(table.id).where(table.id.in_(ids)).limit(1)).first():
        return False
    if stages:
        connection.execute(sa.insert(applications), [asdict(one) for one in stages])
    return True
