"""The tables of bulk evaluation: datasets with their rows, runs with their items."""

import sqlalchemy as sa

from redraft.storage.engine.columns import CleanText, DbNow, Json, UtcTime
from redraft.storage.engine.tables import metadata, partial_index

datasets = sa.Table(
    "datasets",
    metadata,
    sa.Column("id", sa.String(40), primary_key=True),
    sa.Column("name", CleanText, nullable=False),
    # NULL while the dataset is being imported
    sa.Column("version", sa.String(64)),
    sa.Column("format", sa.String(10), nullable=False),
    sa.Column("rows", sa.Integer, nullable=False, default=0),
    sa.Column("bad_rows", sa.Integer, nullable=False, default=0),
    # The used columns with the request fields that they set, and the unused columns
    sa.Column("columns", Json, nullable=False),
    sa.Column("created_at", UtcTime, nullable=False, default=DbNow()),
    sa.Index("ix_datasets_created", "created_at", "id"),
    sa.Index("ix_datasets_version", "version"),
)

dataset_items = sa.Table(
    "dataset_items",
    metadata,
    sa.Column("dataset_id", sa.String(40), sa.ForeignKey("datasets.id", ondelete="CASCADE"), primary_key=True),
    # The position of the row in the file; the first is 0
    sa.Column("position", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("custom_id", CleanText),
    sa.Column("line", sa.Integer, nullable=False),
    # Request fields and variables of the row; NULL for an invalid row, whose errors are stored instead
    sa.Column("row", Json),
    sa.Column("errors", Json),
    # Texts that help a person to find an invalid row in the file
    sa.Column("told", Json),
    sa.Column("human_score", sa.Float),
    sa.Column("human_pass", sa.Boolean),
    sa.Column("digest", sa.String(64), nullable=False),
    sa.CheckConstraint('("row" IS NULL) = (errors IS NOT NULL)', name="row_or_errors"),
)

_ACTIVE = "status = 'running'"

runs = sa.Table(
    "runs",
    metadata,
    sa.Column("id", sa.String(40), primary_key=True),
    sa.Column("name", CleanText, nullable=False),
    sa.Column("dataset_id", sa.String(40), sa.ForeignKey("datasets.id"), nullable=False),
    sa.Column("status", sa.String(12), nullable=False),
    sa.Column("stop_reason", sa.String(20)),
    sa.Column("defaults", Json, nullable=False),
    sa.Column("overrides", Json, nullable=False),
    sa.Column("repeat", sa.Integer, nullable=False),
    sa.Column("max_in_flight", sa.Integer, nullable=False),
    sa.Column("max_cost_nano_usd", sa.BigInteger),
    sa.Column("total", sa.Integer, nullable=False),
    sa.Column("version", sa.Integer, nullable=False, default=1),
    sa.Column("created_at", UtcTime, nullable=False, default=DbNow()),
    sa.Column("finished_at", UtcTime),
    sa.Column("idempotency_scope", sa.String(80)),
    sa.Column("idempotency_key", sa.String(255)),
    sa.Column("request_hash", sa.String(64), nullable=False),
    sa.Column("resumed_at", UtcTime),
    # Total time between each end and the next resume; the report subtracts it from the duration
    sa.Column("idle_ms", sa.BigInteger),
    sa.Column("webhook", Json),
    sa.CheckConstraint("status IN ('running', 'succeeded', 'canceled')", name="status"),
    sa.CheckConstraint(f"({_ACTIVE}) = (finished_at IS NULL)", name="active_is_unfinished"),
    sa.UniqueConstraint("idempotency_scope", "idempotency_key"),
    sa.Index("ix_runs_created", "created_at", "id"),
    sa.Index("ix_runs_dataset", "dataset_id"),
    partial_index("ix_runs_active", "id", where=_ACTIVE),
)

run_items = sa.Table(
    "run_items",
    metadata,
    sa.Column("run_id", sa.String(40), sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    # The position of the item in the run; the first is 1. The repeats of a row follow each other
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("position", sa.Integer, nullable=False),
    sa.Column("repeat", sa.Integer, nullable=False),
    sa.Column("status", sa.String(12), nullable=False),
    sa.Column("job_id", sa.String(40), sa.ForeignKey("jobs.id", ondelete="SET NULL")),
    # Errors that make the item invalid
    sa.Column("errors", Json),
    sa.CheckConstraint("status IN ('queued', 'running', 'succeeded', 'failed', 'canceled', 'invalid')", name="status"),
    sa.Index("ix_run_items_status", "run_id", "status", "number"),
    sa.Index("uq_run_items_job", "job_id", unique=True),
)
