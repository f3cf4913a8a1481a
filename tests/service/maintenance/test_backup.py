"""Backup, restore and upgrade, on both databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from click.testing import CliRunner, Result

from service.cli.main import main
from service.config import ConfigError
from service.maintenance import back_up, bring_up_to_date, contents_of, outlook, restore
from service.store import LogEntry, Store, schema
from tests.databases import KINDS, empty_database
from tests.service.applying import an_application, submit_one
from tests.service.conftest import Open


@pytest.fixture
def databases(tmp_path: Path) -> Iterator[Any]:
    """Return a function that makes an empty database of a kind."""
    with ExitStack() as stack:

        def make(kind: str) -> str:
            folder = tmp_path / f"{kind}{len(list(tmp_path.iterdir()))}"
            folder.mkdir()
            return stack.enter_context(empty_database(kind, folder))

        yield make


def _fill(open_service: Open, url: str) -> None:
    """Make a database with a snapshot, a log behind it, an answer and an application."""
    service = open_service(database=url, tick_s=0, snapshot_every=2)
    for number in range(5):
        service.reserve(f"r{number}")
    service.ask("kept", headers={"Idempotency-Key": "k"})
    submit_one(service, "a", an_application())
    service.runtime.dispatcher.tick()


def _rows(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Return all rows of a database by table."""
    engine = sa.create_engine(url)
    found = sa.MetaData()
    found.reflect(engine)
    with engine.connect() as connection:
        rows = {
            one.name: sorted(tuple(row) for row in connection.execute(sa.select(one)))
            for one in found.sorted_tables
        }
    engine.dispose()
    return rows


def _agenda(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(one) for one in arguments])


@pytest.mark.parametrize("source", KINDS)
@pytest.mark.parametrize("target", KINDS)
def test_a_backup_fills_an_empty_database_of_either_kind(
    databases: Any, open_service: Open, tmp_path: Path, source: str, target: str
) -> None:
    """Every row of a served database is in the other; both are served with the same Plan."""
    old, new, file = databases(source), databases(target), tmp_path / "backup"
    _fill(open_service, old)
    before = _rows(old)

    done = _agenda("backup", file, "--database", old)
    assert done.exit_code == 0, done.output
    assert _agenda("restore", file, "--database", new).exit_code == 0

    assert _rows(new) == before
    assert file.stat().st_mode & 0o077 == 0
    again = open_service(database=new, tick_s=0)
    assert again.client.get("/v1/reservations/r3").status_code == 200
    assert again.ask("kept", headers={"Idempotency-Key": "k"}).status_code == 201
    again.reserve("more")


@pytest.mark.parametrize("kind", KINDS)
def test_a_backup_is_one_state_while_others_append(
    databases: Any, tmp_path: Path, kind: str
) -> None:
    """The head of a backup is the newest record in it, whatever is appended meanwhile."""
    url = databases(kind)
    store = Store(url)
    store.append([LogEntry(1, 0, b"{}")])
    for number in range(2, 12):
        found = back_up(url, tmp_path / f"backup{number}")
        store.append([LogEntry(number, 0, b"{}")])
        assert (found.version, found.rows["commits"]) == (number - 1, number - 1)


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    """Neither a file by a backup nor a database by a restore; nothing is made on the way."""
    url, file = f"sqlite:///{tmp_path / 'a.db'}", tmp_path / "backup"
    with pytest.raises(ConfigError, match="there is no database"):
        back_up(url, file)
    Store(url).close()
    back_up(url, file)
    with pytest.raises(ConfigError, match="already exists"):
        back_up(url, file)
    with pytest.raises(ConfigError, match="is not empty"):
        restore(file, url)
    assert sorted(one.name for one in tmp_path.iterdir() if "db" not in one.name) == ["backup"]


def test_what_is_no_backup_is_refused(tmp_path: Path) -> None:
    """A text, an empty file and one of a newer version are reported by name."""
    text, empty = tmp_path / "text", tmp_path / "empty"
    text.write_text("not a backup at all, but a long enough text to be looked at")
    empty.write_text("")
    for file in (text, empty):
        with pytest.raises(ConfigError, match="is not a backup of Agenda"):
            contents_of(file)
    url = f"sqlite:///{tmp_path / 'a.db'}"
    Store(url).close()
    newer = tmp_path / "newer"
    back_up(url, newer)
    engine = sa.create_engine(f"sqlite:///{newer}")
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE settings SET value = '9999' WHERE name = 'schema'")
    engine.dispose()
    with pytest.raises(ConfigError, match="newer version"):
        restore(newer, f"sqlite:///{tmp_path / 'b.db'}")


@pytest.fixture
def next_version(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return what makes this process one of the next version, which has a table more."""

    def make(connection: sa.Connection) -> None:
        connection.exec_driver_sql("CREATE TABLE more (id INTEGER PRIMARY KEY)")

    more = schema.SchemaChange("0002", "A table more.", make)
    return lambda: monkeypatch.setattr(schema, "CHANGES", [*schema.CHANGES, more])


@pytest.mark.parametrize("kind", KINDS)
def test_a_database_of_an_older_schema_is_upgraded(
    databases: Any,
    open_service: Open,
    tmp_path: Path,
    kind: str,
    next_version: Callable[[], None],
) -> None:
    """A server refuses it and says what to do; a dry run changes nothing; then all is there."""
    old = databases(kind)
    _fill(open_service, old)
    before = _rows(old)
    next_version()
    with pytest.raises(ConfigError, match="stop all its servers, then run 'agenda upgrade"):
        Store(old)
    planned = _agenda("upgrade", "--database", old, "--backup", tmp_path / "kept", "--dry-run")
    assert planned.exit_code == 0, planned.output
    assert _rows(old) == before
    assert [step.revision for step in outlook(old).steps] == ["0002"]

    kept = bring_up_to_date(old, tmp_path / "kept")

    assert kept.schema == "0001"
    assert _rows(f"sqlite:///{tmp_path / 'kept'}") == before
    after = _rows(old)
    assert after.pop("more") == []
    assert ("schema", "0001") in before["settings"]
    assert ("schema", "0002") in after["settings"]
    for rows in (before["settings"], after["settings"]):
        rows[:] = sorted(row for row in rows if row[0] != "schema")
    assert after == before
    Store(old).close()
