"""Records that replay leaves out, because no process can apply them; kept for diagnosis."""

from __future__ import annotations

from typing import Final

import msgspec
import sqlalchemy as sa

from service.store.database.tables import commits, settings, snapshots

#: Settings of this name and a version hold a record that is left out.
_NAME: Final = "skipped_record:"


class NotSkippableError(ValueError):
    """A version that cannot be left out; the message says why."""


class SkippedRecords:
    """Marks that every process and every later start obeys.

    The record itself is kept with its mark, since the log is pruned below each snapshot.
    """

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def versions(self) -> frozenset[int]:
        """Return the versions whose records are left out."""
        with self._engine.connect().execution_options(agenda_read_only=True) as connection:
            names = connection.execute(
                sa.select(settings.c.name).where(settings.c.name.startswith(_NAME, autoescape=True))
            ).scalars()
            return frozenset(int(name.removeprefix(_NAME)) for name in names)

    def mark(self, version: int, now_ms: int) -> bool:
        """Leave the record of `version` out from now on; False where it is already.

        Raises
        ------
        NotSkippableError
            If there is no such record, or a snapshot holds what it made.
        """
        with self._engine.begin() as connection:
            name = f"{_NAME}{version}"
            known = connection.execute(sa.select(settings.c.name).where(settings.c.name == name))
            if known.scalar_one_or_none() is not None:
                return False
            kept = connection.execute(sa.select(sa.func.max(snapshots.c.version))).scalar() or 0
            if version <= kept:
                raise NotSkippableError(
                    f"the snapshot of version {kept} holds what record {version} made; "
                    f"only later records can be left out"
                )
            row = connection.execute(
                sa.select(commits.c.at_ms, commits.c.record).where(commits.c.version == version)
            ).one_or_none()
            if row is None:
                raise NotSkippableError(f"the log has no record {version} after version {kept}")
            value = {"at_ms": row[0], "skipped_ms": now_ms, "record": bytes(row[1]).decode()}
            text = msgspec.json.encode(value).decode()
            connection.execute(sa.insert(settings).values(name=name, value=text))
            return True

    def record(self, version: int) -> bytes | None:
        """Return the record that is left out at `version`, as it stands in the log, or None."""
        with self._engine.connect().execution_options(agenda_read_only=True) as connection:
            value = connection.execute(
                sa.select(settings.c.value).where(settings.c.name == f"{_NAME}{version}")
            ).scalar_one_or_none()
        return None if value is None else msgspec.json.decode(value)["record"].encode()
