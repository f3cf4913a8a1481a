"""Executors, and the runs they carry out."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "executors",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("instance", sa.String(64), nullable=False),
        sa.Column("machines", sa.Text, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("renewals", sa.BigInteger, nullable=False),
        sa.Column("registered_ms", sa.BigInteger, nullable=False),
        sa.Column("lost_ms", sa.BigInteger, nullable=True),
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.String(64), primary_key=True),
        sa.Column("execution", sa.String(128), nullable=False),
        sa.Column("component", sa.Text, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("machine", sa.String(255), nullable=False),
        sa.Column("core", sa.Boolean, nullable=False),
        sa.Column("document", sa.LargeBinary, nullable=False),
        sa.Column("since_ms", sa.BigInteger, nullable=False),
        sa.Column("wanted", sa.Boolean, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("code", sa.Integer, nullable=True),
        sa.Column("detail", sa.Text, nullable=False),
        sa.Column("started_ms", sa.BigInteger, nullable=True),
        sa.Column("ended_ms", sa.BigInteger, nullable=True),
        sa.Column("news", sa.Boolean, nullable=False),
    )
    for column in ("execution", "machine", "news"):
        op.create_index(f"ix_runs_{column}", "runs", [column])


def downgrade() -> None:
    """Drop them; what runs is forgotten."""
    op.drop_table("runs")
    op.drop_table("executors")
