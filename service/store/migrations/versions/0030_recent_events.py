"""The events of the last versions before the newest snapshot."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table; a snapshot of before has no events."""
    op.create_table(
        "recent_events",
        sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )


def downgrade() -> None:
    """Drop it; who reads events reads anew."""
    op.drop_table("recent_events")
