"""Sign-ins of browsers with an API key."""

import sqlalchemy as sa
from alembic import op

from redraft.storage.engine.columns import UtcTime

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "sign_ins",
        sa.Column("token_hash", sa.String(length=64), nullable=False),
        sa.Column("key_id", sa.String(length=40), nullable=False),
        sa.Column("created_at", UtcTime(), nullable=False),
        sa.Column("expires_at", UtcTime(), nullable=False),
        sa.ForeignKeyConstraint(["key_id"], ["api_keys.id"], name=op.f("fk_sign_ins_key_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("token_hash", name=op.f("pk_sign_ins")),
    )
    op.create_index("ix_sign_ins_key", "sign_ins", ["key_id"])
    op.create_index("ix_sign_ins_expires", "sign_ins", ["expires_at"])


def downgrade() -> None:
    op.drop_table("sign_ins")
