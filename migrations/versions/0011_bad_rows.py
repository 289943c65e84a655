"""The texts of invalid rows, by which users find the rows in the file."""

import sqlalchemy as sa
from alembic import op

from redraft.storage.engine.columns import Json

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("dataset_items", sa.Column("told", Json(), nullable=True))


def downgrade() -> None:
    op.drop_column("dataset_items", "told")
