"""The tables of the installation: API keys, sign-ins, versions of profiles, workers."""

from sqlalchemy import Column, ForeignKey, Index, Integer, String, Table, text

from redraft.storage.engine.columns import CleanText, DbNow, Json, UtcTime
from redraft.storage.engine.tables import metadata

api_keys = Table(
    "api_keys",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("name", CleanText, nullable=False),
    Column("hint", String(16), nullable=False),
    Column("token_hash", String(64), nullable=False, unique=True),
    # The default serves the previous version, which may create keys after the migration
    Column("scopes", String(80), nullable=False, server_default=text("'read write metrics admin'")),
    Column("created_at", UtcTime, nullable=False, default=DbNow()),
    Column("last_used_at", UtcTime),
    Column("expires_at", UtcTime),
    Column("revoked_at", UtcTime),
)

sign_ins = Table(
    "sign_ins",
    metadata,
    Column("token_hash", String(64), primary_key=True),
    Column("key_id", String(40), ForeignKey("api_keys.id", ondelete="CASCADE"), nullable=False),
    Column("created_at", UtcTime, nullable=False, default=DbNow()),
    Column("expires_at", UtcTime, nullable=False),
    Index("ix_sign_ins_key", "key_id"),
    Index("ix_sign_ins_expires", "expires_at"),
)

profile_versions = Table(
    "profile_versions",
    metadata,
    Column("name", String(40), primary_key=True),
    Column("version", String(16), primary_key=True),
    # Contents of its files, by name
    Column("texts", Json, nullable=False),
    Column("first_used_at", UtcTime, nullable=False, default=DbNow()),
)

worker_heartbeats = Table(
    "worker_heartbeats",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("host", String(255), nullable=False),
    Column("pid", Integer, nullable=False),
    Column("concurrency", Integer, nullable=False),
    Column("version", String(40), nullable=False),
    Column("started_at", UtcTime, nullable=False, default=DbNow()),
    Column("seen_at", UtcTime, nullable=False, default=DbNow()),
)
