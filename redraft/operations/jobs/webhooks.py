"""Checks the webhook of a request, lists deliveries, and sends a delivery again."""

from dataclasses import dataclass

from redraft.domain.admin.urls import read_url
from redraft.domain.bulk.run_requests import RunWebhook
from redraft.domain.jobs.ids import PREFIXES
from redraft.domain.jobs.requests import Webhook
from redraft.errors import Invalid, existing
from redraft.operations.cursors import next_cursor, read_cursor
from redraft.operations.jobs.queries import state_of
from redraft.operations.jobs.resources import WebhookDelivery, delivery_resource
from redraft.operations.services import Services
from redraft.setting_values import webhook_keys
from redraft.settings import Settings
from redraft.storage.bulk import runs
from redraft.storage.jobs import webhooks

_PAGE = 50


class DeliveryLine(WebhookDelivery):
    """A delivery in the list of all jobs and runs."""

    receiver: str


def keys_of(settings: Settings) -> list[bytes]:
    """The keys that sign webhooks. The list is empty if no secret is set."""
    secret = settings.webhook_secret
    return webhook_keys(secret.get_secret_value()) if secret else []


def check_webhook(services: Services, webhook: Webhook | RunWebhook | None) -> None:
    """Refuse a webhook that cannot be sent. The host name is resolved later, when an event is sent.

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
        words = (
            f"{against} Webhooks are sent to public addresses, and to the addresses in REDRAFT_WEBHOOK_ALLOW_PRIVATE."
        )
        raise Invalid.at("/webhook/url", words, "address_not_allowed")


def list_deliveries(services: Services, owner_id: str) -> list[WebhookDelivery]:
    """The deliveries of a job or a run, in the order of events. Raises NotFound if there is no such job or run."""
    with services.database.read() as connection:
        if owner_id.startswith(PREFIXES["run"]):
            existing(runs.get(connection, owner_id), "run", owner_id)
        else:
            state_of(connection, owner_id)
        found = webhooks.list_of(connection, owner_id)
    return [delivery_resource(each) for each in found]


def latest_deliveries(
    services: Services, *, only_failed: bool = False, cursor: str | None = None
) -> tuple[list[DeliveryLine], str | None]:
    """The newest deliveries of all jobs and runs, and the cursor of the next page. Raises Invalid for a bad cursor."""
    after = read_cursor(cursor)
    with services.database.read() as connection:
        found = webhooks.latest(connection, only_failed=only_failed, after=after, limit=_PAGE)
    lines = [DeliveryLine(**delivery_resource(each).model_dump(), receiver=each.receiver) for each in found[:_PAGE]]
    return lines, next_cursor(found, _PAGE)


@dataclass(frozen=True, slots=True)
class FailedDeliveries:
    """The numbers of deliveries that failed permanently, and of deliveries that will be tried again after a failure."""

    failed: int
    failing: int

    @property
    def total(self) -> int:
        return self.failed + self.failing


def count_failed(services: Services) -> FailedDeliveries:
    with services.database.read() as connection:
        return FailedDeliveries(*webhooks.count_failed(connection))


def redeliver_all(services: Services) -> int:
    """Send all failed and failing deliveries again, each with a new retry schedule. Return their number."""
    with services.database.write() as connection:
        return webhooks.redeliver_all(connection)


def redeliver(services: Services, owner_id: str, delivery_id: str) -> WebhookDelivery:
    """Send a delivery of any status again, and restart its retry schedule.

    Raises NotFound if there is no such delivery of this job or run.
    """
    with services.database.write() as connection:
        found = webhooks.redeliver(connection, owner_id, delivery_id)
    return delivery_resource(existing(found, "webhook delivery", delivery_id))
