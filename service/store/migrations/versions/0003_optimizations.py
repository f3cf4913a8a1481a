"""Offline optimisations: asked for, under way, found."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "optimizations",
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


def downgrade() -> None:
    """Drop it; what was found and not applied is forgotten."""
    op.drop_table("optimizations")
