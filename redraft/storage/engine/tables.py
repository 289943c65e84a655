"""The tables of jobs. `migrations/` creates all tables; a test checks that both define the same schema."""

from typing import Any

import sqlalchemy as sa

from redraft.storage.engine.columns import CleanText, DbNow, Json, SearchableJson, UtcTime

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def partial_index(
    name: str, *columns: str | sa.TextClause | sa.Column[Any], where: str, unique: bool = False
) -> sa.Index:
    """Return an index of the rows that meet a condition. SQLAlchemy has one argument per dialect for the condition."""
    return sa.Index(name, *columns, unique=unique, postgresql_where=sa.text(where), sqlite_where=sa.text(where))


TOKENS = ("input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")
"""The numbers of tokens of a call, and their sums in a job."""
OTHER_KINDS = "kind <> 'generate_answer'"
ENDED = "finished_at IS NOT NULL"
SCORED = f"{ENDED} AND best_score IS NOT NULL"
# The duration of an ended job. SQLite stores times as texts
DURATIONS = {"postgresql": "finished_at - created_at", "sqlite": "julianday(finished_at) - julianday(created_at)"}
_LIVE = "status IN ('queued', 'running')"
_OPEN = f"{_LIVE} OR stop_reason = 'answered'"
# The outcome of a job, as far as its columns show it: only the result of a continued job shows whether its answer is
# still accepted. Queries must repeat this text exactly, because SQLite does not use the index for another text
OUTCOME_GROUP = (
    "CASE WHEN status <> 'succeeded' THEN status WHEN stop_reason = 'accepted' THEN 'accepted' "
    "WHEN continuations > 0 THEN 'continued' WHEN best_score IS NULL THEN 'not_evaluated' ELSE 'not_accepted' END"
)

