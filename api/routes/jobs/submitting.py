"""Hand in a job: `POST /v1/generate-answer`, `POST /v1/evaluate-answer`."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Query, Request, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from api.dependencies import Context, ContextOf, IdempotencyOf, WaitOf
from api.description import EXAMPLE_EVALUATE, EXAMPLE_GENERATE, answers, job_answers
from api.http.bodies import StrictRoute
from api.http.responses import render, render_submitted
from api.notifications.jobs import wait_for
from redraft.domain.bodies.fields import As
from redraft.domain.jobs.requests import AnyRequest, EvaluateAnswer, GenerateAnswer
from redraft.operations.jobs import cost_estimates, queries, submit
from redraft.operations.jobs.resources import Job, JobWarning
from redraft.operations.jobs.submit import Idempotency

router = APIRouter(prefix="/v1", tags=["jobs"], route_class=StrictRoute)


class JobEstimate(BaseModel):
    """What `validate_only` answers."""

    request: Annotated[dict[str, Any], As(AnyRequest)] = Field(description="The request with all defaults filled in.")
    warnings: list[JobWarning]
    calls_max: int = Field(description="The most model calls it can take, retries after failures aside.")


class Submitter:
    """What both kinds of job share: check only, or store, ring, and wait if the caller prefers to."""

    def __init__(
        self,
        request: Request,
        context: ContextOf,
        idempotency: IdempotencyOf,
        wait_s: WaitOf,
        validate_only: Annotated[  # noqa: FBT002 - FastAPI reads it from the query
            bool, Query(description="Check and normalise the request; store nothing, call no model.")
        ] = False,
    ) -> None:
        self._request = request
        self._context: Context = context
        self._idempotency: Idempotency | None = idempotency
        self._wait_s = wait_s
        self._validate_only = validate_only

    async def submit(self, body: AnyRequest) -> Response:
        services = self._context.services
        if self._validate_only:
            estimate = await run_in_threadpool(cost_estimates.preview, services, body)
            return render(JobEstimate.model_validate(estimate, from_attributes=True))
        submission = await run_in_threadpool(submit.submit, services, body, self._idempotency)
        await self._wait(submission.job.id)
        job = await run_in_threadpool(queries.get_job, services, submission.job.id)
        return render_submitted(job, is_replay=submission.is_replay)

    async def _wait(self, job_id: str) -> None:
        services = self._context.services

        def look() -> bool | None:
            return queries.get_version(services, job_id)[1] or None

        if self._wait_s:
            await wait_for(
                self._context.notifications,
                job_id,
                look,
                timeout_s=self._wait_s,
                is_gone=self._request.is_disconnected,
            )


_ANSWERS = {
    **job_answers(202, "The job is stored and will be worked on."),
    **job_answers(201, "The job has ended already (with `Prefer: wait=N`)."),
    200: {
        "description": "A replay of an earlier request with the same Idempotency-Key "
        "(`Idempotent-Replayed: true`), or the estimate of `validate_only`.",
        "model": Job | JobEstimate,
    },
    **answers(400, 409, 413, 415, 422, 429, 503),
}


@router.post("/generate-answer", status_code=202, response_model=Job, responses=_ANSWERS)
async def generate_answer(
    body: Annotated[GenerateAnswer, Body(openapi_examples=EXAMPLE_GENERATE)],
    submitter: Annotated[Submitter, Depends()],
) -> Response:
    """Start a job that writes an answer: generate, evaluate, revise until it is accepted."""
    return await submitter.submit(body)


@router.post("/evaluate-answer", status_code=202, response_model=Job, responses=_ANSWERS)
async def evaluate_answer(
    body: Annotated[EvaluateAnswer, Body(openapi_examples=EXAMPLE_EVALUATE)],
    submitter: Annotated[Submitter, Depends()],
) -> Response:
    """Start a job that evaluates a given answer once."""
    return await submitter.submit(body)
