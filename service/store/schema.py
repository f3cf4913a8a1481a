"""The schema: the tables, its version in the database, and how an older one gets the newest.

An empty database gets the newest tables from the process that starts first. A database with
the tables of another version is not changed: `agenda upgrade` changes it, once, with a backup
before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from service.config import ConfigError
from service.store.engine import hold_lock, open_engine, opening

metadata: Final = sa.MetaData()

#: The log: one row a commit.
commits: Final = sa.Table(
    "commits",
    metadata,
    sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at_ms", sa.BigInteger, nullable=False),
    sa.Column("record", sa.LargeBinary, nullable=False),
)

#: One row: the newest version of the log, even where the log was pruned. Each append moves it from
#: the version before its own, in its transaction. That is the optimistic lock: of two processes
#: that append the same version one waits for the other's row lock, finds the row moved, catches up
#: and tries again. Its name tells the format of the log: who knows another one cannot append.
head: Final = sa.Table(
    "head",
    metadata,
    sa.Column("name", sa.String(16), primary_key=True),
    sa.Column("version", sa.BigInteger, nullable=False),
)

#: The Plan at one version; the newest row is where a start begins.
snapshots: Final = sa.Table(
    "snapshots",
    metadata,
    sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at_ms", sa.BigInteger, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
)

#: The events of the last versions up to the newest snapshot, which no longer says them itself.
recent_events: Final = sa.Table(
    "recent_events",
    metadata,
    sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
)

#: Answers given under an Idempotency-Key, written in the transaction of their commit.
answers: Final = sa.Table(
    "answers",
    metadata,
    sa.Column("key", sa.String(255), primary_key=True),
    sa.Column("request_hash", sa.LargeBinary, nullable=False),
    sa.Column("at_ms", sa.BigInteger, nullable=False),
    sa.Column("status", sa.Integer, nullable=False),
    sa.Column("headers", sa.Text, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
)

#: What is fixed at the first start: origin and step.
settings: Final = sa.Table(
    "settings",
    metadata,
    sa.Column("name", sa.String(64), primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)

#: Applications, one row each: the document as submitted is the client's, the five columns after it
#: follow. `taken`: the dispatcher has it; `unwanted`: its owner wants it ended; `over`: it has.
#: A stage of a pipeline names that and its run.
applications: Final = sa.Table(
    "applications",
    metadata,
    sa.Column("id", sa.String(128), primary_key=True),
    sa.Column("tenant", sa.String(128), nullable=False),
    sa.Column("submitted_ms", sa.BigInteger, nullable=False),
    sa.Column("document", sa.LargeBinary, nullable=False),
    sa.Column("taken", sa.Boolean, nullable=False),
    sa.Column("unwanted", sa.Boolean, nullable=False),
    sa.Column("over", sa.Boolean, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("status", sa.LargeBinary, nullable=False),
    sa.Column("pipeline", sa.String(128), nullable=False, server_default=""),
    sa.Column("run", sa.Integer, nullable=False, server_default="0"),
)

_READ_ONLY: Final = {"agenda_read_only": True}

#: Name of a fact -> the required table, and its query.
_QUERIES: Final = {
    "log_version": (head, sa.select(head.c.version)),
    "log_begins": (commits, sa.select(sa.func.min(commits.c.version))),
    "snapshot_version": (snapshots, sa.select(sa.func.max(snapshots.c.version))),
    "snapshot_bytes": (snapshots, sa.select(sa.func.max(sa.func.length(snapshots.c.body)))),
}

sa.Index("applications_pipeline", applications.c.pipeline, applications.c.run)
sa.Index("applications_open", applications.c.over, applications.c.taken)
sa.Index("applications_order", applications.c.submitted_ms, applications.c.id)

#: Pipelines, one row each, written with the commit that admits their reservation. The leader of the
#: dispatch writes the last five columns: how many runs it has started, the start and the occurrence
#: of the last one, and whether and why no more will start.
pipelines: Final = sa.Table(
    "pipelines",
    metadata,
    sa.Column("id", sa.String(128), primary_key=True),
    sa.Column("tenant", sa.String(128), nullable=False),
    sa.Column("submitted_ms", sa.BigInteger, nullable=False),
    sa.Column("document", sa.LargeBinary, nullable=False),
    sa.Column("runs", sa.Integer, nullable=False),
    sa.Column("last_ms", sa.BigInteger, nullable=False),
    sa.Column("last_occurrence", sa.Integer, nullable=False),
    sa.Column("over", sa.Boolean, nullable=False, index=True),
    sa.Column("reason", sa.Text, nullable=False),
)

#: One row: which process dispatches, until when it may without asking again, the assignment it made
#: last, and the number of its tenure: what a leader of an earlier one does is not taken any more.
dispatching: Final = sa.Table(
    "dispatching",
    metadata,
    sa.Column("name", sa.String(32), primary_key=True),
    sa.Column("holder", sa.String(64), nullable=False),
    sa.Column("until_ms", sa.BigInteger, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("tenure", sa.BigInteger, nullable=False, server_default="0"),
)

#: Tokens: of the secret only its hash. Rows are kept when a token is revoked or has ended.
tokens: Final = sa.Table(
    "tokens",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("hash", sa.String(64), nullable=False, unique=True),
    sa.Column("name", sa.String(128), nullable=False, index=True),
    sa.Column("role", sa.String(16), nullable=False),
    sa.Column("tenants", sa.Text, nullable=False),
    sa.Column("created_ms", sa.BigInteger, nullable=False),
    sa.Column("end_ms", sa.BigInteger),
    sa.Column("used_ms", sa.BigInteger),
    sa.Column("revoked_ms", sa.BigInteger),
)

#: The audit, one row a change, in its transaction; kept when the log is pruned. `version` is the
#: one it made, if any; `about` the id of what was changed.
audit: Final = sa.Table(
    "audit",
    metadata,
    sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
    sa.Column("at_ms", sa.BigInteger, nullable=False, index=True),
    sa.Column("version", sa.BigInteger),
    sa.Column("name", sa.String(128), nullable=False),
    sa.Column("address", sa.String(64), nullable=False),
    sa.Column("call", sa.String(256), nullable=False),
    sa.Column("kind", sa.String(32), nullable=False),
    sa.Column("tenant", sa.String(128), nullable=False),
    sa.Column("about", sa.String(128), nullable=False, index=True),
    sa.Column("detail", sa.String(256), nullable=False),
)

#: Optimisations, one row each: the first three columns are the server's, the others those of the
#: process that optimises, but for `unwanted`: someone wants it to stop; and `undo`: what takes it
#: back, written in the transaction of the commit that applies it.
optimizations: Final = sa.Table(
    "optimizations",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("created_ms", sa.BigInteger, nullable=False),
    sa.Column("document", sa.LargeBinary, nullable=False),
    sa.Column("alive_ms", sa.BigInteger, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("reason", sa.Text, nullable=False),
    sa.Column("progress", sa.LargeBinary, nullable=False),
    sa.Column("result", sa.LargeBinary, nullable=False),
    sa.Column("undo", sa.LargeBinary, nullable=False),
    sa.Column("unwanted", sa.Boolean, nullable=False),
    sa.Column("ended_ms", sa.BigInteger, nullable=False),
)

#: Executors, one row each: `machines` is a JSON array of names, `renewals` counts its reports.
executors: Final = sa.Table(
    "executors",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("instance", sa.String(64), nullable=False),
    sa.Column("machines", sa.Text, nullable=False),
    sa.Column("address", sa.String(255), nullable=False),
    sa.Column("engine", sa.String(16), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("renewals", sa.BigInteger, nullable=False),
    sa.Column("registered_ms", sa.BigInteger, nullable=False),
    sa.Column("lost_ms", sa.BigInteger, nullable=True),
)

#: Runs, one row for each start of a component on a machine. `wanted`: it is to run; `news`: the
#: leader of the dispatch has not taken its state in yet.
runs: Final = sa.Table(
    "runs",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("execution", sa.String(128), nullable=False, index=True),
    sa.Column("component", sa.Text, nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("machine", sa.String(255), nullable=False, index=True),
    sa.Column("core", sa.Boolean, nullable=False),
    sa.Column("document", sa.LargeBinary, nullable=False),
    sa.Column("since_ms", sa.BigInteger, nullable=False),
    sa.Column("wanted", sa.Boolean, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("code", sa.Integer, nullable=True),
    sa.Column("detail", sa.Text, nullable=False),
    sa.Column("started_ms", sa.BigInteger, nullable=True),
    sa.Column("ended_ms", sa.BigInteger, nullable=True),
    sa.Column("news", sa.Boolean, nullable=False, index=True),
    sa.Column("ports", sa.Text, nullable=False),
    sa.Column("task", sa.Integer, nullable=True),
)

#: What runs wrote, one row a piece: bytes [start, finish) of a stream. The newest are kept.
run_logs: Final = sa.Table(
    "run_logs",
    metadata,
    sa.Column("run", sa.String(64), primary_key=True),
    sa.Column("stream", sa.String(8), primary_key=True),
    sa.Column("start", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("finish", sa.BigInteger, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
)

#: What YARN's clients asked for, one row a reservation of the Plan, written with its commit: `name`
#: is the id that the client has, which may have had reservations before that are cancelled.
yarn_reservations: Final = sa.Table(
    "yarn_reservations",
    metadata,
    sa.Column("id", sa.String(128), primary_key=True),
    sa.Column("name", sa.String(64), nullable=False),
    sa.Column("queue", sa.String(128), nullable=False),
    sa.Column("submitter", sa.String(128), nullable=False),
    sa.Column("accepted_ms", sa.BigInteger, nullable=False),
    sa.Column("arrival_ms", sa.BigInteger, nullable=False),
    sa.Column("deadline_ms", sa.BigInteger, nullable=False),
    sa.Column("period_ms", sa.BigInteger, nullable=False),
    sa.Column("definition", sa.LargeBinary, nullable=False),
)
sa.Index("yarn_reservations_name", yarn_reservations.c.name)
sa.Index("yarn_reservations_time", yarn_reservations.c.queue, yarn_reservations.c.deadline_ms)

#: What has left the Plan: reservations that ended, and refusals, in the order in which they left.
archive: Final = sa.Table(
    "archive",
    metadata,
    sa.Column("place", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("id", sa.String(255), nullable=False),
    sa.Column("tenant", sa.String(255), nullable=False),
    sa.Column("queue", sa.String(255), nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("begin_ms", sa.BigInteger, nullable=False),
    sa.Column("end_ms", sa.BigInteger, nullable=False),
    sa.Column("left_ms", sa.BigInteger, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
)
sa.Index("archive_id", archive.c.id, archive.c.place)
sa.Index("archive_tenant", archive.c.tenant, archive.c.place)

#: Webhooks, one row each; `version` and `number` are the last event that was looked at for it.
webhooks: Final = sa.Table(
    "webhooks",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("url", sa.Text, nullable=False),
    sa.Column("secret", sa.String(128), nullable=False),
    sa.Column("kinds", sa.Text, nullable=False),
    sa.Column("tenant", sa.String(128)),
    sa.Column("reservation", sa.String(128)),
    sa.Column("lead_ms", sa.BigInteger, nullable=False),
    sa.Column("created_ms", sa.BigInteger, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("maker", sa.String(256), nullable=False, server_default=""),
    sa.Column("form", sa.String(16), nullable=False, server_default="event"),
)

#: What is to be delivered, one row an event and webhook: an event is noted once. `due_ms` is when
#: it is tried next, or, once it is over, when that was.
webhook_deliveries: Final = sa.Table(
    "webhook_deliveries",
    metadata,
    sa.Column("webhook", sa.String(64), primary_key=True),
    sa.Column("event", sa.String(255), primary_key=True),
    sa.Column("body", sa.LargeBinary, nullable=False),
    sa.Column("state", sa.String(16), nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("due_ms", sa.BigInteger, nullable=False),
    sa.Column("error", sa.Text, nullable=False),
)
sa.Index("webhook_deliveries_due", webhook_deliveries.c.state, webhook_deliveries.c.due_ms)


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """One change of the tables: its number, a sentence that describes it, and its function."""

    revision: str
    summary: str
    make: Callable[[sa.Connection], None]


def _create(connection: sa.Connection) -> None:
    """Create all tables; the name of the head says in which format records are written."""
    metadata.create_all(connection)
    connection.execute(sa.insert(head).values(name=HEAD, version=0))


#: Name of the log's head, by the format of the log. A version of Agenda whose records an older one
#: could not read gives the head another name by a change of the schema: older servers append
#: nothing then.
HEAD: Final = "log 2"

#: What makes the newest schema, in order. The first change after a release comes behind these, and
#: what they create may then not change any more: `_create` gets a copy of that release's tables.
CHANGES: Final[list[SchemaChange]] = [
    SchemaChange("0001", "All tables of the first release.", _create),
]

#: Setting that holds the number of the last change that a database has had.
_VERSION: Final = "schema"

#: What a database of a development version has instead of that number.
_UNVERSIONED: Final = "none"

#: Key of PostgreSQL's advisory lock that lets one process change the schema at a time.
_LOCK: Final = 0x4147454E4441


def create_or_check(engine: sa.Engine) -> None:
    """Make the newest tables in an empty database.

    The transaction holds the write lock from its start, so that of several processes one makes
    them and the others find the work done.

    Raises
    ------
    ConfigError
        If the database holds the tables of another version; the message says what to do.
    """
    with engine.begin() as connection:
        hold_lock(connection, _LOCK)
        present = revision_of(connection)
        if present is None:
            bring_to(connection, newest())
        elif present != newest():
            raise ConfigError(_advice(connection, present))


def upgrade(engine: sa.Engine) -> None:
    """Make the changes of the schema that a database has not had yet, all or none.

    Raises
    ------
    ConfigError
        If the database is of a newer version of Agenda.
    """
    with engine.begin() as connection:
        hold_lock(connection, _LOCK)
        present = revision_of(connection)
        if present is not None and not is_known(present):
            raise ConfigError(_advice(connection, present))
        bring_to(connection, newest())


def bring_to(connection: sa.Connection, revision: str) -> None:
    """Make all changes up to a revision, in the transaction of a connection."""
    for change in changes_after(revision_of(connection)):
        if change.revision <= revision:
            change.make(connection)
    connection.execute(sa.delete(settings).where(settings.c.name == _VERSION))
    connection.execute(sa.insert(settings).values(name=_VERSION, value=revision))


def revision_of(connection: sa.Connection) -> str | None:
    """Return the number of the last change that a database has had; None if it is empty."""
    if not sa.inspect(connection).has_table(settings.name):
        return None
    query = sa.select(settings.c.value).where(settings.c.name == _VERSION)
    found: str | None = connection.execute(query).scalar_one_or_none()
    return found or _UNVERSIONED


def newest() -> str:
    """Return the number of the last change there is."""
    return CHANGES[-1].revision


def is_known(revision: str) -> bool:
    """Return whether a change is one of this version's."""
    return any(one.revision == revision for one in CHANGES)


