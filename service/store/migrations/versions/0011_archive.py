"""Reservations that have ended and left the Plan, and refusals."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "archive",
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
    op.create_index("archive_id", "archive", ["id", "place"])
    op.create_index("archive_tenant", "archive", ["tenant", "place"])


def downgrade() -> None:
    """Drop it; what has left the Plan is forgotten."""
    op.drop_table("archive")
