"""Routes for the webhook deliveries of jobs and runs."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from api.dependencies import ServicesOf
from api.http.bodies import StrictRoute
from api.http.parameters import Listed
from api.http.responses import render
from redraft.domain.jobs.ids import PREFIXES
from redraft.errors import NotFound
from redraft.operations.jobs import webhooks
from redraft.operations.jobs.resources import WebhookDelivery
from redraft.operations.resource_base import Resource

router = APIRouter(prefix="/v1", tags=["webhooks"], route_class=StrictRoute)


# The operations accept ids of jobs and of runs. Without these checks, /v1/jobs/ would also serve runs
def _job_id(job_id: str) -> str:
    if job_id.startswith(PREFIXES["run"]):
        raise NotFound("job", job_id)
    return job_id


def _run_id(run_id: str) -> str:
    if not run_id.startswith(PREFIXES["run"]):
        raise NotFound("run", run_id)
    return run_id


JobId = Annotated[str, Depends(_job_id)]
RunId = Annotated[str, Depends(_run_id)]
_JOB, _RUN = "/jobs/{job_id}/webhook-deliveries", "/runs/{run_id}/webhook-deliveries"


class DeliveryList(Listed[WebhookDelivery]):
    """One delivery for each event that the webhook selects, in the order of the events."""


@router.get(_JOB, response_model=DeliveryList)
def list_webhook_deliveries(services: ServicesOf, job_id: JobId) -> Response:
    """List the webhook deliveries of a job, each with the result of its last attempt."""
    return render(DeliveryList(data=webhooks.list_deliveries(services, job_id)))


@router.post(f"{_JOB}/{{delivery_id}}/redeliver", status_code=202, response_model=WebhookDelivery)
def redeliver_webhook(services: ServicesOf, job_id: JobId, delivery_id: str) -> Response:
    """Send a webhook delivery of a job again, with all retries. Its `webhook-id` stays the same."""
    return render(webhooks.redeliver(services, job_id, delivery_id), 202)


class Redelivered(Resource):
    """The number of deliveries that are sent again."""

    redelivered: int


@router.post("/webhook-deliveries/redeliver", status_code=202, response_model=Redelivered)
def redeliver_failed_webhooks(services: ServicesOf) -> Response:
    """Send again all webhook deliveries that failed or are failing, of all jobs and runs, each with all retries."""
    return render(Redelivered(redelivered=webhooks.redeliver_all(services)), 202)


@router.get(_RUN, response_model=DeliveryList)
def list_run_webhook_deliveries(services: ServicesOf, run_id: RunId) -> Response:
    """List the webhook deliveries of a run, each with the result of its last attempt.

    A run has a delivery for each time that it ended.
    """
    return render(DeliveryList(data=webhooks.list_deliveries(services, run_id)))


@router.post(f"{_RUN}/{{delivery_id}}/redeliver", status_code=202, response_model=WebhookDelivery)
def redeliver_run_webhook(services: ServicesOf, run_id: RunId, delivery_id: str) -> Response:
    """Send a webhook delivery of a run again, with all retries. Its `webhook-id` stays the same."""
    return render(webhooks.redeliver(services, run_id, delivery_id), 202)
