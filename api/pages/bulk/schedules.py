"""The pages of schedules: the list of schedules, and a schedule with the trend of its runs."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import Query, Request, Response
from markupsafe import Markup

from api.dependencies import ServicesOf
from api.pages.parts.rendering import address, confirm_page, page, pages_router, see_other
from api.pages.parts.trend_charts import Column, draw_shares
from redraft.domain.bulk.phrases import format_score
from redraft.operations.schedules import run_schedules as schedules
from redraft.operations.schedules.run_schedules import Schedule
from redraft.operations.schedules.trends import ScheduledRun, view_schedule

router = pages_router("/runs/schedules")

_PAGE = 20


@router.get("")
def list_schedules(
    request: Request, services: ServicesOf, after: Annotated[str | None, Query(max_length=500)] = None
) -> Response:
    found, cursor = schedules.list_schedules(services, cursor=after, limit=_PAGE)
    following = address(request, after=cursor) if cursor else None
    return page(request, "runs/schedules.html", schedules=found, next_address=following, is_first=after is None)


@router.get("/{schedule_id}")
def show_schedule(request: Request, services: ServicesOf, schedule_id: str) -> Response:
    view = view_schedule(services, schedule_id)
    oldest_first = [run for run in reversed(view.runs) if run.line.counts.succeeded]
    rates = {run.line.id: run.line.counts.accepted / run.line.counts.succeeded for run in oldest_first}
    means = {run.line.id: run.mean_score for run in oldest_first if run.mean_score is not None}
    charts = [
        ("Pass rate, oldest run first", _draw("pass-rates", "Pass rate of the runs", oldest_first, rates)),
        ("Mean score, oldest run first", _draw("scores", "Mean score of the runs", oldest_first, means)),
    ]
    shown = [(words, drawing) for words, drawing in charts if drawing]
    return page(request, "runs/schedule.html", schedule=view.schedule, runs=view.runs, charts=shown)


def _draw(key: str, title: str, runs: Sequence[ScheduledRun], values: dict[str, float]) -> Markup | None:
    """Draw a figure of each run. None if fewer than two runs have it."""
    is_one_day = len({run.tick.tick.date() for run in runs}) == 1
    columns = [
        Column(
            run.tick.tick.strftime("%H:%M" if is_one_day else "%m-%d"),
            format_score(values[run.line.id]),
            {"accepted": values[run.line.id]},
        )
        for run in runs
        if run.line.id in values
    ]
    return draw_shares(key, title, columns, "accepted") if len(columns) > 1 else None


@router.post("/{schedule_id}/pause")
def pause_schedule(services: ServicesOf, schedule_id: str) -> Response:
    schedules.pause_schedule(services, schedule_id)
    return see_other(f"/runs/schedules/{schedule_id}")


@router.get("/{schedule_id}/resume")
def ask_to_resume(request: Request, services: ServicesOf, schedule_id: str) -> Response:
    schedule = view_schedule(services, schedule_id).schedule
    words = f"it starts a run at each time of {schedule.cron} (UTC) again, and each run makes calls that cost money."
    return confirm_page(request, "Resume this schedule?", words, "Resume", _steps(schedule), kind="primary")


@router.post("/{schedule_id}/resume")
def resume_schedule(services: ServicesOf, schedule_id: str) -> Response:
    schedules.resume_schedule(services, schedule_id)
    return see_other(f"/runs/schedules/{schedule_id}")


@router.get("/{schedule_id}/delete")
def ask_to_delete(request: Request, services: ServicesOf, schedule_id: str) -> Response:
    schedule = view_schedule(services, schedule_id).schedule
    words = "it starts no further runs. Its runs are kept. This cannot be undone."
    return confirm_page(request, "Delete this schedule?", words, "Delete permanently", _steps(schedule))


def _steps(schedule: Schedule) -> list[tuple[str, str]]:
    return [("/runs", "Runs"), ("/runs/schedules", "Schedules"), (f"/runs/schedules/{schedule.id}", schedule.name)]


@router.post("/{schedule_id}/delete")
def delete_schedule(services: ServicesOf, schedule_id: str) -> Response:
    schedules.delete_schedule(services, schedule_id)
    return see_other("/runs/schedules", notice="deleted")