jobs = sa.Table(
    "jobs",
    metadata,
    sa.Column("id", sa.String(40), primary_key=True),
    sa.Column("kind", sa.String(20), nullable=False),
    sa.Column("status", sa.String(12), nullable=False),
    sa.Column("stop_reason", sa.String(20)),
    sa.Column("created_at", UtcTime, nullable=False, default=DbNow()),
    sa.Column("started_at", UtcTime),
    sa.Column("finished_at", UtcTime),
    sa.Column("deadline_at", UtcTime, nullable=False),
    sa.Column("request", Json, nullable=False),
    sa.Column("metadata", SearchableJson, nullable=False),
    sa.Column("warnings", Json, nullable=False),
    sa.Column("model", sa.String(220)),
    sa.Column("evaluator_model", sa.String(220), nullable=False),
    # Only for the kind rescore_answers: the job whose iterations are evaluated again
    sa.Column("rescored_job_id", sa.String(40)),
    # The bulk run of which this job is an item
    sa.Column("run_id", sa.String(40)),
    sa.Column("idempotency_scope", sa.String(80)),
    sa.Column("idempotency_key", sa.String(255)),
    sa.Column("request_hash", sa.String(64), nullable=False),
    # The trace of the HTTP request that submitted the job
    sa.Column("trace_id", sa.String(32)),
    # Its W3C trace context, which also names the span of the caller
    sa.Column("traceparent", sa.String(55)),
    # The next step and its lease. `rung_at` and `ring_count` record the messages that notified workers of the step
    sa.Column("step", sa.String(10), nullable=False),
    sa.Column("step_no", sa.Integer, nullable=False, default=1),
    sa.Column("step_attempt", sa.Integer, nullable=False, default=0),
    sa.Column("step_claims", sa.Integer, nullable=False, default=0),
    sa.Column("available_at", UtcTime, nullable=False, default=DbNow()),
    sa.Column("rung_at", UtcTime),
    sa.Column("ring_count", sa.Integer, nullable=False, default=0),
    sa.Column("lease_token", sa.BigInteger, nullable=False, default=0),
    sa.Column("lease_owner", sa.String(40)),
    sa.Column("lease_expires_at", UtcTime),
    sa.Column("lost_leases", sa.Integer, nullable=False, default=0),
    # The state of the loop
    sa.Column("iteration", sa.Integer, nullable=False, default=0),
    sa.Column("iteration_limit", sa.Integer, nullable=False),
    sa.Column("first_iteration", sa.Integer, nullable=False, default=1),
    sa.Column("continuations", sa.Integer, nullable=False, default=0),
    sa.Column("guidance", CleanText),
    # `batch` if the calls of the job wait for batches of its run; otherwise NULL
    sa.Column("delivery", sa.String(5)),
    sa.Column("best_score", sa.Float),
    sa.Column("best_iteration", sa.Integer),
    sa.Column("result", Json),
    sa.Column("error", Json),
    # Usage and cost so far
    sa.Column("calls", sa.Integer, nullable=False, default=0),
    sa.Column("input_tokens", sa.BigInteger, nullable=False, default=0),
    sa.Column("cached_input_tokens", sa.BigInteger, nullable=False, default=0),
    sa.Column("cache_write_tokens", sa.BigInteger, nullable=False, default=0, server_default="0"),
    sa.Column("output_tokens", sa.BigInteger, nullable=False, default=0),
    sa.Column("reasoning_tokens", sa.BigInteger, nullable=False, default=0, server_default="0"),
    sa.Column("cost_nano_usd", sa.BigInteger, nullable=False, default=0),
    sa.Column("unpriced_calls", sa.Integer, nullable=False, default=0),
    sa.Column("event_seq", sa.Integer, nullable=False, default=0),
    sa.Column("version", sa.Integer, nullable=False, default=1),
    sa.CheckConstraint(
        f"({_LIVE}) = (finished_at IS NULL) AND ({_LIVE}) = (stop_reason IS NULL)", name="terminal_is_finished"
    ),
    sa.CheckConstraint("status IN ('queued', 'running', 'succeeded', 'failed', 'canceled')", name="status"),
    sa.UniqueConstraint("idempotency_scope", "idempotency_key"),
    # The jobs with a next step: live jobs, and ended jobs whose answer is still evaluated
    partial_index("ix_jobs_open", "available_at", where=_OPEN),
    # Counts the steps of a large run that can be executed now, without reading the steps that wait for a batch
    partial_index("ix_jobs_run_open", "run_id", "available_at", where=f"run_id IS NOT NULL AND ({_OPEN})"),
    # A covering index: sums of usage and outcomes are read from it without the table
    partial_index(
        "ix_jobs_ended",
        *("finished_at", "status", "stop_reason", "cost_nano_usd", "unpriced_calls", "best_score"),
        where=ENDED,
    ),
    # The orders of the job list. These indexes have ended jobs only, so the steps of a job do not update them.
    # Among equal scores the newest job is first in both directions, so the order by lowest score needs its own index
    partial_index("ix_jobs_best", "best_score", "id", where=SCORED),
    partial_index("ix_jobs_worst", sa.text("(-best_score)"), "id", where=SCORED),
    partial_index("ix_jobs_cost", "cost_nano_usd", "id", where=ENDED),
    sa.Index("ix_jobs_created", "created_at", "id"),
    partial_index("ix_jobs_run", "run_id", "created_at", "id", where="run_id IS NOT NULL"),
    # Covering indexes: outcomes and cost of a run are read from them without its jobs
    partial_index("ix_jobs_continued", "run_id", "finished_at", where="continuations > 0"),
    partial_index(
        "ix_jobs_run_usage",
        *("run_id", "stop_reason", "calls", *TOKENS, "cost_nano_usd", "unpriced_calls"),
        where="run_id IS NOT NULL",
    ),
    sa.Index("ix_jobs_status_created", "status", "created_at", "id"),
    sa.Index("ix_jobs_stop_reason_created", "stop_reason", "created_at", "id"),
    sa.Index("ix_jobs_outcome_created", sa.text(f"({OUTCOME_GROUP})"), "created_at", "id"),
    sa.Index("ix_jobs_model_created", "model", "created_at", "id"),
    # Few jobs have these kinds: without the index, a list of them scans all jobs
    partial_index("ix_jobs_other_kinds", "kind", "created_at", "id", where=OTHER_KINDS),
)
sa.Index(
    "ix_jobs_metadata", jobs.c.metadata, postgresql_using="gin", postgresql_ops={"metadata": "jsonb_path_ops"}
).ddl_if(dialect="postgresql")

