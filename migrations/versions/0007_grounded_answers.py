"""Observations of the sources that accepted answers cite, and verdicts of models on the claims of an answer."""

import sqlalchemy as sa
from alembic import op

from redraft.storage.engine.columns import CleanText, Json, UtcTime

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("evaluations", sa.Column("grounding", Json(), nullable=True))
    op.create_table(
        "observations",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("job_id", sa.String(length=40), nullable=False),
        sa.Column("iteration", sa.Integer(), nullable=False),
        sa.Column("candidate", sa.Integer(), nullable=False),
        sa.Column("query", CleanText(), nullable=False),
        sa.Column("sources", Json(), nullable=False),
        sa.Column("score", sa.Float(), nullable=True),
        sa.Column("grounding_score", sa.Float(), nullable=True),
        sa.Column("generator_model", sa.String(length=220), nullable=True),
        sa.Column("evaluator_model", sa.String(length=220), nullable=True),
        sa.Column("profile", sa.String(length=80), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_observations_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_observations")),
        sa.UniqueConstraint(
            "job_id", "iteration", "candidate", name=op.f("uq_observations_job_id_iteration_candidate")
        ),
    )
    op.create_index("ix_observations_created", "observations", ["created_at", "id"])


def downgrade() -> None:
    op.drop_table("observations")
    op.drop_column("evaluations", "grounding")
