"""A partial index of continued jobs, to count those that stay accepted."""

from migrations.online import create_index, drop_index

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    create_index("ix_jobs_continued", "jobs", ["run_id", "finished_at"], where="continuations > 0")


def downgrade() -> None:
    drop_index("ix_jobs_continued", "jobs")
