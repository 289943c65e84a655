"""The time at which a generator template was deleted."""

import sqlalchemy as sa
from alembic import op

from redraft.storage.engine.columns import UtcTime

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("generator_templates", sa.Column("deleted_at", UtcTime(), nullable=True))


def downgrade() -> None:
    op.drop_column("generator_templates", "deleted_at")
