"""The tables, as SQLAlchemy sees them; migrations/versions makes them."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa

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

#: Applications, one row each: the document as submitted is the client's, the last five columns
#: follow. `taken`: the dispatcher has it; `unwanted`: its owner wants it ended; `over`: it has.
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

#: Optimisations, one row each: the first three columns are the server's, the others those of the
#: process that optimises, but for `unwanted`: somebody wants it to stop.
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
    sa.Column("unwanted", sa.Boolean, nullable=False),
    sa.Column("ended_ms", sa.BigInteger, nullable=False),
)

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
