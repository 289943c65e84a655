"""First schema: jobs, iterations, evaluations, calls, events, API keys, worker heartbeats."""

import sqlalchemy as sa
from alembic import op

from redraft.storage.engine.columns import CleanText, Json, SearchableJson, UtcTime

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# ruff: noqa: E501


def upgrade() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("name", CleanText(), nullable=False),
        sa.Column("hint", sa.String(length=16), nullable=False),
        sa.Column("token_hash", sa.String(length=64), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("revoked_at", UtcTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
        sa.UniqueConstraint("token_hash", name=op.f("uq_api_keys_token_hash")),
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("kind", sa.String(length=20), nullable=False),
        sa.Column("status", sa.String(length=12), nullable=False),
        sa.Column("stop_reason", sa.String(length=20), nullable=True),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("started_at", UtcTime(), nullable=True),
        sa.Column("finished_at", UtcTime(), nullable=True),
        sa.Column("deadline_at", UtcTime(), nullable=False),
        sa.Column("request", Json(), nullable=False),
        sa.Column("metadata", SearchableJson(), nullable=False),
        sa.Column("warnings", Json(), nullable=False),
        sa.Column("model", sa.String(length=220), nullable=True),
        sa.Column("evaluator_model", sa.String(length=220), nullable=False),
        sa.Column("idempotency_scope", sa.String(length=80), nullable=True),
        sa.Column("idempotency_key", sa.String(length=255), nullable=True),
        sa.Column("request_hash", sa.String(length=64), nullable=False),
        sa.Column("step", sa.String(length=10), nullable=False),
        sa.Column("step_no", sa.Integer(), nullable=False),
        sa.Column("step_attempt", sa.Integer(), nullable=False),
        sa.Column("step_claims", sa.Integer(), nullable=False),
        sa.Column("available_at", UtcTime(), nullable=False),
        sa.Column("rung_at", UtcTime(), nullable=True),
        sa.Column("ring_count", sa.Integer(), nullable=False),
        sa.Column("lease_token", sa.BigInteger(), nullable=False),
        sa.Column("lease_owner", sa.String(length=40), nullable=True),
        sa.Column("lease_expires_at", UtcTime(), nullable=True),
        sa.Column("lost_leases", sa.Integer(), nullable=False),
        sa.Column("iteration", sa.Integer(), nullable=False),
        sa.Column("iteration_limit", sa.Integer(), nullable=False),
        sa.Column("first_iteration", sa.Integer(), nullable=False),
        sa.Column("continuations", sa.Integer(), nullable=False),
        sa.Column("guidance", CleanText(), nullable=True),
        sa.Column("best_score", sa.Float(), nullable=True),
        sa.Column("best_iteration", sa.Integer(), nullable=True),
        sa.Column("result", Json(), nullable=True),
        sa.Column("error", Json(), nullable=True),
        sa.Column("calls", sa.Integer(), nullable=False),
        sa.Column("input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cached_input_tokens", sa.BigInteger(), nullable=False),
        sa.Column("output_tokens", sa.BigInteger(), nullable=False),
        sa.Column("cost_nano_usd", sa.BigInteger(), nullable=False),
        sa.Column("unpriced_calls", sa.Integer(), nullable=False),
        sa.Column("event_seq", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.CheckConstraint(
            "(status IN ('queued', 'running')) = (finished_at IS NULL) AND (status IN ('queued', 'running')) = (stop_reason IS NULL)",
            name=op.f("ck_jobs_terminal_is_finished"),
        ),
        sa.CheckConstraint(
            "status IN ('queued', 'running', 'succeeded', 'failed', 'canceled')", name=op.f("ck_jobs_status")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
        sa.UniqueConstraint(
            "idempotency_scope", "idempotency_key", name=op.f("uq_jobs_idempotency_scope_idempotency_key")
        ),
    )
    op.create_index("ix_jobs_created", "jobs", ["created_at", "id"], unique=False)
    op.create_index(
        "ix_jobs_live",
        "jobs",
        ["available_at"],
        unique=False,
        postgresql_where=sa.text("status IN ('queued', 'running')"),
        sqlite_where=sa.text("status IN ('queued', 'running')"),
    )
    if op.get_bind().dialect.name == "postgresql":
        op.create_index(
            "ix_jobs_metadata",
            "jobs",
            ["metadata"],
            unique=False,
            postgresql_using="gin",
            postgresql_ops={"metadata": "jsonb_path_ops"},
        )
    op.create_index("ix_jobs_model_created", "jobs", ["model", "created_at", "id"], unique=False)
    op.create_index("ix_jobs_status_created", "jobs", ["status", "created_at", "id"], unique=False)
    op.create_index("ix_jobs_stop_reason_created", "jobs", ["stop_reason", "created_at", "id"], unique=False)
    op.create_table(
        "worker_heartbeats",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("concurrency", sa.Integer(), nullable=False),
        sa.Column("version", sa.String(length=40), nullable=False),
        sa.Column("started_at", UtcTime(), nullable=False),
        sa.Column("seen_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_worker_heartbeats")),
    )
    op.create_table(
        "calls",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("job_id", sa.String(length=40), nullable=False),
        sa.Column("type", sa.String(length=20), nullable=False),
        sa.Column("step", sa.String(length=10), nullable=False),
        sa.Column("iteration", sa.Integer(), nullable=False),
        sa.Column("candidate", sa.Integer(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("lease_token", sa.BigInteger(), nullable=False),
        sa.Column("provider", sa.String(length=20), nullable=False),
        sa.Column("model", sa.String(length=220), nullable=False),
        sa.Column("status", sa.String(length=10), nullable=False),
        sa.Column("cached", sa.Boolean(), nullable=False),
        sa.Column("request", Json(), nullable=False),
        sa.Column("response", Json(), nullable=True),
        sa.Column("reply_text", CleanText(), nullable=True),
        sa.Column("http_status", sa.Integer(), nullable=True),
        sa.Column("response_headers", Json(), nullable=True),
        sa.Column("finish_reason", sa.String(length=40), nullable=True),
        sa.Column("input_tokens", sa.BigInteger(), nullable=True),
        sa.Column("cached_input_tokens", sa.BigInteger(), nullable=True),
        sa.Column("output_tokens", sa.BigInteger(), nullable=True),
        sa.Column("reasoning_tokens", sa.BigInteger(), nullable=True),
        sa.Column("cost_nano_usd", sa.BigInteger(), nullable=True),
        sa.Column("latency_ms", sa.Integer(), nullable=True),
        sa.Column("error", Json(), nullable=True),
        sa.Column("started_at", UtcTime(), nullable=False),
        sa.Column("finished_at", UtcTime(), nullable=True),
        sa.CheckConstraint("status IN ('started', 'ok', 'error', 'unknown', 'dup')", name=op.f("ck_calls_status")),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_calls_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_calls")),
    )
    op.create_index(
        "ix_calls_started",
        "calls",
        ["started_at"],
        unique=False,
        postgresql_where=sa.text("status = 'started'"),
        sqlite_where=sa.text("status = 'started'"),
    )
    op.create_index("ix_calls_job", "calls", ["job_id", "started_at", "id"], unique=False)
    op.create_index(
        "uq_calls_ok",
        "calls",
        ["job_id", "iteration", "candidate", "step", "seq"],
        unique=True,
        postgresql_where=sa.text("status = 'ok'"),
        sqlite_where=sa.text("status = 'ok'"),
    )
    op.create_table(
        "events",
        sa.Column("job_id", sa.String(length=40), nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("type", sa.String(length=40), nullable=False),
        sa.Column("data", Json(), nullable=False),
        sa.Column("at", UtcTime(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_events_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", "seq", name=op.f("pk_events")),
    )
    op.create_table(
        "iterations",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("job_id", sa.String(length=40), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("candidate", sa.Integer(), nullable=False),
        sa.Column("generator_model", sa.String(length=220), nullable=True),
        sa.Column("answer", CleanText(), nullable=False),
        sa.Column("feedback_given", CleanText(), nullable=True),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_iterations_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_iterations")),
        sa.UniqueConstraint("job_id", "number", "candidate", name=op.f("uq_iterations_job_id_number_candidate")),
    )
    op.create_table(
        "evaluations",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("job_id", sa.String(length=40), nullable=False),
        sa.Column("iteration_id", sa.String(length=40), nullable=False),
        sa.Column("role", sa.String(length=10), nullable=False),
        sa.Column("status", sa.String(length=10), nullable=False),
        sa.Column("score", sa.Float(), nullable=True),
        sa.Column("passed", sa.Boolean(), nullable=False),
        sa.Column("meets_criteria", sa.Boolean(), nullable=True),
        sa.Column("reasoning", CleanText(), nullable=False),
        sa.Column("suggestions", Json(), nullable=False),
        sa.Column("evaluator_model", sa.String(length=220), nullable=True),
        sa.Column("profile", sa.String(length=80), nullable=False),
        sa.Column("reused_from", sa.String(length=40), nullable=True),
        sa.Column("error", Json(), nullable=True),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.CheckConstraint("(status = 'ok') = (score IS NOT NULL)", name=op.f("ck_evaluations_scored_when_ok")),
        sa.ForeignKeyConstraint(
            ["iteration_id"], ["iterations.id"], name=op.f("fk_evaluations_iteration_id"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_evaluations_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_evaluations")),
    )
    op.create_index("ix_evaluations_job", "evaluations", ["job_id"], unique=False)
    op.create_index(
        "uq_evaluations_loop",
        "evaluations",
        ["iteration_id"],
        unique=True,
        postgresql_where=sa.text("role = 'loop'"),
        sqlite_where=sa.text("role = 'loop'"),
    )


def downgrade() -> None:
    for table in ("evaluations", "events", "calls", "iterations", "jobs", "worker_heartbeats", "api_keys"):
        op.drop_table(table)
