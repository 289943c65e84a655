"""What was or will be sent to the webhook of a job or a run."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response
from pydantic import BaseModel

from api.dependencies import ServicesOf
from api.description import answers
from api.http.bodies import StrictRoute
from api.http.responses import render
from redraft.domain.jobs.ids import PREFIXES
from redraft.errors import NotFound
from redraft.operations.jobs import webhooks
from redraft.operations.jobs.resources import WebhookDelivery

router = APIRouter(prefix="/v1/jobs/{job_id}/webhook-deliveries", tags=["webhooks"], route_class=StrictRoute)
run_router = APIRouter(prefix="/v1/runs/{run_id}/webhook-deliveries", tags=["webhooks"], route_class=StrictRoute)


def _job_id(job_id: str) -> str:
    """The operations take ids of jobs and of runs; a path takes those of its own noun only."""
    if job_id.startswith(PREFIXES["run"]):
        raise NotFound("job", job_id)
    return job_id


def _run_id(run_id: str) -> str:
    if not run_id.startswith(PREFIXES["run"]):
        raise NotFound("run", run_id)
    return run_id


JobId = Annotated[str, Depends(_job_id)]
RunId = Annotated[str, Depends(_run_id)]


class DeliveryList(BaseModel):
    """One per event that the webhook of the job or run asks for, in the order of the events."""

    data: list[WebhookDelivery]


@router.get("", response_model=DeliveryList, responses=answers(404))
def list_webhook_deliveries(services: ServicesOf, job_id: JobId) -> Response:
    """All deliveries of a job, with what became of the last attempt at each."""
    return render(DeliveryList(data=webhooks.list_deliveries(services, job_id)))


@router.post("/{delivery_id}/redeliver", status_code=202, response_model=WebhookDelivery, responses=answers(404))
def redeliver_webhook(services: ServicesOf, job_id: JobId, delivery_id: str) -> Response:
    """Send a delivery again, now and by the whole schedule; its `webhook-id` stays the same."""
    return render(webhooks.redeliver(services, job_id, delivery_id), 202)


@run_router.get("", response_model=DeliveryList, responses=answers(404))
def list_run_webhook_deliveries(services: ServicesOf, run_id: RunId) -> Response:
    """All deliveries of a run, one for each of its ends, with what became of the last attempt at each."""
    return render(DeliveryList(data=webhooks.list_deliveries(services, run_id)))


@run_router.post("/{delivery_id}/redeliver", status_code=202, response_model=WebhookDelivery, responses=answers(404))
def redeliver_run_webhook(services: ServicesOf, run_id: RunId, delivery_id: str) -> Response:
    """Send a delivery of a run again, now and by the whole schedule; its `webhook-id` stays the same."""
    return render(webhooks.redeliver(services, run_id, delivery_id), 202)
