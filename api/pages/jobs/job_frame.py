"""Renders the frame of the pages of a job: its header, its tabs and its live updates."""

import re
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any

from fastapi import Depends, Request, Response

from api.dependencies import ServicesOf
from api.http.problems import HttpProblem
from api.http.responses import has_ended
from api.pages.parts.filters import clip
from api.pages.parts.job_words import NO_ANSWER, NO_SCORE, REMEDIES, STAYS_ACCEPTED, STEPS, STOPS, ending, held_back
from api.pages.parts.rendering import address, page
from redraft.domain.jobs.states import JobKind, StopReason
from redraft.operations.jobs import references
from redraft.operations.jobs.resources import Job
from redraft.operations.jobs.views import JobView

_JOB_ID = re.compile(r"job_[0-9a-f]{32}")
_TABS = (
    ("", "Answer"),
    ("/iterations", "Iterations"),
    ("/calls", "Trace"),
    ("/events", "Events"),
    ("/request", "Request"),
)
_NEWS = "job.started iteration.started iteration.generated iteration.evaluated thinking step.retrying done evaluated"


def get_job_id(request: Request, services: ServicesOf, job_id: str) -> str:
    """Return the job id in the URL.

    Raises HttpProblem (307) for a unique prefix of an id and for `latest`, which redirects to the full id.
    """
    if _JOB_ID.fullmatch(job_id):
        return job_id
    found = references.find_job_id(services, job_id)
    rest = request.url.path.split("/", 3)[3:]
    url = "/".join(["/jobs", found, *rest]) + (f"?{request.url.query}" if request.url.query else "")
    raise HttpProblem(307, f"The job is at {url}.", code="elsewhere", headers={"Location": url})


JobIdOf = Annotated[str, Depends(get_job_id)]


def job_page(
    request: Request, template: str, view: JobView, *, tab: str = "", status: int = 200, **context: Any
) -> Response:
    """Render a tab of the page of a job. `tab` is the last part of its path."""
    job = view.job
    base = f"/jobs/{job.id}"
    here = base + tab
    return page(
        request,
        template,
        status,
        view=view,
        job=job,
        base=base,
        here=here,
        # A page that answers a form has the URL of the form's action, which cannot be loaded again
        refreshed_at=address(request) if request.method == "GET" else here,
        tabs=[(base + end, words) for end, words in _TABS],
        live=None if job.progress.step is None else f"{_events_of(job)}?after={view.last_event}",
        live_on=_NEWS,
        stop_words=stop_words(job, view.facts.held_back),
        remedy=REMEDIES.get(job.error["code"]) if job.error else None,
        running_since=job.created_at + timedelta(milliseconds=view.facts.idle_ms),
        step_words=STEPS.get(job.progress.step or ""),
        generators=_models(job.request.get("model")),
        evaluators=job.evaluators,
        can_continue=has_ended(job) and job.kind == JobKind.GENERATE_ANSWER,
        has_ended=has_ended(job),
        **context,
    )


_INTERRUPTED = frozenset({StopReason.CANCELED, StopReason.DEADLINE_EXCEEDED, StopReason.ERROR})


def _events_of(job: Job) -> str:
    # Only jobs with `stream: true` have text to render
    return f"/jobs/{job.id}/drafts" if job.request.get("stream") else f"/v1/jobs/{job.id}/events"


def stop_words(job: Job, lacks: Sequence[str] = ()) -> str | None:
    """Return the reason why the job has ended, or None if it has not ended.

    `lacks` names the unmet requirements of a best answer that reaches the threshold.
    """
    if job.stop_reason is None:
        return None
    if job.result is None:
        return NO_ANSWER
    if job.kind != JobKind.GENERATE_ANSWER and job.stop_reason == StopReason.ITERATION_LIMIT:
        why = "; ".join(lacks) or "the score is below the threshold"
        return f"{why[0].upper()}{why[1:]}."
    if lacks:
        return held_back(job.stop_reason, [clip(each, 200) for each in lacks])
    if job.result and job.result["success"] and job.stop_reason != StopReason.ACCEPTED:
        return STAYS_ACCEPTED.format(why=ending(job.stop_reason))
    is_unscored = job.result["final_score"] is None and job.stop_reason in _INTERRUPTED
    return NO_SCORE if is_unscored else STOPS[job.stop_reason]


def _models(value: str | list[str] | None) -> list[str]:
    return [value] if isinstance(value, str) else value or []
