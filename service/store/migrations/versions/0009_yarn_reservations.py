"""What YARN's clients asked for, as they put it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table, with an index for each way in which it is looked at."""
    op.create_table(
        "yarn_reservations",
        sa.Column("id", sa.String(128), primary_key=True),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("queue", sa.String(128), nullable=False),
        sa.Column("submitter", sa.String(128), nullable=False),
        sa.Column("accepted_ms", sa.BigInteger, nullable=False),
        sa.Column("arrival_ms", sa.BigInteger, nullable=False),
        sa.Column("deadline_ms", sa.BigInteger, nullable=False),
        sa.Column("period_ms", sa.BigInteger, nullable=False),
        sa.Column("definition", sa.LargeBinary, nullable=False),
    )
    op.create_index("yarn_reservations_name", "yarn_reservations", ["name"])
    op.create_index("yarn_reservations_time", "yarn_reservations", ["queue", "deadline_ms"])


def downgrade() -> None:
    """Drop it; the reservations stay in the Plan."""
    op.drop_table("yarn_reservations")
