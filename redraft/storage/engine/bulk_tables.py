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
    # Texts of an invalid row that help a person to find this row in the file
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
    # How the calls are delivered (`live` or `batch`), and the reason if the user let Redraft choose
    sa.Column("delivery", sa.String(5), nullable=False, default="live", server_default="live"),
    sa.Column("delivery_reason", CleanText),
    sa.CheckConstraint("status IN ('running', 'succeeded', 'canceled')", name="status"),
    sa.CheckConstraint(f"({_ACTIVE}) = (finished_at IS NULL)", name="active_is_unfinished"),
    sa.UniqueConstraint("idempotency_scope", "idempotency_key"),
    sa.Index("ix_runs_created", "created_at", "id"),
    sa.Index("ix_runs_dataset", "dataset_id"),
    partial_index("ix_runs_active", "id", where=_ACTIVE),
)

run_schedules = sa.Table(
    "run_schedules",
    metadata,
    sa.Column("id", sa.String(40), primary_key=True),
    sa.Column("name", CleanText, nullable=False),
    sa.Column("cron", sa.String(200), nullable=False),
    sa.Column("dataset_id", sa.String(40), sa.ForeignKey("datasets.id"), nullable=False),
    # The body of each run, as for POST /v1/runs
    sa.Column("request", Json, nullable=False),
    sa.Column("gates", Json),
    # The time of the next run; NULL while the schedule is paused
    sa.Column("next_at", UtcTime),
    sa.Column("created_at", UtcTime, nullable=False, default=DbNow()),
    sa.Index("ix_run_schedules_dataset", "dataset_id"),
    sa.Index("ix_run_schedules_next", "next_at"),
)

schedule_ticks = sa.Table(
    "schedule_ticks",
    metadata,
    # The primary key prevents a second run for the same time of a schedule
    sa.Column("schedule_id", sa.String(40), sa.ForeignKey("run_schedules.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("tick", UtcTime, primary_key=True),
    # NULL if no run could be started, and after the run was deleted
    sa.Column("run_id", sa.String(40), sa.ForeignKey("runs.id", ondelete="SET NULL")),
    sa.Column("error", Json),
    # The results of the gates; NULL until they are checked
    sa.Column("gates", Json),
    sa.Index("ix_schedule_ticks_run", "run_id"),
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

# One batch of calls of a run to one model. `calls.batch_id` names its calls
batches = sa.Table(
    "batches",
    metadata,
    # The provider gets this id with the batch, so that a batch whose submission was interrupted is found again
    sa.Column("id", sa.String(40), primary_key=True),
    sa.Column("run_id", sa.String(40), sa.ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
    sa.Column("model", sa.String(220), nullable=False),
    # collecting: calls are added. ready: the calls are fixed. sent: the provider has the batch. ended: its results are
    # stored
    sa.Column("status", sa.String(10), nullable=False, default="collecting"),
    # NULL while calls are collected
    sa.Column("round", sa.Integer),
    sa.Column("provider_batch_id", CleanText),
    # The provider's own word for the state
    sa.Column("provider_status", CleanText),
    sa.Column("total", sa.Integer, nullable=False, default=0),
    # The calls that the provider has ended, as it reports them
    sa.Column("done", sa.Integer, nullable=False, default=0),
    # The calls whose results are stored
    sa.Column("succeeded", sa.Integer, nullable=False, default=0),
    sa.Column("failed", sa.Integer, nullable=False, default=0),
    # The maximum cost of the calls without a result, if the run has a budget
    sa.Column("reserved_nano_usd", sa.BigInteger, nullable=False, default=0),
    # The price that the calls would have had as live calls, minus their cost
    sa.Column("saved_nano_usd", sa.BigInteger, nullable=False, default=0),
    sa.Column("created_at", UtcTime, nullable=False, default=DbNow()),
    # The start of the round
    sa.Column("ready_at", UtcTime),
    # The first submission, which may have failed; from then on the calls of the batch do not change
    sa.Column("submitted_at", UtcTime),
    # Before this time, the batch is not submitted again after an interruption, because the provider may still get it
    sa.Column("resubmit_at", UtcTime),
    sa.Column("expires_at", UtcTime),
    sa.Column("ended_at", UtcTime),
    # When a worker submits or reads the batch next
    sa.Column("next_at", UtcTime),
    # Consecutive failures of requests about the batch
    sa.Column("failures", sa.Integer, nullable=False, default=0),
    sa.Column("lease_owner", sa.String(40)),
    sa.Column("is_canceled", sa.Boolean, nullable=False, default=False),
    sa.Column("error", CleanText),
    # The first lines that are no result of a call of the batch, and their number
    sa.Column("odd_lines", Json),
    sa.Column("odd_line_count", sa.Integer, nullable=False, default=0),
    sa.CheckConstraint("status IN ('collecting', 'ready', 'sent', 'ended')", name="status"),
    sa.Index("ix_batches_run", "run_id", "round"),
    partial_index("uq_batches_collecting", "run_id", "model", where="status = 'collecting'", unique=True),
    partial_index("ix_batches_due", "next_at", where="status IN ('ready', 'sent')"),
)
