"""A covering index for the outcomes and the cost of jobs that ended after some time."""

from migrations.online import create_index, drop_index

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_HAS_ENDED = "finished_at IS NOT NULL"
_TOLD = ["finished_at", "status", "stop_reason", "cost_nano_usd", "unpriced_calls"]


def upgrade() -> None:
    create_index("ix_jobs_ended", "jobs", _TOLD, where=_HAS_ENDED)
    drop_index("ix_jobs_finished", "jobs")


def downgrade() -> None:
    create_index("ix_jobs_finished", "jobs", ["finished_at"], where=_HAS_ENDED)
    drop_index("ix_jobs_ended", "jobs")
