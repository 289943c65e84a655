"""The time before which a batch with an interrupted submission is not submitted again."""

import sqlalchemy as sa
from alembic import op

from redraft.storage.engine.columns import UtcTime

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("batches", sa.Column("resubmit_at", UtcTime()))


def downgrade() -> None:
    op.drop_column("batches", "resubmit_at")
