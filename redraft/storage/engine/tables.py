"""The tables of jobs. `migrations/` creates all tables; a test compares the two."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    text,
)

from redraft.storage.engine.columns import CleanText, DbNow, Json, SearchableJson, UtcTime

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def partial_index(name: str, *columns: str, where: str, unique: bool = False) -> Index:
    """Index of the rows that meet a condition; SQLAlchemy takes the condition once per dialect."""
    return Index(name, *columns, unique=unique, postgresql_where=text(where), sqlite_where=text(where))


OTHER_KINDS = "kind <> 'generate_answer'"
_LIVE = "status IN ('queued', 'running')"

jobs = Table(
    "jobs",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("kind", String(20), nullable=False),
    Column("status", String(12), nullable=False),
    Column("stop_reason", String(20)),
    Column("created_at", UtcTime, nullable=False, default=DbNow()),
    Column("started_at", UtcTime),
    Column("finished_at", UtcTime),
    Column("deadline_at", UtcTime, nullable=False),
    Column("request", Json, nullable=False),
    Column("metadata", SearchableJson, nullable=False),
    Column("warnings", Json, nullable=False),
    Column("model", String(220)),
    Column("evaluator_model", String(220), nullable=False),
    # The job whose iterations a job of kind rescore_answers evaluates again
    Column("rescored_job_id", String(40)),
    # The bulk run of which this job is an item
    Column("run_id", String(40)),
    Column("idempotency_scope", String(80)),
    Column("idempotency_key", String(255)),
    Column("request_hash", String(64), nullable=False),
    # The next step, and its lease
    Column("step", String(10), nullable=False),
    Column("step_no", Integer, nullable=False, default=1),
    Column("step_attempt", Integer, nullable=False, default=0),
    Column("step_claims", Integer, nullable=False, default=0),
    Column("available_at", UtcTime, nullable=False, default=DbNow()),
    Column("rung_at", UtcTime),
    Column("ring_count", Integer, nullable=False, default=0),
    Column("lease_token", BigInteger, nullable=False, default=0),
    Column("lease_owner", String(40)),
    Column("lease_expires_at", UtcTime),
    Column("lost_leases", Integer, nullable=False, default=0),
    # The loop
    Column("iteration", Integer, nullable=False, default=0),
    Column("iteration_limit", Integer, nullable=False),
    Column("first_iteration", Integer, nullable=False, default=1),
    Column("continuations", Integer, nullable=False, default=0),
    Column("guidance", CleanText),
    Column("best_score", Float),
    Column("best_iteration", Integer),
    Column("result", Json),
    Column("error", Json),
    # What it cost so far
    Column("calls", Integer, nullable=False, default=0),
    Column("input_tokens", BigInteger, nullable=False, default=0),
    Column("cached_input_tokens", BigInteger, nullable=False, default=0),
    Column("output_tokens", BigInteger, nullable=False, default=0),
    Column("cost_nano_usd", BigInteger, nullable=False, default=0),
    Column("unpriced_calls", Integer, nullable=False, default=0),
    Column("event_seq", Integer, nullable=False, default=0),
    Column("version", Integer, nullable=False, default=1),
    CheckConstraint(
        f"({_LIVE}) = (finished_at IS NULL) AND ({_LIVE}) = (stop_reason IS NULL)", name="terminal_is_finished"
    ),
    CheckConstraint("status IN ('queued', 'running', 'succeeded', 'failed', 'canceled')", name="status"),
    UniqueConstraint("idempotency_scope", "idempotency_key"),
    partial_index("ix_jobs_live", "available_at", where=_LIVE),
    # A covering index: usage and outcomes are summed up without reading the table
    partial_index(
        "ix_jobs_ended",
        *("finished_at", "status", "stop_reason", "cost_nano_usd", "unpriced_calls"),
        where="finished_at IS NOT NULL",
    ),
    Index("ix_jobs_created", "created_at", "id"),
    partial_index("ix_jobs_run", "run_id", "created_at", "id", where="run_id IS NOT NULL"),
    # Covering indexes: outcomes and cost of a run without reading its jobs
    partial_index("ix_jobs_continued", "run_id", "finished_at", where="continuations > 0"),
    partial_index(
        "ix_jobs_run_totals",
        *("run_id", "stop_reason", "calls", "input_tokens", "cached_input_tokens", "output_tokens"),
        *("cost_nano_usd", "unpriced_calls"),
        where="run_id IS NOT NULL",
    ),
    Index("ix_jobs_status_created", "status", "created_at", "id"),
    Index("ix_jobs_stop_reason_created", "stop_reason", "created_at", "id"),
    Index("ix_jobs_model_created", "model", "created_at", "id"),
    # Few jobs have these kinds: without the index, a list of them scans all jobs
    partial_index("ix_jobs_other_kinds", "kind", "created_at", "id", where=OTHER_KINDS),
)
Index(
    "ix_jobs_metadata", jobs.c.metadata, postgresql_using="gin", postgresql_ops={"metadata": "jsonb_path_ops"}
).ddl_if(dialect="postgresql")

iterations = Table(
    "iterations",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("job_id", String(40), ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("candidate", Integer, nullable=False),
    Column("generator_model", String(220)),
    Column("answer", CleanText, nullable=False),
    Column("feedback_given", CleanText),
    # Citations and support found without a model; NULL for a job without sources
    Column("grounding", Json),
    Column("created_at", UtcTime, nullable=False, default=DbNow()),
    UniqueConstraint("job_id", "number", "candidate"),
)

evaluations = Table(
    "evaluations",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("job_id", String(40), ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    Column("iteration_id", String(40), ForeignKey("iterations.id", ondelete="CASCADE"), nullable=False),
    Column("role", String(10), nullable=False, default="loop"),
    Column("status", String(10), nullable=False),
    Column("score", Float),
    Column("passed", Boolean, nullable=False),
    Column("meets_criteria", Boolean),
    Column("reasoning", CleanText, nullable=False, default=""),
    Column("suggestions", Json, nullable=False),
    # Fields of a profile or a rubric beside the score
    Column("confidence", Float),
    Column("issues", Json),
    Column("improvement_hint", CleanText),
    Column("criteria", Json),
    Column("checks", Json),
    Column("requirements_met", Boolean),
    # Support of each claim, found by a model; NULL where no model was called for it
    Column("grounding", Json),
    # One entry per evaluator of a panel, and the spread of their scores
    Column("judges", Json),
    Column("disagreement", Float),
    Column("evaluator_model", String(220)),
    Column("profile", String(80), nullable=False),
    Column("profile_version", String(16)),
    Column("reused_from", String(40)),
    Column("error", Json),
    Column("created_at", UtcTime, nullable=False, default=DbNow()),
    CheckConstraint("(status = 'ok') = (score IS NOT NULL)", name="scored_when_ok"),
    Index("ix_evaluations_job", "job_id"),
    # For the cascade from iterations: the unique index below is partial
    Index("ix_evaluations_iteration", "iteration_id"),
    partial_index("uq_evaluations_loop", "iteration_id", where="role = 'loop'", unique=True),
)

ratings = Table(
    "ratings",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("job_id", String(40), ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    Column("evaluation_id", String(40), ForeignKey("evaluations.id", ondelete="CASCADE"), nullable=False),
    # NULL: a rating of the whole evaluation
    Column("criterion_id", String(64)),
    Column("verdict", String(10), nullable=False),
    Column("score", Float),
    Column("note", CleanText, nullable=False, default=""),
    Column("rater", CleanText, nullable=False),
    Column("created_at", UtcTime, nullable=False, default=DbNow()),
    CheckConstraint("verdict IN ('agree', 'disagree', 'unsure')", name="verdict"),
    Index("ix_ratings_job", "job_id"),
    Index("ix_ratings_evaluation", "evaluation_id"),
)

observations = Table(
    "observations",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("job_id", String(40), ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    # The answer that was accepted
    Column("iteration", Integer, nullable=False),
    Column("candidate", Integer, nullable=False),
    Column("query", CleanText, nullable=False),
    Column("sources", Json, nullable=False),
    Column("score", Float),
    Column("grounding_score", Float),
    Column("generator_model", String(220)),
    Column("evaluator_model", String(220)),
    Column("profile", String(80), nullable=False),
    Column("created_at", UtcTime, nullable=False, default=DbNow()),
    UniqueConstraint("job_id", "iteration", "candidate"),
    Index("ix_observations_created", "created_at", "id"),
)

calls = Table(
    "calls",
    metadata,
    Column("id", String(40), primary_key=True),
    # NULL: a call without a job, such as drafting a rubric
    Column("job_id", String(40), ForeignKey("jobs.id", ondelete="CASCADE")),
    Column("type", String(20), nullable=False),
    Column("step", String(10), nullable=False),
    Column("iteration", Integer, nullable=False),
    Column("candidate", Integer, nullable=False),
    Column("seq", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("lease_token", BigInteger, nullable=False),
    Column("provider", String(20), nullable=False),
    Column("model", String(220), nullable=False),
    Column("status", String(10), nullable=False),
    Column("cached", Boolean, nullable=False, default=False),
    # Set in jobs with `cache: use`: the key by which an identical call finds this one
    Column("cache_key", String(64)),
    Column("request", Json, nullable=False),
    Column("response", Json),
    Column("reply_text", CleanText),
    Column("http_status", Integer),
    Column("response_headers", Json),
    Column("finish_reason", String(40)),
    Column("input_tokens", BigInteger),
    Column("cached_input_tokens", BigInteger),
    Column("output_tokens", BigInteger),
    Column("reasoning_tokens", BigInteger),
    Column("cost_nano_usd", BigInteger),
    Column("latency_ms", Integer),
    Column("error", Json),
    Column("started_at", UtcTime, nullable=False, default=DbNow()),
    Column("finished_at", UtcTime),
    CheckConstraint("status IN ('started', 'ok', 'error', 'unknown', 'dup')", name="status"),
    Index("ix_calls_job", "job_id", "started_at", "id"),
    partial_index("ix_calls_finished", "finished_at", where="finished_at IS NOT NULL"),
    partial_index("ix_calls_cache_key", "cache_key", where="cache_key IS NOT NULL AND status = 'ok'"),
    partial_index("ix_calls_started", "started_at", where="status = 'started'"),
    partial_index("uq_calls_ok", "job_id", "iteration", "candidate", "step", "seq", where="status = 'ok'", unique=True),
)

events = Table(
    "events",
    metadata,
    Column("job_id", String(40), ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("type", String(40), nullable=False),
    Column("data", Json, nullable=False),
    Column("at", UtcTime, nullable=False, default=DbNow()),
)

webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("id", String(40), primary_key=True),
    # Exactly one of the two is set
    Column("job_id", String(40), ForeignKey("jobs.id", ondelete="CASCADE")),
    Column("run_id", String(40), ForeignKey("runs.id", ondelete="CASCADE")),
    # The number of the job's event, or the version of the run at that time
    Column("seq", Integer, nullable=False),
    # The body for a run, which has no rows in `events`
    Column("event", Json),
    Column("type", String(40), nullable=False),
    Column("url", CleanText, nullable=False),
    Column("receiver", CleanText, nullable=False),
    Column("status", String(10), nullable=False, default="pending"),
    Column("attempts", Integer, nullable=False, default=0),
    # Attempts before the last redelivery: the backoff starts again with it
    Column("attempts_before", Integer, nullable=False, default=0),
    Column("next_at", UtcTime, default=DbNow()),
    Column("lease_expires_at", UtcTime),
    Column("last_status", Integer),
    Column("last_error", CleanText),
    Column("created_at", UtcTime, nullable=False, default=DbNow()),
    Column("delivered_at", UtcTime),
    CheckConstraint("status IN ('pending', 'delivered', 'failed')", name="status"),
    CheckConstraint("(status = 'pending') = (next_at IS NOT NULL)", name="next_while_pending"),
    UniqueConstraint("job_id", "seq"),
    Index("uq_webhook_deliveries_run", "run_id", "seq", unique=True),
    partial_index("ix_webhook_deliveries_due", "next_at", where="status = 'pending'"),
    partial_index("ix_webhook_deliveries_failed", "created_at", where="status = 'failed'"),
)
