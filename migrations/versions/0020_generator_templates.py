"""The versions of generator templates, and the version that generated an answer."""

import sqlalchemy as sa
from alembic import op

from migrations.online import create_index, drop_index
from redraft.storage.engine.columns import Json, UtcTime

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "generator_templates",
        sa.Column("name", sa.String(length=40), nullable=False),
        sa.Column("version", sa.String(length=16), nullable=False),
        sa.Column("texts", Json(), nullable=False),
        sa.Column("is_file", sa.Boolean(), nullable=False),
        sa.Column("saved_at", UtcTime(), nullable=False),
        sa.PrimaryKeyConstraint("name", "version", name=op.f("pk_generator_templates")),
    )
    op.add_column("iterations", sa.Column("generator_template", sa.String(length=60), nullable=True))
    create_index(
        "ix_iterations_template",
        "iterations",
        ["generator_template", "created_at"],
        where="generator_template IS NOT NULL",
    )


def downgrade() -> None:
    drop_index("ix_iterations_template", "iterations")
    op.drop_column("iterations", "generator_template")
    op.drop_table("generator_templates")
