"""The trace id of a job, and an index of the jobs with a next step, which an ended job can have too."""

import sqlalchemy as sa
from alembic import op

from migrations.online import create_index, drop_index

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

_LIVE = "status IN ('queued', 'running')"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("trace_id", sa.String(32)))
    create_index("ix_jobs_open", "jobs", ["available_at"], where=f"{_LIVE} OR stop_reason = 'answered'")
    drop_index("ix_jobs_live", "jobs")


def downgrade() -> None:
    op.drop_column("jobs", "trace_id")
    create_index("ix_jobs_live", "jobs", ["available_at"], where=_LIVE)
    drop_index("ix_jobs_open", "jobs")
