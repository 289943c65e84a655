"""Scopes, expiry and last use of API keys. Existing keys get all scopes."""

import sqlalchemy as sa
from alembic import op

from redraft.storage.engine.columns import UtcTime

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_EVERYTHING = "read write metrics admin"


def upgrade() -> None:
    op.add_column(
        "api_keys",
        sa.Column("scopes", sa.String(length=80), nullable=False, server_default=sa.text(f"'{_EVERYTHING}'")),
    )
    op.add_column("api_keys", sa.Column("last_used_at", UtcTime(), nullable=True))
    op.add_column("api_keys", sa.Column("expires_at", UtcTime(), nullable=True))


def downgrade() -> None:
    # The previous version ignores scopes and expiry, so it would accept a limited key for everything, without an end
    limited = "revoked_at IS NULL AND (scopes <> :everything OR expires_at IS NOT NULL)"
    revoking = sa.text(f"UPDATE api_keys SET revoked_at = created_at WHERE {limited}")  # noqa: S608
    op.execute(revoking.bindparams(everything=_EVERYTHING))
    for column in ("expires_at", "last_used_at", "scopes"):
        op.drop_column("api_keys", column)
