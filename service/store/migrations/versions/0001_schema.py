"""All tables of the first release, and the row that holds the newest version of the log."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from service.store.database.tables import head, metadata

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# The first migration after a release copies the tables of that release in here: what this one
# creates may then not change any more.


def upgrade() -> None:
    """Create them; the name of the head says in which format records are written."""
    metadata.create_all(op.get_bind())
    op.execute(sa.insert(head).values(name="log 2", version=0))


def downgrade() -> None:
    """Drop them, and every promise with them."""
    metadata.drop_all(op.get_bind())