def changes_after(revision: str | None) -> list[SchemaChange]:
    """Return the changes that follow a revision, in order."""
    return [one for one in CHANGES if revision is None or one.revision > revision]


def _advice(connection: sa.Connection, present: str) -> str:
    shown = connection.engine.url.render_as_string()
    if is_known(present):
        return (
            f"the database {shown} is of an older version of Agenda (its schema is {present}, this "
            f"one needs {newest()}): stop all its servers, then run 'agenda upgrade --database "
            "URL', which keeps a backup first"
        )
    if present == _UNVERSIONED:
        return (
            f"the database {shown} was made by a version of Agenda before its first release, which "
            "this one cannot read: start with a new database"
        )
    return (
        f"the database {shown} was made by another, newer version of Agenda (its schema is "
        f"{present}, this version has {newest()}): start that version"
    )


def database_facts(engine: sa.Engine) -> dict[str, Any]:
    """Return the revision of the tables, the version of the log, and the number of rows per table.

    The count of a missing table, as in a database of another version, is None.
    """
    with engine.connect().execution_options(**_READ_ONLY) as connection:
        there = set(sa.inspect(connection).get_table_names())
        rows = {
            name: _one(connection, sa.select(sa.func.count()).select_from(table))
            if name in there
            else None
            for name, table in sorted(metadata.tables.items())
        }
        facts = {
            "kind": engine.dialect.name,
            "revision": revision_of(connection),
            "newest_revision": newest(),
        }
        facts |= {
            name: _one(connection, query) if table.name in there else None
            for name, (table, query) in _QUERIES.items()
        }
        return {**facts, "rows": rows}


def facts_of_url(url: str) -> dict[str, Any]:
    """Return the facts of a database without changing it.

    Raises
    ------
    ConfigError
        If it cannot be read; the message has no password.
    """
    _require_file(url)
    with opening(url):
        engine = open_engine(url)
        try:
            return database_facts(engine)
        finally:
            engine.dispose()


def _require_file(url: str) -> None:
    """Refuse a missing file, because SQLite would create it."""
    with opening(url):
        made = sa.make_url(url)
    if made.get_backend_name() == "sqlite" and not Path(made.database or "").is_file():
        shown = made.render_as_string()
        raise ConfigError(f"the database {shown} cannot be opened: there is no such file")


def _one(connection: sa.Connection, query: sa.Select[Any]) -> Any:
    return connection.execute(query).scalar()
