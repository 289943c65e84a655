"""Attachments: the images and PDFs of a job."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "attachments",
        sa.Column("job_id", sa.String(length=40), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("media_type", sa.String(length=40), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name="fk_attachments_job_id", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", "digest", name="pk_attachments"),
    )


def downgrade() -> None:
    op.drop_table("attachments")
