"""Reasoning tokens of jobs, and tokens that providers wrote to their caches."""

import sqlalchemy as sa
from alembic import op

from migrations.online import create_index, drop_index

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None

_BEFORE = ["run_id", "stop_reason", "calls", "input_tokens", "cached_input_tokens", "output_tokens"]
_TOKENS = ["input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens"]
_COST = ["cost_nano_usd", "unpriced_calls"]
_IN_RUN = "run_id IS NOT NULL"


def upgrade() -> None:
    op.add_column("calls", sa.Column("cache_write_tokens", sa.BigInteger()))
    for name in ("cache_write_tokens", "reasoning_tokens"):
        op.add_column("jobs", sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))
    # The calls of earlier releases have reasoning tokens, their jobs have no sum of them
    op.execute(
        "UPDATE jobs SET reasoning_tokens = spent.tokens FROM ("
        "SELECT job_id, sum(reasoning_tokens) AS tokens FROM calls WHERE reasoning_tokens > 0 GROUP BY job_id"
        ") AS spent WHERE spent.job_id = jobs.id"
    )
    create_index("ix_jobs_run_usage", "jobs", ["run_id", "stop_reason", "calls", *_TOKENS, *_COST], where=_IN_RUN)
    drop_index("ix_jobs_run_totals", "jobs")


def downgrade() -> None:
    create_index("ix_jobs_run_totals", "jobs", [*_BEFORE, *_COST], where=_IN_RUN)
    drop_index("ix_jobs_run_usage", "jobs")
    for name in ("reasoning_tokens", "cache_write_tokens"):
        op.drop_column("jobs", name)
    op.drop_column("calls", "cache_write_tokens")
