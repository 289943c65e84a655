"""Rubrics, several evaluators, audits, rescoring and ratings; calls without a job."""

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.types import TypeEngine

from redraft.storage.engine.columns import CleanText, Json, UtcTime

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_NEW_COLUMNS: tuple[tuple[str, Callable[[], TypeEngine[Any]]], ...] = (
    ("confidence", sa.Float),
    ("issues", Json),
    ("improvement_hint", CleanText),
    ("criteria", Json),
    ("checks", Json),
    ("requirements_met", sa.Boolean),
    ("judges", Json),
    ("disagreement", sa.Float),
    ("profile_version", lambda: sa.String(length=16)),
)


def upgrade() -> None:
    for name, kind in _NEW_COLUMNS:
        op.add_column("evaluations", sa.Column(name, kind(), nullable=True))
    op.add_column("iterations", sa.Column("grounding", Json(), nullable=True))
    op.add_column("jobs", sa.Column("rescored_job_id", sa.String(length=40), nullable=True))
    op.create_table(
        "ratings",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("job_id", sa.String(length=40), nullable=False),
        sa.Column("evaluation_id", sa.String(length=40), nullable=False),
        sa.Column("criterion_id", sa.String(length=64), nullable=True),
        sa.Column("verdict", sa.String(length=10), nullable=False),
        sa.Column("score", sa.Float(), nullable=True),
        sa.Column("note", CleanText(), nullable=False),
        sa.Column("rater", CleanText(), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.CheckConstraint("verdict IN ('agree', 'disagree', 'unsure')", name=op.f("ck_ratings_verdict")),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_ratings_job_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["evaluation_id"], ["evaluations.id"], name=op.f("fk_ratings_evaluation_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ratings")),
    )
    op.create_index("ix_ratings_job", "ratings", ["job_id"])
    op.create_index("ix_ratings_evaluation", "ratings", ["evaluation_id"])
    with op.batch_alter_table("calls") as calls:
        calls.alter_column("job_id", existing_type=sa.String(length=40), nullable=True)


def downgrade() -> None:
    op.execute("DELETE FROM calls WHERE job_id IS NULL")
    with op.batch_alter_table("calls") as calls:
        calls.alter_column("job_id", existing_type=sa.String(length=40), nullable=False)
    op.drop_table("ratings")
    op.drop_column("jobs", "rescored_job_id")
    op.drop_column("iterations", "grounding")
    for name, _ in reversed(_NEW_COLUMNS):
        op.drop_column("evaluations", name)
