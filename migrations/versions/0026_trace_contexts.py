"""The trace context of the request that submitted a job."""

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("traceparent", sa.String(55)))


def downgrade() -> None:
    op.drop_column("jobs", "traceparent")
