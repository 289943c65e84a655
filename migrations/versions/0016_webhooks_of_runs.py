"""Webhooks of bulk runs: the webhook of a run, and deliveries of a run instead of a job."""

import sqlalchemy as sa
from alembic import op

from migrations.online import create_index, drop_index
from redraft.storage.engine.columns import Json

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("runs", sa.Column("webhook", Json(), nullable=True))
    with op.batch_alter_table("webhook_deliveries") as deliveries:
        deliveries.alter_column("job_id", existing_type=sa.String(length=40), nullable=True)
        deliveries.add_column(sa.Column("run_id", sa.String(length=40), nullable=True))
        deliveries.add_column(sa.Column("event", Json(), nullable=True))
        deliveries.create_foreign_key("fk_webhook_deliveries_run_id", "runs", ["run_id"], ["id"], ondelete="CASCADE")
    create_index("uq_webhook_deliveries_run", "webhook_deliveries", ["run_id", "seq"], unique=True)


def downgrade() -> None:
    drop_index("uq_webhook_deliveries_run", "webhook_deliveries")
    op.execute("DELETE FROM webhook_deliveries WHERE job_id IS NULL")
    with op.batch_alter_table("webhook_deliveries") as deliveries:
        deliveries.drop_constraint("fk_webhook_deliveries_run_id", type_="foreignkey")
        deliveries.drop_column("event")
        deliveries.drop_column("run_id")
        deliveries.alter_column("job_id", existing_type=sa.String(length=40), nullable=False)
    op.drop_column("runs", "webhook")
