"""Applications, and what their dispatcher keeps: its leadership and the assignment it made last."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the two tables."""
    op.create_table(
        "applications",
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
    op.create_index("applications_open", "applications", ["over", "taken"])
    op.create_index("applications_order", "applications", ["submitted_ms", "id"])
    op.create_table(
        "dispatching",
        sa.Column("name", sa.String(32), primary_key=True),
        sa.Column("holder", sa.String(64), nullable=False),
        sa.Column("until_ms", sa.BigInteger, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
    )


def downgrade() -> None:
    """Drop them; applications are forgotten."""
    op.drop_table("dispatching")
    op.drop_table("applications")
