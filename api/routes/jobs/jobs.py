"""Routes that list, get, await, cancel, continue, rescore and delete jobs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter, Body, Depends, Header, Query, Request, Response
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from api.dependencies import IdempotencyOf, ServicesOf
from api.http.bodies import StrictRoute
from api.http.parameters import Page, PageQuery, Time
from api.http.responses import etag, is_match, render, render_job, render_submitted, render_unchanged
from api.openapi import job_answers, problems_of
from api.routes.jobs.long_polling import WaiterOf
from redraft.domain.jobs.requests import ContinueJob, RescoreJob
from redraft.domain.jobs.states import JobKind, JobStatus, Outcome, StopReason
from redraft.operations.evaluation import rescore
from redraft.operations.jobs import lifecycle, queries
from redraft.operations.jobs.resources import Job, job_resource
from redraft.storage.jobs.job_filters import JobFilter

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], route_class=StrictRoute)

_METADATA = "metadata."


class JobPage(Page[Job]): ...


class JobQuery(PageQuery):
    """The filter and the page of a list of jobs."""

    status: list[JobStatus] = Field([], max_length=5, description="Jobs with this status. Repeatable.")
    outcome: list[Outcome] = Field(
        [], max_length=7, description="Jobs with this outcome: the status, and for an answer its verdict. Repeatable."
    )
    stop_reason: StopReason | None = None
    kind: JobKind | None = None
    model: str | None = Field(None, max_length=220, description="Jobs whose first iteration used this generator.")
    run_id: str | None = Field(None, max_length=40, description="Jobs that are items of this run.")
    created_after: Time | None = None
    created_before: Time | None = None
    order: Literal["asc", "desc"] = Field(
        "desc", description="The order by time of creation; `desc` lists the newest job first."
    )
    any_metadata: str | None = Field(
        None, alias="metadata.KEY", description="Jobs whose metadata has this value for KEY. Repeatable."
    )

    def as_filter(self, metadata: Mapping[str, str]) -> JobFilter:
        same = self.model_dump(exclude={"status", "outcome", "order", "after", "any_metadata"})
        several = {"statuses": tuple(self.status), "outcomes": tuple(self.outcome)}
        return JobFilter(newest_first=self.order == "desc", metadata=metadata, **several, **same)


async def get_metadata(request: Request) -> dict[str, str]:
    """Read `?metadata.KEY=VALUE` as {KEY: VALUE}."""
    pairs = request.query_params.items()
    return {name.removeprefix(_METADATA): value for name, value in pairs if name.startswith(_METADATA)}


@router.get("", response_model=JobPage)
def list_jobs(
    services: ServicesOf,
    query: Annotated[JobQuery, Query()],
    metadata: Annotated[dict[str, str], Depends(get_metadata)],
) -> Response:
    """List jobs. New jobs do not shift the following pages."""
    jobs, next_cursor = queries.list_jobs(services, query.as_filter(metadata), query.after)
    page = JobPage(data=jobs, next_cursor=next_cursor)
    return render(page, exclude={"data": {"__all__": {"iterations"}}})


@dataclass(frozen=True, slots=True)
class JobView:
    """Returns a job: with or without iterations, immediately or after a change."""

    job_id: str
    services: ServicesOf
    waiter: WaiterOf
    if_none_match: Annotated[
        str | None, Header(alias="If-None-Match", description="The ETag of the version that the client has.")
    ] = None
    include: Annotated[Literal["iterations"] | None, Query(description="Embed the iterations.")] = None

    async def answer(self) -> Response:
        await self.waiter.wait(self.job_id, self._has_news)
        return await run_in_threadpool(self._render)

    def _has_news(self) -> bool:
        tag, has_ended = self._version()
        return has_ended or (self.if_none_match is not None and not is_match(self.if_none_match, tag))

    def _version(self) -> tuple[str, bool]:
        version, has_ended = queries.get_version(self.services, self.job_id)
        return etag(version, with_iterations=self.include is not None), has_ended

    def _render(self) -> Response:
        if self.if_none_match is not None:
            # Only the version is read, because most polls find no change and a job can be large
            tag, has_ended = self._version()
            if is_match(self.if_none_match, tag):
                return render_unchanged(tag, is_over=has_ended)
        return render_job(queries.get_job(self.services, self.job_id, with_iterations=self.include is not None))


@router.get(
    "/{job_id}",  # noqa: FAST003 - JobView has the parameter
    response_model=Job,
    responses={
        **job_answers({200: "The job with its ETag, and with Retry-After if it has not ended."}),
        304: {"description": "The client already has this version."},
    },
)
async def get_job(view: Annotated[JobView, Depends()]) -> Response:
    """Get a job. With `If-None-Match` and `Prefer: wait=N`, the response is sent when the job has changed."""
    return await view.answer()


@router.post(
    "/{job_id}/cancel",
    status_code=202,
    response_model=Job,
    responses=job_answers({202: "The job was canceled.", 200: "The job had already ended."}),
)
def cancel_job(services: ServicesOf, job_id: str) -> Response:
    """Cancel a job. Its answers and evaluations are kept."""
    job, is_ended_now = lifecycle.cancel(services, job_id)
    return render_job(job_resource(job), 202 if is_ended_now else 200)


@router.post(
    "/{job_id}/continue",
    status_code=202,
    response_model=Job,
    responses=job_answers({202: "The job is continued."}) | problems_of(409),
)
def continue_job(
    services: ServicesOf, job_id: str, body: Annotated[ContinueJob, Body(default_factory=ContinueJob)]
) -> Response:
    """Continue a job that has ended with further iterations. No earlier model call is repeated."""
    job = job_resource(lifecycle.continue_job(services, job_id, body))
    return render_job(job, 202, {"Location": job.urls["self"]})


@router.post(
    "/{job_id}/rescore",
    status_code=202,
    response_model=Job,
    responses=job_answers(
        {202: "A new job evaluates the answers.", 200: "A replay of an earlier request with the same Idempotency-Key."}
    )
    | problems_of(409),
)
def rescore_job(
    services: ServicesOf,
    idempotency: IdempotencyOf,
    job_id: str,
    body: Annotated[RescoreJob, Body(default_factory=RescoreJob)],
) -> Response:
    """Create a job that evaluates the answers of an ended job again, by another evaluator, profile or rubric."""
    submission = rescore.rescore(services, job_id, body, idempotency)
    return render_submitted(job_resource(submission.job), is_replay=submission.is_replay)


@router.delete("/{job_id}", status_code=204, responses=problems_of(409))
def delete_job(services: ServicesOf, job_id: str) -> Response:
    """Delete a job that has ended, with its iterations, calls and events."""
    lifecycle.delete(services, job_id)
    return Response(status_code=204)
