"""Schedules, which start runs at regular times, and the times at which they did."""

import sqlalchemy as sa
from alembic import op

from redraft.storage.engine.columns import CleanText, Json, UtcTime

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "run_schedules",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("name", CleanText(), nullable=False),
        sa.Column("cron", sa.String(length=200), nullable=False),
        sa.Column("dataset_id", sa.String(length=40), nullable=False),
        sa.Column("request", Json(), nullable=False),
        sa.Column("gates", Json(), nullable=True),
        sa.Column("next_at", UtcTime(), nullable=True),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.ForeignKeyConstraint(["dataset_id"], ["datasets.id"], name=op.f("fk_run_schedules_dataset_id_datasets")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_run_schedules")),
    )
    op.create_index("ix_run_schedules_dataset", "run_schedules", ["dataset_id"])
    op.create_index("ix_run_schedules_next", "run_schedules", ["next_at"])
    op.create_table(
        "schedule_ticks",
        sa.Column("schedule_id", sa.String(length=40), nullable=False),
        sa.Column("tick", UtcTime(), nullable=False),
        sa.Column("run_id", sa.String(length=40), nullable=True),
        sa.Column("error", Json(), nullable=True),
        sa.Column("gates", Json(), nullable=True),
        sa.ForeignKeyConstraint(
            ["schedule_id"],
            ["run_schedules.id"],
            name=op.f("fk_schedule_ticks_schedule_id_run_schedules"),
            ondelete="CASCADE",
        ),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.id"], name=op.f("fk_schedule_ticks_run_id_runs"), ondelete="SET NULL"
        ),
        sa.PrimaryKeyConstraint("schedule_id", "tick", name=op.f("pk_schedule_ticks")),
    )
    op.create_index("ix_schedule_ticks_run", "schedule_ticks", ["run_id"])


def downgrade() -> None:
    op.drop_table("schedule_ticks")
    op.drop_table("run_schedules")
