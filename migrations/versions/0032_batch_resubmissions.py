"""The time before which an interrupted submission of a batch is not repeated, and an index on the open jobs of runs."""

import sqlalchemy as sa
from alembic import op

from migrations.online import create_index, drop_index
from redraft.storage.engine.columns import UtcTime

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("batches", sa.Column("resubmit_at", UtcTime()))
    is_open = "status IN ('queued', 'running') OR stop_reason = 'answered'"
    create_index("ix_jobs_run_open", "jobs", ["run_id", "available_at"], where=f"run_id IS NOT NULL AND ({is_open})")


def downgrade() -> None:
    drop_index("ix_jobs_run_open", "jobs")
    op.drop_column("batches", "resubmit_at")
