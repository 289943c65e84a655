"""Routes that submit jobs, and draft a job from a rough question."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Query, Response
from pydantic import BaseModel, Field
from starlette.concurrency import run_in_threadpool

from api.dependencies import Context, ContextOf, IdempotencyOf, TraceParentOf
from api.http.bodies import StrictRoute
from api.http.responses import render, render_submitted
from api.openapi import EXAMPLE_EVALUATE, EXAMPLE_GENERATE, EXAMPLE_REFINE, job_answers, problems_of
from api.routes.jobs.long_polling import WaiterOf
from redraft.domain.bodies.fields import As
from redraft.domain.jobs.drafts import RefineQuestion
from redraft.domain.jobs.requests import AnyRequest, EvaluateAnswer, GenerateAnswer
from redraft.operations.jobs import cost_estimates, queries, refine, submit
from redraft.operations.jobs.refine import Refinement
from redraft.operations.jobs.resources import Job, JobWarning

router = APIRouter(prefix="/v1", tags=["jobs"], route_class=StrictRoute)


class JobEstimate(BaseModel):
    """The response to a request with `validate_only`."""

    request: Annotated[dict[str, Any], As(AnyRequest)] = Field(description="The request with all default values.")
    warnings: list[JobWarning]
    calls_max: int = Field(description="The maximum number of model calls, not counting retries after failures.")


@dataclass(frozen=True, slots=True)
class Submitter:
    """A request that submits a job, or with `validate_only` only validates it."""

    context: ContextOf
    idempotency: IdempotencyOf
    traceparent: TraceParentOf
    waiter: WaiterOf
    validate_only: Annotated[
        bool, Query(description="Only validate and normalise the request. Nothing is stored and no model is called.")
    ] = False

    async def submit(self, body: AnyRequest) -> Response:
        services = self.context.services
        if self.validate_only:
            estimate = await run_in_threadpool(cost_estimates.preview, services, body)
            return render(JobEstimate.model_validate(estimate, from_attributes=True))
        submission = await run_in_threadpool(
            submit.submit, services, body, self.idempotency, traceparent=self.traceparent
        )
        job_id = submission.job.id
        await self.waiter.wait(job_id, lambda: queries.get_version(services, job_id)[1])
        job = await run_in_threadpool(queries.get_job, services, job_id)
        return render_submitted(job, is_replay=submission.is_replay)


_ANSWERS = {
    **job_answers({202: "The job is stored and queued.", 201: "The job has already ended (with `Prefer: wait=N`)."}),
    200: {
        "description": "A replay of an earlier request with the same Idempotency-Key "
        "(`Idempotent-Replayed: true`), or the estimate of `validate_only`.",
        "model": Job | JobEstimate,
    },
    **problems_of(409),
}


@router.post("/generate-answer", status_code=202, response_model=Job, responses=_ANSWERS)
async def generate_answer(
    body: Annotated[GenerateAnswer, Body(openapi_examples=EXAMPLE_GENERATE)], submitter: Annotated[Submitter, Depends()]
) -> Response:
    """Start a job that generates, evaluates and revises an answer until it is accepted."""
    return await submitter.submit(body)


@router.post("/evaluate-answer", status_code=202, response_model=Job, responses=_ANSWERS)
async def evaluate_answer(
    body: Annotated[EvaluateAnswer, Body(openapi_examples=EXAMPLE_EVALUATE)], submitter: Annotated[Submitter, Depends()]
) -> Response:
    """Start a job that evaluates a given answer once."""
    return await submitter.submit(body)


@router.post("/refine-question", response_model=Refinement, responses=problems_of(502))
async def refine_question(
    context: ContextOf, body: Annotated[RefineQuestion, Body(openapi_examples=EXAMPLE_REFINE)]
) -> Response:
    """Draft a job from a rough question: its task, response format, criteria and rubric.

    The fields `instruct`, `resp_format`, `eval_crit` and `rubric` of the response are a body for
    `POST /v1/generate-answer`. The response is sent when the model has replied. Only the model calls are stored.
    """
    return render(await draft(context, body))


async def draft(context: Context, body: RefineQuestion) -> Refinement:
    return await context.wait_for_model(lambda: refine.refine(context.services, body))
