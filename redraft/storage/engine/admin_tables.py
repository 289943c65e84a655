"""The tables of the installation: API keys, sign-ins, versions of profiles and templates, workers."""

import sqlalchemy as sa

from redraft.storage.engine.columns import CleanText, DbNow, Json, UtcTime
from redraft.storage.engine.tables import metadata

api_keys = sa.Table(
    "api_keys",
    metadata,
    sa.Column("id", sa.String(40), primary_key=True),
    sa.Column("name", CleanText, nullable=False),
    sa.Column("hint", sa.String(16), nullable=False),
    sa.Column("token_hash", sa.String(64), nullable=False, unique=True),
    # The default is for the previous version of the program, which may insert keys after the migration
    sa.Column("scopes", sa.String(80), nullable=False, server_default=sa.text("'read write metrics admin'")),
    sa.Column("created_at", UtcTime, nullable=False, default=DbNow()),
    sa.Column("last_used_at", UtcTime),
    sa.Column("expires_at", UtcTime),
    sa.Column("revoked_at", UtcTime),
)

sign_ins = sa.Table(
    "sign_ins",
    metadata,
    sa.Column("token_hash", sa.String(64), primary_key=True),
    sa.Column("key_id", sa.String(40), sa.ForeignKey("api_keys.id", ondelete="CASCADE"), nullable=False),
    sa.Column("created_at", UtcTime, nullable=False, default=DbNow()),
    sa.Column("expires_at", UtcTime, nullable=False),
    sa.Index("ix_sign_ins_key", "key_id"),
    sa.Index("ix_sign_ins_expires", "expires_at"),
)

profile_versions = sa.Table(
    "profile_versions",
    metadata,
    sa.Column("name", sa.String(40), primary_key=True),
    sa.Column("version", sa.String(16), primary_key=True),
    # Contents of the profile's files by file name
    sa.Column("texts", Json, nullable=False),
    sa.Column("first_used_at", UtcTime, nullable=False, default=DbNow()),
)

generator_templates = sa.Table(
    "generator_templates",
    metadata,
    sa.Column("name", sa.String(40), primary_key=True),
    sa.Column("version", sa.String(16), primary_key=True),
    # Contents of the template's files by file name
    sa.Column("texts", Json, nullable=False),
    # Whether the version is from a file, and is stored because a job used it; otherwise an administrator has saved it
    sa.Column("is_file", sa.Boolean, nullable=False),
    sa.Column("saved_at", UtcTime, nullable=False, default=DbNow()),
    # When an administrator deleted the template. The version is kept, because past jobs may have used it
    sa.Column("deleted_at", UtcTime),
)

worker_heartbeats = sa.Table(
    "worker_heartbeats",
    metadata,
    sa.Column("id", sa.String(40), primary_key=True),
    sa.Column("host", sa.String(255), nullable=False),
    sa.Column("pid", sa.Integer, nullable=False),
    sa.Column("concurrency", sa.Integer, nullable=False),
    sa.Column("version", sa.String(40), nullable=False),
    sa.Column("started_at", UtcTime, nullable=False, default=DbNow()),
    sa.Column("seen_at", UtcTime, nullable=False, default=DbNow()),
)

evaluator_tunings = sa.Table(
    "evaluator_tunings",
    metadata,
    sa.Column("id", sa.String(40), primary_key=True),
    sa.Column("evaluator_model", CleanText, nullable=False),
    sa.Column("profile", sa.String(40), nullable=False),
    # The examples for the prompt. Empty for a tuning that is a threshold
    sa.Column("examples", Json, nullable=False),
    sa.Column("score_threshold", sa.Float),
    # Set only for the tuning of a fold, which nobody can adopt: the tuning that the fold helps to validate
    sa.Column("validates", sa.String(40)),
    # The run that evaluates the rated answers without and with the examples
    sa.Column("run_id", sa.String(40)),
    # The agreement with people, if no run is needed to compute it
    sa.Column("agreement", Json),
    sa.Column("created_at", UtcTime, nullable=False, default=DbNow()),
    sa.Column("adopted_at", UtcTime),
    sa.Column("reverted_at", UtcTime),
    sa.Index("ix_evaluator_tunings_adopted", "evaluator_model", "profile", "adopted_at"),
)
