"""The head of the log: one row, which each append moves."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table, and fill it from the log: its newest row was never pruned."""
    op.create_table(
        "head",
        sa.Column("name", sa.String(16), primary_key=True),
        sa.Column("version", sa.BigInteger, nullable=False),
    )
    op.execute(
        "INSERT INTO head (name, version) SELECT 'log', coalesce(max(version), 0) FROM commits"
    )


def downgrade() -> None:
    """Drop it."""
    op.drop_table("head")
