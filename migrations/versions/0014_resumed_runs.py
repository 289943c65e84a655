"""The time of a run's last resume, and the total time for which the run was ended before it was resumed."""

import sqlalchemy as sa
from alembic import op

from redraft.storage.engine.columns import UtcTime

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("resumed_at", UtcTime(), nullable=True))
    op.add_column("runs", sa.Column("idle_ms", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    op.drop_column("runs", "idle_ms")
    op.drop_column("runs", "resumed_at")
