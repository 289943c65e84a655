"""An index of the outcomes of jobs."""

import sqlalchemy as sa

from migrations.online import create_index, drop_index

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

_OUTCOME = (
    "(CASE WHEN status <> 'succeeded' THEN status WHEN stop_reason = 'accepted' THEN 'accepted' "
    "WHEN continuations > 0 THEN 'continued' WHEN best_score IS NULL THEN 'not_evaluated' ELSE 'not_accepted' END)"
)


def upgrade() -> None:
    create_index("ix_jobs_outcome_created", "jobs", [sa.text(_OUTCOME), "created_at", "id"])


def downgrade() -> None:
    drop_index("ix_jobs_outcome_created", "jobs")
