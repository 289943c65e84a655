"""The index of ended jobs also has their scores, which tell jobs without a verdict."""

from collections.abc import Sequence

from migrations.online import create_index, drop_index

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None

_COLUMNS = ("finished_at", "status", "stop_reason", "cost_nano_usd", "unpriced_calls")


def upgrade() -> None:
    _replace((*_COLUMNS, "best_score"))


def downgrade() -> None:
    _replace(_COLUMNS)


def _replace(columns: Sequence[str]) -> None:
    drop_index("ix_jobs_ended", "jobs")
    create_index("ix_jobs_ended", "jobs", columns, where="finished_at IS NOT NULL")
