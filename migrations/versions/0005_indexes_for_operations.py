"""Indexes for pruning and metrics, and an index for the deletion of iterations, which otherwise scans evaluations."""

from alembic import op

from migrations.online import create_index

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_HAS_ENDED = "finished_at IS NOT NULL"


def upgrade() -> None:
    create_index("ix_jobs_finished", "jobs", ["finished_at"], where=_HAS_ENDED)
    create_index("ix_calls_finished", "calls", ["finished_at"], where=_HAS_ENDED)
    create_index("ix_evaluations_iteration", "evaluations", ["iteration_id"])
    create_index("ix_webhook_deliveries_failed", "webhook_deliveries", ["created_at"], where="status = 'failed'")


def downgrade() -> None:
    op.drop_index("ix_webhook_deliveries_failed", table_name="webhook_deliveries")
    op.drop_index("ix_evaluations_iteration", table_name="evaluations")
    op.drop_index("ix_calls_finished", table_name="calls")
    op.drop_index("ix_jobs_finished", table_name="jobs")
