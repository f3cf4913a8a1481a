"""Upgrade: brings a database of an older version to the newest schema, after a backup."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from service.config import ConfigError
from service.maintenance.backup import Contents, back_up, require_file
from service.store.engine import open_engine, opening
from service.store.schema import (
    SchemaChange,
    changes_after,
    is_known,
    newest,
    revision_of,
    upgrade,
)


@dataclass(frozen=True, slots=True)
class Outlook:
    """Preview of an upgrade.

    Attributes
    ----------
    schema, newest
        Number of the last schema change in the database, and of the newest one.
    steps
        The schema changes between them.
    """

    schema: str
    newest: str
    steps: Sequence[SchemaChange]


def outlook(url: str) -> Outlook:
    """Return the steps of an upgrade of a database, without a change.

    Raises
    ------
    ConfigError
        If it is not a database of Agenda, or of a newer version.
    """
    require_file(url)
    with opening(url):
        engine = open_engine(url)
        try:
            with engine.connect().execution_options(agenda_read_only=True) as connection:
                present = revision_of(connection)
        finally:
            engine.dispose()
    shown = sa.make_url(url).render_as_string()
    if present is None:
        raise ConfigError(f"the database {shown} has no tables of Agenda; there is nothing to do")
    if not is_known(present):
        raise ConfigError(
            f"the database {shown} is of a newer version of Agenda (its schema is {present}, this "
            f"version has {newest()}): start that version"
        )
    return Outlook(present, newest(), changes_after(present))


def bring_up_to_date(url: str, backup: Path) -> Contents:
    """Make a backup, then apply the changes, all or none; return the backup's contents.

    Raises
    ------
    ConfigError
        As `outlook` and `back_up`.
    """
    kept = back_up(url, backup)
    upgrade_in_place(url)
    return kept


def upgrade_in_place(url: str) -> None:
    """Apply the missing schema changes to a database, without a backup."""
    with opening(url):
        engine = open_engine(url)
        try:
            upgrade(engine)
        finally:
            engine.dispose()
