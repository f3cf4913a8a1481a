"""Copy all rows of one database to another of any kind, table by table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import sqlalchemy as sa

from service.store.schema import bring_to

#: Rows read and written at a time.
_ROWS: Final = 500


def copy_rows(source: sa.Connection, target: sa.Connection, revision: str) -> dict[str, int]:
    """Create the tables of a revision in an empty database and fill them; return rows by table.

    Both transactions belong to the caller: reads are consistent, writes are all or nothing.
    """
    bring_to(target, revision)
    counts: dict[str, int] = {}
    there, wanted = _tables(source), _tables(target)
    for name, table in wanted.items():
        target.execute(sa.delete(table))  # creating the tables may have inserted a row
        counts[name] = 0
        for rows in _parts(source, there[name]):
            target.execute(sa.insert(table), rows)
            counts[name] += len(rows)
        _go_on_counting(target, table)
    return counts


def _tables(connection: sa.Connection) -> dict[str, sa.Table]:
    """Return the existing tables, referenced ones first."""
    found = sa.MetaData()
    found.reflect(connection)
    return {one.name: one for one in found.sorted_tables}


def _parts(source: sa.Connection, table: sa.Table) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of a table in batches."""
    streamed = source.execution_options(stream_results=True, yield_per=_ROWS)
    for part in streamed.execute(sa.select(table)).mappings().partitions(_ROWS):
        yield [dict(row) for row in part]


def _go_on_counting(target: sa.Connection, table: sa.Table) -> None:
    """Let PostgreSQL number new rows after the copied ones."""
    if target.dialect.name != "postgresql":
        return
    for column in table.primary_key.columns:
        sequence = target.execute(
            sa.text("SELECT pg_get_serial_sequence(:table, :column)"),
            {"table": table.name, "column": column.name},
        ).scalar_one()
        last = sequence and target.execute(sa.select(sa.func.max(column))).scalar_one()
        if last:
            target.execute(
                sa.text("SELECT setval(:sequence, :last)"), {"sequence": sequence, "last": last}
            )
