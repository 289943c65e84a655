"""Indexes that find jobs by their metadata in the order of time."""

from alembic import op

from migrations.online import create_index, drop_index

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

_PLACE = ["created_at", "id"]
_LABELLED = "metadata <> '{}'"
_SIZE = "octet_length(CAST(metadata AS TEXT))"


def upgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        drop_index("ix_jobs_labels", "jobs")
        create_index("ix_jobs_labels", "jobs", [*_PLACE, "metadata"], where=_LABELLED)
        return
    create_index("ix_jobs_labels", "jobs", _PLACE, include=["metadata"], where=f"{_LABELLED} AND {_SIZE} <= 1000")
    create_index("ix_jobs_long_labels", "jobs", _PLACE, where=f"{_SIZE} > 1000")


def downgrade() -> None:
    drop_index("ix_jobs_labels", "jobs")
    if op.get_bind().dialect.name == "sqlite":
        create_index("ix_jobs_labels", "jobs", ["metadata", "id"], where=_LABELLED)
        return
    drop_index("ix_jobs_long_labels", "jobs")
