"""The deliveries of a job's or a run's webhook: listed, and one of them sent again."""

from collections.abc import Sequence

from redraft.cli import output, sessions
from redraft.operations.jobs import webhooks
from redraft.operations.jobs.resources import WebhookDelivery
from redraft.operations.services import Services

NONE = "-"
_SIGN_OF = {"delivered": "succeeded", "failed": "failed", "pending": "queued"}


def _show(deliveries: Sequence[WebhookDelivery]) -> None:
    """What was or will be sent to the webhook of a job or run, one line per event."""
    ids = output.short_ids([each.id for each in deliveries])
    rows = [
        (
            short,
            each.type,
            output.sign_of(_SIGN_OF[each.status], each.status),
            str(each.attempts),
            f"{each.next_at:%Y-%m-%d %H:%M:%S}" if each.next_at else NONE,
            NONE if each.http_status is None else str(each.http_status),
            output.one_line(each.error or "", 200),
        )
        for short, each in zip(ids, deliveries, strict=True)
    ]
    headers = ("id", "type", "status", "attempts", "next at (UTC)", "HTTP", "error")
    output.show_table(headers, rows, ("HTTP", "attempts", "next at (UTC)"))


def show_deliveries(services: Services, owner_id: str, redeliver: str | None, *, as_json: bool) -> None:
    """List the deliveries of a job or run; `redeliver`: send this one again, and show it alone.

    Raises:
        NotFound: there is no such job, run or delivery.
    """
    found = webhooks.list_deliveries(services, owner_id)
    if redeliver:
        delivery_id = sessions.pick([each.id for each in found], redeliver, "webhook delivery")
        found = [webhooks.redeliver(services, owner_id, delivery_id)]
        output.say("A worker sends it now." if sessions.is_worker_alive(services) else "The next worker sends it.")
    if as_json:
        output.write_json({"data": [each.model_dump(mode="json") for each in found]})
    elif found:
        _show(found)
    else:
        output.say("Nothing was sent: there is no webhook, or no event yet that it asks for.")
