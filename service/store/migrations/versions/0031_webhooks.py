"""Webhooks, what is to be delivered to them, and calendar feeds."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the three tables."""
    op.create_table(
        "webhooks",
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
    op.create_table(
        "webhook_deliveries",
        sa.Column("webhook", sa.String(64), primary_key=True),
        sa.Column("event", sa.String(255), primary_key=True),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("due_ms", sa.BigInteger, nullable=False),
        sa.Column("error", sa.Text, nullable=False),
    )
    op.create_index("webhook_deliveries_due", "webhook_deliveries", ["state", "due_ms"])
    op.create_table(
        "calendar_feeds",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("token_hash", sa.LargeBinary, nullable=False, unique=True),
        sa.Column("tenant", sa.String(128), nullable=False),
        sa.Column("created_ms", sa.BigInteger, nullable=False),
    )


def downgrade() -> None:
    """Drop them; what was not delivered is forgotten."""
    for table in ("calendar_feeds", "webhook_deliveries", "webhooks"):
        op.drop_table(table)
