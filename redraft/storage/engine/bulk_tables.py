"""The tables of bulk evaluation: datasets with their rows, runs with their items."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    UniqueConstraint,
)

from redraft.storage.engine.columns import CleanText, DbNow, Json, UtcTime
from redraft.storage.engine.tables import metadata, partial_index

datasets = Table(
    "datasets",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("name", CleanText, nullable=False),
    # NULL while it is being imported
    Column("version", String(64)),
    Column("format", String(10), nullable=False),
    Column("rows", Integer, nullable=False, default=0),
    Column("bad_rows", Integer, nullable=False, default=0),
    # Used columns with their fields, and unused columns
    Column("columns", Json, nullable=False),
    Column("created_at", UtcTime, nullable=False, default=DbNow()),
    Index("ix_datasets_created", "created_at", "id"),
    Index("ix_datasets_version", "version"),
)

dataset_items = Table(
    "dataset_items",
    metadata,
    Column("dataset_id", String(40), ForeignKey("datasets.id", ondelete="CASCADE"), primary_key=True),
    # From 0 on, in the file's order
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("custom_id", CleanText),
    Column("line", Integer, nullable=False),
    # Fields and vars of the row; NULL for a bad row, which has errors instead
    Column("row", Json),
    Column("errors", Json),
    # Texts by which a person recognizes a bad row
    Column("told", Json),
    Column("human_score", Float),
    Column("human_pass", Boolean),
    Column("digest", String(64), nullable=False),
    CheckConstraint('("row" IS NULL) = (errors IS NOT NULL)', name="row_or_errors"),
)

_ACTIVE = "status = 'running'"

runs = Table(
    "runs",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("name", CleanText, nullable=False),
    Column("dataset_id", String(40), ForeignKey("datasets.id"), nullable=False),
    Column("status", String(12), nullable=False),
    Column("stop_reason", String(20)),
    Column("defaults", Json, nullable=False),
    Column("overrides", Json, nullable=False),
    Column("repeat", Integer, nullable=False),
    Column("max_in_flight", Integer, nullable=False),
    Column("max_cost_nano_usd", BigInteger),
    Column("total", Integer, nullable=False),
    Column("version", Integer, nullable=False, default=1),
    Column("created_at", UtcTime, nullable=False, default=DbNow()),
    Column("finished_at", UtcTime),
    Column("idempotency_scope", String(80)),
    Column("idempotency_key", String(255)),
    Column("request_hash", String(64), nullable=False),
    Column("resumed_at", UtcTime),
    # Total time between ends and resumes: the report subtracts it
    Column("idle_ms", BigInteger),
    Column("webhook", Json),
    CheckConstraint("status IN ('running', 'succeeded', 'canceled')", name="status"),
    CheckConstraint(f"({_ACTIVE}) = (finished_at IS NULL)", name="active_is_unfinished"),
    UniqueConstraint("idempotency_scope", "idempotency_key"),
    Index("ix_runs_created", "created_at", "id"),
    Index("ix_runs_dataset", "dataset_id"),
    partial_index("ix_runs_active", "id", where=_ACTIVE),
)

run_items = Table(
    "run_items",
    metadata,
    Column("run_id", String(40), ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    # From 1 on: the rows in order, each with its repeats
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("position", Integer, nullable=False),
    Column("repeat", Integer, nullable=False),
    Column("status", String(12), nullable=False),
    Column("job_id", String(40), ForeignKey("jobs.id", ondelete="SET NULL")),
    # Why it is invalid
    Column("errors", Json),
    CheckConstraint("status IN ('queued', 'running', 'succeeded', 'failed', 'canceled', 'invalid')", name="status"),
    Index("ix_run_items_status", "run_id", "status", "number"),
    Index("uq_run_items_job", "job_id", unique=True),
)
