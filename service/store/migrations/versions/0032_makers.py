"""Under whose token webhooks and calendar feeds were made, so that they stop with it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None

_TABLES = ("webhooks", "calendar_feeds")


def upgrade() -> None:
    """Add the column; what stands was made by nobody known, and goes on until it is deleted."""
    for table in _TABLES:
        maker = sa.Column("maker", sa.String(256), nullable=False, server_default="")
        op.add_column(table, maker)


def downgrade() -> None:
    """Drop it; what had stopped goes on."""
    for table in _TABLES:
        with op.batch_alter_table(table) as batch:
            batch.drop_column("maker")
