"""Routes that create, list, get, pause, resume and delete schedules of runs."""

from typing import Annotated

from fastapi import APIRouter, Body, Query, Response
from fastapi.openapi.models import Example

from api.dependencies import ServicesOf
from api.http.bodies import StrictRoute
from api.http.parameters import Page, PageQuery
from api.http.responses import render
from api.openapi import problems_of
from redraft.domain.bulk.schedule_requests import CreateSchedule
from redraft.operations.schedules import run_schedules as schedules
from redraft.operations.schedules.run_schedules import Schedule

router = APIRouter(prefix="/v1/schedules", tags=["bulk"], route_class=StrictRoute)

_EXAMPLE: dict[str, Example] = {
    "weekdays": {
        "summary": "A run on each weekday at six o'clock (UTC), with gates and a webhook",
        "value": {
            "cron": "0 6 * * mon-fri",
            "run": {
                "dataset_id": "ds_0190f3c2d1a07c3e8f5b6a7c8d9e0f11",
                "defaults": {"eval_crit": "Correct and complete."},
                "max_cost_usd": 5,
                "webhook": {"url": "https://example.com/hook", "events": ["run.gate_failed"]},
            },
            "gates": {"min_pass_rate": 0.8, "fail_on_regression": True},
        },
    }
}


class SchedulePage(Page[Schedule]): ...


@router.post(
    "",
    status_code=201,
    response_model=Schedule,
    responses={
        201: {
            "description": "The schedule is stored. Its first run starts at the next time of its cron words.",
            "headers": {"Location": {"description": "The path of the schedule.", "schema": {"type": "string"}}},
        },
        **problems_of(404),
    },
)
def create_schedule(services: ServicesOf, body: Annotated[CreateSchedule, Body(openapi_examples=_EXAMPLE)]) -> Response:
    """Start a run of a dataset at regular times, unless the last run is still running.

    After an outage, a worker starts one run for all missed times. The gates are checked when a run ends.
    """
    schedule = schedules.create_schedule(services, body)
    response = render(schedule, 201)
    response.headers["Location"] = schedule.urls["self"]
    return response


@router.get("", response_model=SchedulePage)
def list_schedules(services: ServicesOf, query: Annotated[PageQuery, Query()]) -> Response:
    """List schedules, newest first, each with its last tick."""
    data, next_cursor = schedules.list_schedules(services, cursor=query.after, limit=query.limit)
    return render(SchedulePage(data=data, next_cursor=next_cursor))


@router.get("/{schedule_id}", response_model=Schedule)
def get_schedule(services: ServicesOf, schedule_id: str) -> Response:
    """Get a schedule with its newest ticks, and the results of their gates."""
    return render(schedules.get_schedule(services, schedule_id))


@router.post("/{schedule_id}/pause", response_model=Schedule)
def pause_schedule(services: ServicesOf, schedule_id: str) -> Response:
    """Pause a schedule: it starts no further runs. A run in progress continues."""
    return render(schedules.pause_schedule(services, schedule_id))


@router.post("/{schedule_id}/resume", response_model=Schedule)
def resume_schedule(services: ServicesOf, schedule_id: str) -> Response:
    """Resume a paused schedule. No runs are started for the times of the pause."""
    return render(schedules.resume_schedule(services, schedule_id))


@router.delete("/{schedule_id}", status_code=204)
def delete_schedule(services: ServicesOf, schedule_id: str) -> Response:
    """Delete a schedule. Its runs are kept."""
    schedules.delete_schedule(services, schedule_id)
    return Response(status_code=204)
