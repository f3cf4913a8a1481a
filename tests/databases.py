"""Empty databases of each kind that the service keeps its log in."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

#: Names a PostgreSQL database whose user may create others, as SQLAlchemy writes it:
#: ``postgresql+psycopg://user@host/database``.
POSTGRES_VARIABLE = "AGENDA_POSTGRES"

#: For `pytest.mark.parametrize`: SQLite always, PostgreSQL where a server is named.
KINDS = ("sqlite", pytest.param("postgresql", marks=pytest.mark.postgres))


@contextmanager
def empty_database(kind: str, folder: Path) -> Iterator[str]:
    """Yield the URL of an empty database, which is gone afterwards."""
    if kind == "sqlite":
        yield f"sqlite:///{folder / 'agenda.db'}"
        return
    server = os.environ.get(POSTGRES_VARIABLE)
    if not server:
        pytest.skip(f"{POSTGRES_VARIABLE} names no PostgreSQL server")
    name = f"agenda_test_{uuid.uuid4().hex}"
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT")
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {name}")
        yield sa.make_url(server).set(database=name).render_as_string(hide_password=False)
        with engine.connect() as connection:
            connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
    finally:
        engine.dispose()