for _dialect, _duration in DURATIONS.items():
    partial_index("ix_jobs_duration", sa.text(f"({_duration})"), jobs.c.id, where=ENDED).ddl_if(dialect=_dialect)

# The pairs of `jobs.metadata`, in the order of job lists. Triggers on `jobs` insert and delete these rows, so that they
# are also right for jobs that a process of the previous release stores. A migration that makes `jobs` again on SQLite
# must make the triggers again
job_labels = sa.Table(
    "job_labels",
    metadata,
    sa.Column("key", CleanText, primary_key=True),
    sa.Column("value", CleanText, primary_key=True),
    sa.Column("created_at", UtcTime, primary_key=True),
    sa.Column("job_id", sa.String(40), primary_key=True, key="id"),
    sqlite_with_rowid=False,
)

attachments = sa.Table(
    "attachments",
    metadata,
    sa.Column("job_id", sa.String(40), sa.ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    # The SHA-256 of the data. The request and the calls of the job name the attachment by this digest
    sa.Column("digest", sa.String(64), primary_key=True),
    sa.Column("media_type", sa.String(40), nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
)

iterations = sa.Table(
    "iterations",
    metadata,
    sa.Column("id", sa.String(40), primary_key=True),
    sa.Column("job_id", sa.String(40), sa.ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    sa.Column("number", sa.Integer, nullable=False),
    sa.Column("candidate", sa.Integer, nullable=False),
    sa.Column("generator_model", sa.String(220)),
    sa.Column("answer", CleanText, nullable=False),
    sa.Column("feedback_given", CleanText),
    # Citations and support, computed without a model; NULL for a job without sources
    sa.Column("grounding", Json),
    # The version of the generator template, as NAME@VERSION; NULL if the request named none
    sa.Column("generator_template", sa.String(60)),
    sa.Column("created_at", UtcTime, nullable=False, default=DbNow()),
    sa.UniqueConstraint("job_id", "number", "candidate"),
    sa.Index(
        "ix_iterations_template",
        "generator_template",
        "created_at",
        sqlite_where=sa.text("generator_template IS NOT NULL"),
        postgresql_where=sa.text("generator_template IS NOT NULL"),
    ),
)

evaluations = sa.Table(
    "evaluations",
    metadata,
    sa.Column("id", sa.String(40), primary_key=True),
    sa.Column("job_id", sa.String(40), sa.ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    sa.Column("iteration_id", sa.String(40), sa.ForeignKey("iterations.id", ondelete="CASCADE"), nullable=False),
    sa.Column("role", sa.String(10), nullable=False, default="loop"),
    sa.Column("status", sa.String(10), nullable=False),
    sa.Column("score", sa.Float),
    sa.Column("passed", sa.Boolean, nullable=False),
    sa.Column("meets_criteria", sa.Boolean),
    sa.Column("reasoning", CleanText, nullable=False, default=""),
    sa.Column("suggestions", Json, nullable=False),
    # Fields of a profile or a rubric other than the score
    sa.Column("confidence", sa.Float),
    sa.Column("issues", Json),
    sa.Column("improvement_hint", CleanText),
    sa.Column("criteria", Json),
    sa.Column("checks", Json),
    sa.Column("requirements_met", sa.Boolean),
    # Support of each claim, determined by a model; NULL if no model was called
    sa.Column("grounding", Json),
    # One entry per evaluator if several evaluators were called, and the spread of their scores
    sa.Column("judges", Json),
    sa.Column("disagreement", sa.Float),
    sa.Column("evaluator_model", sa.String(220)),
    sa.Column("profile", sa.String(80), nullable=False),
    sa.Column("profile_version", sa.String(16)),
    sa.Column("reused_from", sa.String(40)),
    sa.Column("error", Json),
    sa.Column("created_at", UtcTime, nullable=False, default=DbNow()),
    sa.CheckConstraint("(status = 'ok') = (score IS NOT NULL)", name="scored_when_ok"),
    sa.Index("ix_evaluations_job", "job_id"),
    # The deletion of iterations cascades to this table, and cannot use the partial unique index below
    sa.Index("ix_evaluations_iteration", "iteration_id"),
    partial_index("uq_evaluations_loop", "iteration_id", where="role = 'loop'", unique=True),
)

ratings = sa.Table(
    "ratings",
    metadata,
    sa.Column("id", sa.String(40), primary_key=True),
    sa.Column("job_id", sa.String(40), sa.ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    sa.Column("evaluation_id", sa.String(40), sa.ForeignKey("evaluations.id", ondelete="CASCADE"), nullable=False),
    # NULL: a rating of the whole evaluation
    sa.Column("criterion_id", sa.String(64)),
    sa.Column("verdict", sa.String(10), nullable=False),
    sa.Column("score", sa.Float),
    sa.Column("note", CleanText, nullable=False, default=""),
    sa.Column("rater", CleanText, nullable=False),
    sa.Column("created_at", UtcTime, nullable=False, default=DbNow()),
    sa.CheckConstraint("verdict IN ('agree', 'disagree', 'unsure')", name="verdict"),
    sa.Index("ix_ratings_job", "job_id"),
    sa.Index("ix_ratings_evaluation", "evaluation_id"),
)

observations = sa.Table(
    "observations",
    metadata,
    sa.Column("id", sa.String(40), primary_key=True),
    sa.Column("job_id", sa.String(40), sa.ForeignKey("jobs.id", ondelete="CASCADE"), nullable=False),
    # The answer that was accepted
    sa.Column("iteration", sa.Integer, nullable=False),
    sa.Column("candidate", sa.Integer, nullable=False),
    sa.Column("query", CleanText, nullable=False),
    sa.Column("sources", Json, nullable=False),
    sa.Column("score", sa.Float),
    sa.Column("grounding_score", sa.Float),
    sa.Column("generator_model", sa.String(220)),
    sa.Column("evaluator_model", sa.String(220)),
    sa.Column("profile", sa.String(80), nullable=False),
    sa.Column("created_at", UtcTime, nullable=False, default=DbNow()),
    sa.UniqueConstraint("job_id", "iteration", "candidate"),
    sa.Index("ix_observations_created", "created_at", "id"),
)

calls = sa.Table(
    "calls",
    metadata,
    sa.Column("id", sa.String(40), primary_key=True),
    # NULL: a call without a job, such as drafting a rubric
    sa.Column("job_id", sa.String(40), sa.ForeignKey("jobs.id", ondelete="CASCADE")),
    sa.Column("type", sa.String(20), nullable=False),
    sa.Column("step", sa.String(10), nullable=False),
    sa.Column("iteration", sa.Integer, nullable=False),
    sa.Column("candidate", sa.Integer, nullable=False),
    sa.Column("seq", sa.Integer, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("lease_token", sa.BigInteger, nullable=False),
    sa.Column("provider", sa.String(20), nullable=False),
    sa.Column("model", sa.String(220), nullable=False),
    sa.Column("status", sa.String(10), nullable=False),
    sa.Column("cached", sa.Boolean, nullable=False, default=False),
    # Only in jobs with `cache: use`. An identical call finds the reply of this call by the key
    sa.Column("cache_key", sa.String(64)),
    sa.Column("request", Json, nullable=False),
    sa.Column("response", Json),
    sa.Column("reply_text", CleanText),
    sa.Column("http_status", sa.Integer),
    sa.Column("response_headers", Json),
    sa.Column("finish_reason", sa.String(40)),
    sa.Column("input_tokens", sa.BigInteger),
    sa.Column("cached_input_tokens", sa.BigInteger),
    sa.Column("cache_write_tokens", sa.BigInteger),
    sa.Column("output_tokens", sa.BigInteger),
    sa.Column("reasoning_tokens", sa.BigInteger),
    sa.Column("cost_nano_usd", sa.BigInteger),
    sa.Column("latency_ms", sa.Integer),
    sa.Column("error", Json),
    # The batch with which the call is delivered; NULL for a live call
    sa.Column("batch_id", sa.String(40)),
    sa.Column("started_at", UtcTime, nullable=False, default=DbNow()),
    sa.Column("finished_at", UtcTime),
    sa.CheckConstraint("status IN ('started', 'ok', 'error', 'unknown', 'dup')", name="status"),
    sa.Index("ix_calls_job", "job_id", "started_at", "id"),
    partial_index("ix_calls_finished", "finished_at", where="finished_at IS NOT NULL"),
    partial_index("ix_calls_cache_key", "cache_key", where="cache_key IS NOT NULL AND status = 'ok'"),
    partial_index("ix_calls_started", "started_at", where="status = 'started'"),
    partial_index("ix_calls_batch", "batch_id", "id", where="batch_id IS NOT NULL"),
    partial_index("uq_calls_ok", "job_id", "iteration", "candidate", "step", "seq", where="status = 'ok'", unique=True),
)

events = sa.Table(
    "events",
    metadata,
    sa.Column("job_id", sa.String(40), sa.ForeignKey("jobs.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("type", sa.String(40), nullable=False),
    sa.Column("data", Json, nullable=False),
    sa.Column("at", UtcTime, nullable=False, default=DbNow()),
)

webhook_deliveries = sa.Table(
    "webhook_deliveries",
    metadata,
    sa.Column("id", sa.String(40), primary_key=True),
    # Exactly one of `job_id` and `run_id` is set
    sa.Column("job_id", sa.String(40), sa.ForeignKey("jobs.id", ondelete="CASCADE")),
    sa.Column("run_id", sa.String(40), sa.ForeignKey("runs.id", ondelete="CASCADE")),
    # The number of the job's event, or the version of the run when the delivery was stored
    sa.Column("seq", sa.Integer, nullable=False),
    # Only for a run: the body of the event is stored here, because runs have no rows in `events`
    sa.Column("event", Json),
    sa.Column("type", sa.String(40), nullable=False),
    sa.Column("url", CleanText, nullable=False),
    sa.Column("receiver", CleanText, nullable=False),
    sa.Column("status", sa.String(10), nullable=False, default="pending"),
    sa.Column("attempts", sa.Integer, nullable=False, default=0),
    # Attempts before the last redelivery. The backoff does not count them
    sa.Column("attempts_before", sa.Integer, nullable=False, default=0),
    sa.Column("next_at", UtcTime, default=DbNow()),
    sa.Column("lease_expires_at", UtcTime),
    sa.Column("last_status", sa.Integer),
    sa.Column("last_error", CleanText),
    sa.Column("created_at", UtcTime, nullable=False, default=DbNow()),
    sa.Column("delivered_at", UtcTime),
    sa.CheckConstraint("status IN ('pending', 'delivered', 'failed')", name="status"),
    sa.CheckConstraint("(status = 'pending') = (next_at IS NOT NULL)", name="next_while_pending"),
    sa.UniqueConstraint("job_id", "seq"),
    sa.Index("uq_webhook_deliveries_run", "run_id", "seq", unique=True),
    partial_index("ix_webhook_deliveries_due", "next_at", where="status = 'pending'"),
    partial_index("ix_webhook_deliveries_failed", "created_at", where="status = 'failed'"),
)
