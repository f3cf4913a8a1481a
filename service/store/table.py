"""Rows of a table as dataclasses: reads, and changes with their audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, ClassVar, Generic, TypeVar

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from service.store.audit import AuditRow, write_audit

_Row = TypeVar("_Row")


class TableRows(Generic[_Row]):
    """Base class for reading and changing the rows of one table.

    Attributes
    ----------
    table, kind
        The table, and the dataclass whose fields are its columns.
    """

    table: ClassVar[sa.Table]
    kind: type[_Row]

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def reading(self) -> sa.Connection:
        """Return a connection for a `with` statement that takes no write lock."""
        return self._engine.connect().execution_options(agenda_read_only=True)

    def select(
        self,
        *where: sa.ColumnElement[bool],
        order: Sequence[sa.ColumnElement[Any]] = (),
        limit: int | None = None,
    ) -> list[_Row]:
        """Return the rows for which all of `where` holds."""
        query = sa.select(self.table).where(*where).order_by(*order).limit(limit)
        with self.reading() as connection:
            return self.rows(connection, query)

    def rows(self, connection: sa.Connection, query: sa.Select[Any]) -> list[_Row]:
        """Return the results of a query as rows; missing columns have their defaults."""
        found = connection.execute(query).mappings().all()
        return [self.kind(**{str(name): one[name] for name in one}) for one in found]

    def values(self, row: _Row) -> dict[str, Any]:
        """Return a row as values of its columns."""
        return {one.name: getattr(row, one.name) for one in fields(row)}  # type: ignore[arg-type]

    def change(self, statement: sa.Update | sa.Delete, audited: AuditRow | None = None) -> int:
        """Run a statement; return how many rows it changed; audit it if there are any."""
        with self._engine.begin() as connection:
            count: int = connection.execute(statement).rowcount
            if count and audited is not None:
                write_audit(connection, audited)
        return count


def insert_or(
    dialect: str, table: sa.Table, replaced: Sequence[str] = ()
) -> sqlite.Insert | postgresql.Insert:
    """Return an insert that updates the `replaced` columns of existing rows, or nothing.

    Parameters
    ----------
    dialect
        Name of the engine's dialect.
    """
    insert: sqlite.Insert | postgresql.Insert = (
        sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)
    )
    key = list(table.primary_key.columns)
    if not replaced:
        return insert.on_conflict_do_nothing(index_elements=key)
    values = {name: insert.excluded[name] for name in replaced}
    return insert.on_conflict_do_update(index_elements=key, set_=values)
