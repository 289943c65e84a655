"""Webhooks for users: check a webhook of a request, list deliveries, send one again."""

from redraft.domain.admin.urls import read_url
from redraft.domain.bulk.run_requests import RunWebhook
from redraft.domain.jobs.ids import PREFIXES
from redraft.domain.jobs.requests import Webhook
from redraft.errors import Invalid, NotFound
from redraft.operations.jobs.queries import version_of
from redraft.operations.jobs.resources import WebhookDelivery, delivery_resource
from redraft.operations.paging import read_cursor, write_cursor
from redraft.operations.services import Services
from redraft.setting_values import webhook_keys
from redraft.settings import Settings
from redraft.storage.bulk import runs
from redraft.storage.jobs import webhooks


class DeliveryLine(WebhookDelivery):
    """A delivery in the list of all jobs and runs."""

    receiver: str


def keys_of(settings: Settings) -> list[bytes]:
    """The keys that sign webhooks; empty if no secret is set."""
    secret = settings.webhook_secret
    return webhook_keys(secret.get_secret_value()) if secret else []


def check_webhook(services: Services, webhook: Webhook | RunWebhook | None) -> None:
    """Refuse a webhook that cannot be sent, as far as that is known before its name is resolved.

    Raises Invalid if no secret is set (`webhooks_not_configured`), or the host is an address that is not public
    (`address_not_allowed`).
    """
    if webhook is None:
        return
    if not keys_of(services.settings):
        words = "No webhook can be signed here: REDRAFT_WEBHOOK_SECRET is not set."
        raise Invalid.at("/webhook", words, "webhooks_not_configured")
    against = services.sender.why_not_host(read_url(webhook.url).host)
    if against:
        words = f"{against} Webhooks go to public addresses, and to those in REDRAFT_WEBHOOK_ALLOW_PRIVATE."
        raise Invalid.at("/webhook/url", words, "address_not_allowed")


def list_deliveries(services: Services, owner_id: str) -> list[WebhookDelivery]:
    """What was or will be sent of the events of a job or a run, in their order.

    Raises NotFound if there is no such job or run.
    """
    with services.database.read() as connection:
        if not owner_id.startswith(PREFIXES["run"]):
            version_of(connection, owner_id)
        elif runs.get(connection, owner_id) is None:
            raise NotFound("run", owner_id)
        found = webhooks.list_of(connection, owner_id)
    return [delivery_resource(each) for each in found]


def latest_deliveries(
    services: Services, *, only_failed: bool = False, cursor: str | None = None, limit: int = 50
) -> tuple[list[DeliveryLine], str | None]:
    """The newest deliveries over all jobs and runs, and the cursor of the next page if there is one.

    Raises Invalid if the cursor is not one of ours.
    """
    after = read_cursor(cursor)
    with services.database.read() as connection:
        found = webhooks.latest(connection, only_failed=only_failed, after=after, limit=limit)
    page = found[:limit]
    lines = [DeliveryLine(**delivery_resource(each).model_dump(), receiver=each.receiver) for each in page]
    return lines, write_cursor(page, more=len(found) > len(page))


def redeliver(services: Services, owner_id: str, delivery_id: str) -> WebhookDelivery:
    """Send a delivery now, whatever became of it before, and again by the whole schedule if need be.

    Raises NotFound if there is no such delivery of this job or run.
    """
    with services.database.write() as connection:
        found = webhooks.send_again(connection, owner_id, delivery_id)
    if found is None:
        raise NotFound("webhook delivery", delivery_id)
    return delivery_resource(found)
