"""A covering index for the outcomes and the cost of the jobs of a run."""

from migrations.online import create_index, drop_index

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_TOLD = [
    *("run_id", "stop_reason", "calls", "input_tokens", "cached_input_tokens", "output_tokens"),
    *("cost_nano_usd", "unpriced_calls"),
]


def upgrade() -> None:
    create_index("ix_jobs_run_totals", "jobs", _TOLD, where="run_id IS NOT NULL")


def downgrade() -> None:
    drop_index("ix_jobs_run_totals", "jobs")
