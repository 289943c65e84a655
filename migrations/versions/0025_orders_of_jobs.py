"""Indexes of ended jobs by score, cost and duration."""

import sqlalchemy as sa
from alembic import op

from migrations.online import create_index, drop_index

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

_ENDED = "finished_at IS NOT NULL"
_SCORED = f"{_ENDED} AND best_score IS NOT NULL"
_DURATIONS = {"postgresql": "(finished_at - created_at)", "sqlite": "(julianday(finished_at) - julianday(created_at))"}


def upgrade() -> None:
    create_index("ix_jobs_best", "jobs", ["best_score", "id"], where=_SCORED)
    create_index("ix_jobs_worst", "jobs", [sa.text("(-best_score)"), "id"], where=_SCORED)
    create_index("ix_jobs_cost", "jobs", ["cost_nano_usd", "id"], where=_ENDED)
    duration = sa.text(_DURATIONS[op.get_bind().dialect.name])
    create_index("ix_jobs_duration", "jobs", [duration, "id"], where=_ENDED)


def downgrade() -> None:
    for name in ("duration", "cost", "worst", "best"):
        drop_index(f"ix_jobs_{name}", "jobs")
