"""The cache key of calls: an identical later call can use the recorded reply."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_REUSABLE = sa.text("cache_key IS NOT NULL AND status = 'ok'")


def upgrade() -> None:
    op.add_column("calls", sa.Column("cache_key", sa.String(length=64), nullable=True))
    op.create_index("ix_calls_cache_key", "calls", ["cache_key"], postgresql_where=_REUSABLE, sqlite_where=_REUSABLE)


def downgrade() -> None:
    op.drop_index("ix_calls_cache_key", table_name="calls")
    op.drop_column("calls", "cache_key")
