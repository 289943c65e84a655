"""All that a migration may do to tables in use: add columns, tables and indexes."""

import sqlalchemy as sa
from alembic import op

from migrations.online import create_index
from redraft.storage.engine import schema

revision = "9999"
down_revision = schema.head()
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("next_hint", sa.Text(), nullable=True))
    op.add_column("jobs", sa.Column("next_rank", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("calls", sa.Column("next_note", sa.Text(), nullable=True))
    op.create_table("next_notes", sa.Column("id", sa.String(40), primary_key=True))
    create_index("ix_iterations_model", "iterations", ["generator_model"])
