"""The tunings of evaluators: few-shot examples and thresholds from people's ratings."""

import sqlalchemy as sa
from alembic import op

from redraft.storage.engine.columns import CleanText, Json, UtcTime

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "evaluator_tunings",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("evaluator_model", CleanText(), nullable=False),
        sa.Column("profile", sa.String(length=40), nullable=False),
        sa.Column("examples", Json(), nullable=False),
        sa.Column("score_threshold", sa.Float(), nullable=True),
        sa.Column("validates", sa.String(length=40), nullable=True),
        sa.Column("run_id", sa.String(length=40), nullable=True),
        sa.Column("agreement", Json(), nullable=True),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("adopted_at", UtcTime(), nullable=True),
        sa.Column("reverted_at", UtcTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_evaluator_tunings")),
    )
    op.create_index(
        "ix_evaluator_tunings_adopted", "evaluator_tunings", ["evaluator_model", "profile", "adopted_at"], unique=False
    )


def downgrade() -> None:
    op.drop_index("ix_evaluator_tunings_adopted", table_name="evaluator_tunings")
    op.drop_table("evaluator_tunings")
