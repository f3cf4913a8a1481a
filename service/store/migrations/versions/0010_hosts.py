"""Several hosts: the number of the leader's tenure, and a head that older versions do not move."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, and give the head a name under which an older server does not find it."""
    column = sa.Column("tenure", sa.BigInteger, nullable=False, server_default="0")
    op.add_column("dispatching", column)
    op.execute("UPDATE head SET name = 'log 2' WHERE name = 'log'")


def downgrade() -> None:
    """Undo both."""
    op.execute("UPDATE head SET name = 'log' WHERE name = 'log 2'")
    op.drop_column("dispatching", "tenure")
