"""Runs whose calls are delivered by batches of the providers."""

import sqlalchemy as sa
from alembic import op

from migrations.online import create_index, drop_index
from redraft.storage.engine.columns import CleanText, Json, UtcTime

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("delivery", sa.String(5), nullable=False, server_default="live"))
    op.add_column("runs", sa.Column("delivery_reason", CleanText()))
    op.add_column("jobs", sa.Column("delivery", sa.String(5)))
    op.add_column("calls", sa.Column("batch_id", sa.String(40)))
    op.create_table(
        "batches",
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("run_id", sa.String(40), nullable=False),
        sa.Column("model", sa.String(220), nullable=False),
        sa.Column("status", sa.String(10), nullable=False),
        sa.Column("round", sa.Integer()),
        sa.Column("provider_batch_id", CleanText()),
        sa.Column("provider_status", CleanText()),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("done", sa.Integer(), nullable=False),
        sa.Column("succeeded", sa.Integer(), nullable=False),
        sa.Column("failed", sa.Integer(), nullable=False),
        sa.Column("reserved_nano_usd", sa.BigInteger(), nullable=False),
        sa.Column("saved_nano_usd", sa.BigInteger(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("ready_at", UtcTime()),
        sa.Column("submitted_at", UtcTime()),
        sa.Column("expires_at", UtcTime()),
        sa.Column("ended_at", UtcTime()),
        sa.Column("next_at", UtcTime()),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("lease_owner", sa.String(40)),
        sa.Column("is_canceled", sa.Boolean(), nullable=False),
        sa.Column("error", CleanText()),
        sa.Column("odd_lines", Json()),
        sa.Column("odd_line_count", sa.Integer(), nullable=False),
        sa.CheckConstraint("status IN ('collecting', 'ready', 'sent', 'ended')", name=op.f("ck_batches_status")),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_batches_run_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_batches")),
    )
    op.create_index("ix_batches_run", "batches", ["run_id", "round"])
    for name, columns, where, unique in (
        ("uq_batches_collecting", ["run_id", "model"], "status = 'collecting'", True),
        ("ix_batches_due", ["next_at"], "status IN ('ready', 'sent')", False),
    ):
        condition = sa.text(where)
        op.create_index(name, "batches", columns, unique=unique, sqlite_where=condition, postgresql_where=condition)
    create_index("ix_calls_batch", "calls", ["batch_id", "id"], where="batch_id IS NOT NULL")


def downgrade() -> None:
    drop_index("ix_calls_batch", "calls")
    op.drop_table("batches")
    op.drop_column("calls", "batch_id")
    op.drop_column("jobs", "delivery")
    op.drop_column("runs", "delivery_reason")
    op.drop_column("runs", "delivery")
