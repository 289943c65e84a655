"""The texts of each version of a profile that was used in an evaluation."""

import sqlalchemy as sa
from alembic import op

from redraft.storage.engine.columns import Json, UtcTime

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "profile_versions",
        sa.Column("name", sa.String(length=40), nullable=False),
        sa.Column("version", sa.String(length=16), nullable=False),
        sa.Column("texts", Json(), nullable=False),
        sa.Column("first_used_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("name", "version", name=op.f("pk_profile_versions")),
    )


def downgrade() -> None:
    op.drop_table("profile_versions")
