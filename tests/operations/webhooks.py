"""Jobs with a webhook, its entries, and one round of deliveries."""

from collections.abc import Callable
from typing import Any

from redraft.operations.admin.deliveries import Deliverer
from redraft.operations.jobs import webhooks
from redraft.operations.jobs.resources import WebhookDelivery
from redraft.operations.services import Services
from tests.operations.driving import Driver
from tests.support.receiver import Receiver

MakeDriver = Callable[..., Driver]


def hook(receiver: Receiver, *events: str) -> dict[str, Any]:
    return {"url": receiver.url, "events": list(events or ("done",))}


def send(services: Services) -> None:
    """Send all due deliveries, as one round of a worker's deliverer does."""
    deliverer = Deliverer(services)
    deliverer.send_due()
    assert deliverer.finish(30)


def deliveries(driver: Driver, job_id: str) -> list[WebhookDelivery]:
    return webhooks.list_deliveries(driver.services, job_id)


def only(driver: Driver, job_id: str) -> WebhookDelivery:
    [delivery] = deliveries(driver, job_id)
    return delivery
