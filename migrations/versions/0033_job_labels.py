"""A table of the labels of jobs in the order of job lists, instead of indexes with the labels.

Triggers on `jobs` keep the table, so that it also has the jobs of processes of the previous release. On PostgreSQL, the
labels of stored jobs are copied in small transactions. If the upgrade is interrupted, the migration begins again.
"""

import time
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.exc import OperationalError

from migrations.online import create_index, drop_index
from redraft.storage.engine.columns import CleanText, UtcTime

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None

_LOCK_NOT_AVAILABLE = "55P03"
_TRIES, _PAUSE_S = 30, 0.1
_PLACE = ["created_at", "id"]
_LABELLED = "metadata <> '{}'"
_SIZE = "octet_length(CAST(metadata AS TEXT))"
_SQLITE = (
    """
    CREATE TRIGGER job_labels_insert AFTER INSERT ON jobs WHEN NEW.metadata <> '{}' BEGIN
        INSERT INTO job_labels (key, value, created_at, job_id)
        SELECT label.key, label.value, NEW.created_at, NEW.id FROM json_each(NEW.metadata) AS label;
    END
    """,
    """
    CREATE TRIGGER job_labels_delete AFTER DELETE ON jobs WHEN OLD.metadata <> '{}' BEGIN
        DELETE FROM job_labels WHERE created_at = OLD.created_at AND job_id = OLD.id
        AND (key, value) IN (SELECT label.key, label.value FROM json_each(OLD.metadata) AS label);
    END
    """,
    """
    INSERT INTO job_labels (key, value, created_at, job_id)
    SELECT label.key, label.value, jobs.created_at, jobs.id FROM jobs, json_each(jobs.metadata) AS label
    """,
)
_POSTGRESQL = (
    """
    CREATE OR REPLACE FUNCTION insert_job_labels() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        INSERT INTO job_labels (key, value, created_at, job_id)
        SELECT label.key, label.value, NEW.created_at, NEW.id FROM jsonb_each_text(NEW.metadata) AS label;
        RETURN NULL;
    END $$
    """,
    """
    CREATE OR REPLACE FUNCTION delete_job_labels() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        DELETE FROM job_labels USING jsonb_each_text(OLD.metadata) AS label
        WHERE job_labels.key = label.key AND job_labels.value = label.value
        AND job_labels.created_at = OLD.created_at AND job_labels.job_id = OLD.id;
        RETURN NULL;
    END $$
    """,
    """
    CREATE OR REPLACE TRIGGER job_labels_insert AFTER INSERT ON jobs
    FOR EACH ROW WHEN (NEW.metadata <> '{}') EXECUTE FUNCTION insert_job_labels()
    """,
    """
    CREATE OR REPLACE TRIGGER job_labels_delete AFTER DELETE ON jobs
    FOR EACH ROW WHEN (OLD.metadata <> '{}') EXECUTE FUNCTION delete_job_labels()
    """,
)
# The lock keeps a job from being deleted before its labels are committed, so that the trigger deletes them, too
_COPY = sa.text("""
    WITH part AS MATERIALIZED (
        SELECT id, created_at, metadata FROM jobs WHERE (created_at, id) > (:at, :id)
        ORDER BY created_at, id LIMIT 2000 FOR KEY SHARE NOWAIT
    ), copied AS (
        INSERT INTO job_labels (key, value, created_at, job_id)
        SELECT label.key, label.value, part.created_at, part.id FROM part, jsonb_each_text(part.metadata) AS label
        ON CONFLICT DO NOTHING
    )
    SELECT created_at, id FROM part ORDER BY created_at DESC, id DESC LIMIT 1
""")


def upgrade() -> None:
    op.create_table(
        "job_labels",
        sa.Column("key", CleanText(), nullable=False),
        sa.Column("value", CleanText(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("job_id", sa.String(length=40), nullable=False),
        sa.PrimaryKeyConstraint("key", "value", "created_at", "job_id", name=op.f("pk_job_labels")),
        sqlite_with_rowid=False,
        if_not_exists=True,
    )
    if op.get_bind().dialect.name == "sqlite":
        for statement in _SQLITE:
            op.execute(statement)
    else:
        for statement in _POSTGRESQL:
            op.execute(statement)
        _copy_labels()
        drop_index("ix_jobs_long_labels", "jobs")
    drop_index("ix_jobs_labels", "jobs")


def _copy_labels() -> None:
    with op.get_context().autocommit_block():
        last = (datetime.min.replace(tzinfo=UTC), "")
        while last:
            last = _copy_part({"at": last[0], "id": last[1]})
        op.execute("ANALYZE job_labels")


def _copy_part(last: dict[str, Any]) -> Any:
    """Copy the labels of the jobs after the last one. Return the place of the last job copied, or None at the end."""
    # A process that deletes several jobs would be in a deadlock with a copy that keeps its locks while it waits
    tries = 0
    while True:
        try:
            return op.get_bind().execute(_COPY, last).one_or_none()
        except OperationalError as error:
            tries += 1
            if tries == _TRIES or getattr(error.orig, "sqlstate", None) != _LOCK_NOT_AVAILABLE:
                raise
        time.sleep(_PAUSE_S)


def downgrade() -> None:
    op.execute("DROP TRIGGER job_labels_insert" + _of_jobs())
    op.execute("DROP TRIGGER job_labels_delete" + _of_jobs())
    op.drop_table("job_labels")
    if op.get_bind().dialect.name == "sqlite":
        create_index("ix_jobs_labels", "jobs", [*_PLACE, "metadata"], where=_LABELLED)
        return
    op.execute("DROP FUNCTION insert_job_labels(), delete_job_labels()")
    create_index("ix_jobs_labels", "jobs", _PLACE, include=["metadata"], where=f"{_LABELLED} AND {_SIZE} <= 1000")
    create_index("ix_jobs_long_labels", "jobs", _PLACE, where=f"{_SIZE} > 1000")


def _of_jobs() -> str:
    return "" if op.get_bind().dialect.name == "sqlite" else " ON jobs"
