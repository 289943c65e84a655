"""SQLite finds jobs by their metadata in an index, as PostgreSQL does."""

from alembic import op

from migrations.online import create_index, drop_index

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        create_index("ix_jobs_labels", "jobs", ["metadata", "id"], where="metadata <> '{}'")


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        drop_index("ix_jobs_labels", "jobs")
