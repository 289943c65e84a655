"""Datasets, runs and their items, and the run of a job."""

import sqlalchemy as sa
from alembic import op

from redraft.storage.engine.columns import CleanText, Json, UtcTime

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_ACTIVE = "status = 'running'"


def upgrade() -> None:
    op.create_table(
        "datasets",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("name", CleanText(), nullable=False),
        sa.Column("version", sa.String(length=64), nullable=True),
        sa.Column("format", sa.String(length=10), nullable=False),
        sa.Column("rows", sa.Integer(), nullable=False),
        sa.Column("bad_rows", sa.Integer(), nullable=False),
        sa.Column("columns", Json(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_datasets")),
    )
    op.create_index("ix_datasets_created", "datasets", ["created_at", "id"])
    op.create_index("ix_datasets_version", "datasets", ["version"])
    op.create_table(
        "dataset_items",
        sa.Column("dataset_id", sa.String(length=40), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("custom_id", CleanText(), nullable=True),
        sa.Column("line", sa.Integer(), nullable=False),
        sa.Column("row", Json(), nullable=True),
        sa.Column("errors", Json(), nullable=True),
        sa.Column("human_score", sa.Float(), nullable=True),
        sa.Column("human_pass", sa.Boolean(), nullable=True),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.CheckConstraint('("row" IS NULL) = (errors IS NOT NULL)', name=op.f("ck_dataset_items_row_or_errors")),
        sa.ForeignKeyConstraint(
            ["dataset_id"], ["datasets.id"], name=op.f("fk_dataset_items_dataset_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("dataset_id", "position", name=op.f("pk_dataset_items")),
    )
    op.create_table(
        "runs",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("name", CleanText(), nullable=False),
        sa.Column("dataset_id", sa.String(length=40), nullable=False),
        sa.Column("status", sa.String(length=12), nullable=False),
        sa.Column("stop_reason", sa.String(length=20), nullable=True),
        sa.Column("defaults", Json(), nullable=False),
        sa.Column("overrides", Json(), nullable=False),
        sa.Column("repeat", sa.Integer(), nullable=False),
        sa.Column("max_in_flight", sa.Integer(), nullable=False),
        sa.Column("max_cost_nano_usd", sa.BigInteger(), nullable=True),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("finished_at", UtcTime(), nullable=True),
        sa.Column("idempotency_scope", sa.String(length=80), nullable=True),
        sa.Column("idempotency_key", sa.String(length=255), nullable=True),
        sa.Column("request_hash", sa.String(length=64), nullable=False),
        sa.CheckConstraint("status IN ('running', 'succeeded', 'canceled')", name=op.f("ck_runs_status")),
        sa.CheckConstraint(f"({_ACTIVE}) = (finished_at IS NULL)", name=op.f("ck_runs_active_is_unfinished")),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name=op.f("fk_runs_dataset_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_runs")),
        sa.UniqueConstraint(
            "idempotency_scope", "idempotency_key", name=op.f("uq_runs_idempotency_scope_idempotency_key")
        ),
    )
    op.create_index("ix_runs_created", "runs", ["created_at", "id"])
    op.create_index("ix_runs_dataset", "runs", ["dataset_id"])
    op.create_index("ix_runs_active", "runs", ["id"], postgresql_where=sa.text(_ACTIVE), sqlite_where=sa.text(_ACTIVE))
    op.create_table(
        "run_items",
        sa.Column("run_id", sa.String(length=40), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("repeat", sa.Integer(), nullable=False),
        sa.Column("status", sa.String(length=12), nullable=False),
        sa.Column("job_id", sa.String(length=40), nullable=True),
        sa.Column("errors", Json(), nullable=True),
        sa.CheckConstraint(
            "status IN ('queued', 'running', 'succeeded', 'failed', 'canceled', 'invalid')",
            name=op.f("ck_run_items_status"),
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_run_items_run_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_run_items_job_id"), ondelete="SET NULL"),
        sa.PrimaryKeyConstraint("run_id", "number", name=op.f("pk_run_items")),
    )
    op.create_index("ix_run_items_status", "run_items", ["run_id", "status", "number"])
    op.create_index("uq_run_items_job", "run_items", ["job_id"], unique=True)
    op.add_column("jobs", sa.Column("run_id", sa.String(length=40), nullable=True))
    op.create_index(
        "ix_jobs_run",
        "jobs",
        ["run_id", "created_at", "id"],
        postgresql_where=sa.text("run_id IS NOT NULL"),
        sqlite_where=sa.text("run_id IS NOT NULL"),
    )


def downgrade() -> None:
    op.drop_index("ix_jobs_run", "jobs")
    op.drop_column("jobs", "run_id")
    op.drop_table("run_items")
    op.drop_table("runs")
    op.drop_table("dataset_items")
    op.drop_table("datasets")
