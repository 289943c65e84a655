"""What was or will be sent to the webhook of a job or a run."""

from fastapi import APIRouter, Response
from pydantic import BaseModel

from api.dependencies import ServicesOf
from api.description import answers
from api.http.bodies import StrictRoute
from api.http.responses import render
from redraft.operations.jobs import webhooks
from redraft.operations.jobs.resources import WebhookDelivery

router = APIRouter(prefix="/v1/jobs/{job_id}/webhook-deliveries", tags=["webhooks"], route_class=StrictRoute)
run_router = APIRouter(prefix="/v1/runs/{run_id}/webhook-deliveries", tags=["webhooks"], route_class=StrictRoute)


class DeliveryList(BaseModel):
    """One per event that the webhook of the job or run asks for, in the order of the events."""

    data: list[WebhookDelivery]


@router.get("", response_model=DeliveryList, responses=answers(404))
def list_webhook_deliveries(services: ServicesOf, job_id: str) -> Response:
    """All deliveries of a job, with what became of the last attempt at each."""
    return render(DeliveryList(data=webhooks.list_deliveries(services, job_id)))


@router.post("/{delivery_id}/redeliver", status_code=202, response_model=WebhookDelivery, responses=answers(404))
def redeliver_webhook(services: ServicesOf, job_id: str, delivery_id: str) -> Response:
    """Send a delivery again, now and by the whole schedule; its `webhook-id` stays the same."""
    return render(webhooks.redeliver(services, job_id, delivery_id), 202)


@run_router.get("", response_model=DeliveryList, responses=answers(404))
def list_run_webhook_deliveries(services: ServicesOf, run_id: str) -> Response:
    """All deliveries of a run, one for each of its ends, with what became of the last attempt at each."""
    return render(DeliveryList(data=webhooks.list_deliveries(services, run_id)))


@run_router.post("/{delivery_id}/redeliver", status_code=202, response_model=WebhookDelivery, responses=answers(404))
def redeliver_run_webhook(services: ServicesOf, run_id: str, delivery_id: str) -> Response:
    """Send a delivery of a run again, now and by the whole schedule; its `webhook-id` stays the same."""
    return render(webhooks.redeliver(services, run_id, delivery_id), 202)
