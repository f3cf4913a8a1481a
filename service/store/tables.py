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
#: and tries again.
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

#: One row: which process dispatches, until when it may without asking again, and the assignment
#: it made last.
dispatching: Final = sa.Table(
    "dispatching",
    metadata,
    sa.Column("name", sa.String(32), primary_key=True),
    sa.Column("holder", sa.String(64), nullable=False),
    sa.Column("until_ms", sa.BigInteger, nullable=False),
    sa.Column("body", sa.LargeBinary, nullable=False),
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

#: Calendar feeds: each has a secret of its own, of which the hash is kept.
calendar_feeds: Final = sa.Table(
    "calendar_feeds",
    metadata,
    sa.Column("id", sa.String(64), primary_key=True),
    sa.Column("token_hash", sa.LargeBinary, nullable=False, unique=True),
    sa.Column("tenant", sa.String(128), nullable=False),
    sa.Column("created_ms", sa.BigInteger, nullable=False),
)
