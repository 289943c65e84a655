"""A partial index for lists of jobs of rare kinds."""

from migrations.online import create_index, drop_index

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_index("ix_jobs_other_kinds", "jobs", ["kind", "created_at", "id"], where="kind <> 'generate_answer'")


def downgrade() -> None:
    drop_index("ix_jobs_other_kinds", "jobs")
