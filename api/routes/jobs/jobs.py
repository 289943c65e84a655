"""Jobs: list, look, wait, cancel, continue, delete."""

from collections.abc import Mapping
from typing import Annotated, Literal

from fastapi import APIRouter, Body, Depends, Header, Query, Request, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from api.dependencies import Context, ContextOf, IdempotencyOf, ServicesOf, WaitOf
from api.description import answers, job_answers
from api.http.bodies import StrictRoute
from api.http.parameters import Time
from api.http.responses import etag, is_match, render, render_job, render_submitted, render_unchanged
from api.notifications.jobs import wait_for
from redraft.domain.jobs.requests import ContinueJob, RescoreJob
from redraft.domain.jobs.states import JobKind, JobStatus, StopReason
from redraft.operations.evaluation import rescore
from redraft.operations.jobs import lifecycle, queries
from redraft.operations.jobs.queries import JobFilter
from redraft.operations.jobs.resources import Job, job_resource

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], route_class=StrictRoute)

_METADATA = "metadata."
_AS_BEFORE = ContinueJob()
_ANEW = RescoreJob()


class JobPage(BaseModel):
    """One page of jobs; `next_cursor` is the next one's `after`, null on the last."""

    data: list[Job]
    next_cursor: str | None


class JobQuery(BaseModel):
    """What a list is narrowed by."""

    status: list[JobStatus] = Field([], max_length=5, description="Repeat it for several.")
    stop_reason: StopReason | None = None
    kind: JobKind | None = None
    model: str | None = Field(None, max_length=220)
    run_id: str | None = Field(None, max_length=40, description="Jobs that are items of this run.")
    created_after: Time | None = None
    created_before: Time | None = None
    order: Literal["asc", "desc"] = Field("desc", description="By creation; newest first is usual.")
    limit: int = Field(20, ge=1, le=100)
    after: str | None = Field(None, max_length=500, description="`next_cursor` of the page before.")
    any_metadata: str | None = Field(
        None,
        alias="metadata.KEY",
        description="Jobs whose metadata has this value under KEY; repeat it for several.",
    )

    def as_filter(self, metadata: Mapping[str, str]) -> JobFilter:
        return JobFilter(
            statuses=tuple(each.value for each in self.status),
            stop_reason=self.stop_reason and self.stop_reason.value,
            kind=self.kind and self.kind.value,
            model=self.model,
            run_id=self.run_id,
            created_after=self.created_after,
            created_before=self.created_before,
            metadata=metadata,
            newest_first=self.order == "desc",
            limit=self.limit,
        )


async def get_metadata(request: Request) -> dict[str, str]:
    """`?metadata.KEY=VALUE` as {KEY: VALUE}."""
    pairs = request.query_params.items()
    return {name.removeprefix(_METADATA): value for name, value in pairs if name.startswith(_METADATA)}


@router.get("", response_model=JobPage, responses=answers(422))
def list_jobs(
    services: ServicesOf,
    query: Annotated[JobQuery, Query()],
    metadata: Annotated[dict[str, str], Depends(get_metadata)],
) -> Response:
    """A page of jobs, stable while others are added."""
    jobs, next_cursor = queries.list_jobs(services, query.as_filter(metadata), query.after)
    page = JobPage(data=jobs, next_cursor=next_cursor)
    return render(page, exclude={"data": {"__all__": {"iterations"}}})


class JobView:
    """How one caller looks at one job: which version it has, and for how long it would wait for another."""

    def __init__(
        self,
        request: Request,
        job_id: str,
        context: ContextOf,
        wait_s: WaitOf,
        if_none_match: Annotated[
            str | None, Header(alias="If-None-Match", description="The ETag of the version you have.")
        ] = None,
        include: Annotated[Literal["iterations"] | None, Query(description="Embed the iterations.")] = None,
    ) -> None:
        self._request = request
        self._job_id = job_id
        self._context: Context = context
        self._wait_s = wait_s
        self._if_none_match = if_none_match
        self._with_iterations = include is not None

    async def answer(self) -> Response:
        if self._wait_s:
            await wait_for(
                self._context.notifications,
                self._job_id,
                self._find_news,
                timeout_s=self._wait_s,
                is_gone=self._request.is_disconnected,
            )
        return await run_in_threadpool(self._render)

    def _find_news(self) -> bool | None:
        version, is_over = queries.get_version(self._context.services, self._job_id)
        if self._if_none_match is None:
            return is_over or None
        return is_over or not self._has(version) or None

    def _has(self, version: int) -> bool:
        return is_match(self._if_none_match, etag(version, with_iterations=self._with_iterations))

    def _render(self) -> Response:
        services = self._context.services
        if self._if_none_match is not None:
            version, is_over = queries.get_version(services, self._job_id)
            if self._has(version):
                return render_unchanged(etag(version, with_iterations=self._with_iterations), is_over=is_over)
        return render_job(queries.get_job(services, self._job_id, with_iterations=self._with_iterations))


@router.get(
    "/{job_id}",
    response_model=Job,
    responses={
        **job_answers(200, "The job, with ETag, and Retry-After while it has not ended."),
        304: {"description": "You have this version already."},
        **answers(404, 422),
    },
)
async def get_job(look: Annotated[JobView, Depends()]) -> Response:
    """One job. With `If-None-Match` and `Prefer: wait=N` the answer comes when the job has changed."""
    return await look.answer()


@router.post(
    "/{job_id}/cancel",
    status_code=202,
    response_model=Job,
    responses={
        **job_answers(202, "The job was canceled."),
        **job_answers(200, "It had ended before."),
        **answers(404),
    },
)
def cancel_job(services: ServicesOf, job_id: str) -> Response:
    """End a job; what it has written so far stays."""
    job, is_ended_now = lifecycle.cancel(services, job_id)
    return render_job(job_resource(job), 202 if is_ended_now else 200)


@router.post(
    "/{job_id}/continue",
    status_code=202,
    response_model=Job,
    responses={**job_answers(202, "The job goes on."), **answers(400, 404, 409, 413, 415, 422)},
)
def continue_job(services: ServicesOf, job_id: str, body: Annotated[ContinueJob, Body()] = _AS_BEFORE) -> Response:
    """More iterations for a job that has ended; nothing already paid for is paid again."""
    job = job_resource(lifecycle.continue_job(services, job_id, body))
    return render_job(job, 202, {"Location": job.urls["self"]})


@router.post(
    "/{job_id}/rescore",
    status_code=202,
    response_model=Job,
    responses={
        **job_answers(202, "A job of its own evaluates the answers again."),
        **job_answers(200, "A replay of an earlier request with the same Idempotency-Key."),
        **answers(400, 404, 409, 413, 415, 422),
    },
)
def rescore_job(
    services: ServicesOf, idempotency: IdempotencyOf, job_id: str, body: Annotated[RescoreJob, Body()] = _ANEW
) -> Response:
    """Judge the stored answers of a job that has ended anew, by another evaluator, profile or rubric; write none."""
    submission = rescore.rescore(services, job_id, body, idempotency)
    return render_submitted(job_resource(submission.job), is_replay=submission.is_replay)


@router.delete("/{job_id}", status_code=204, responses=answers(404, 409))
def delete_job(services: ServicesOf, job_id: str) -> Response:
    """Remove a job that has ended, with its iterations, calls and events."""
    lifecycle.delete(services, job_id)
    return Response(status_code=204)
