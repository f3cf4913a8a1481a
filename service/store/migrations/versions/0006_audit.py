"""The audit: who changed what."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "audit",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True),
        sa.Column("at_ms", sa.BigInteger, nullable=False),
        sa.Column("version", sa.BigInteger),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("address", sa.String(64), nullable=False),
        sa.Column("call", sa.String(256), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("tenant", sa.String(128), nullable=False),
        sa.Column("about", sa.String(128), nullable=False),
        sa.Column("detail", sa.String(256), nullable=False),
    )
    op.create_index("ix_audit_about", "audit", ["about"])
    op.create_index("ix_audit_at_ms", "audit", ["at_ms"])


def downgrade() -> None:
    """Drop it; who did what is forgotten."""
    op.drop_table("audit")
