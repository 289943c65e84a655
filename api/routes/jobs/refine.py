"""From a rough question to a job: `POST /v1/refine-question`."""

from typing import Annotated

from fastapi import APIRouter, Body, Response

from api.dependencies import Context, ContextOf, wait_for_model
from api.description import EXAMPLE_REFINE, answers
from api.http.bodies import StrictRoute
from api.http.responses import render
from redraft.domain.jobs.drafts import RefineQuestion
from redraft.operations.jobs import refine
from redraft.operations.jobs.refine import Refinement

router = APIRouter(prefix="/v1", tags=["jobs"], route_class=StrictRoute)


@router.post("/refine-question", response_model=Refinement, responses=answers(400, 413, 415, 422, 502, 503))
async def refine_question(
    context: ContextOf, body: Annotated[RefineQuestion, Body(openapi_examples=EXAMPLE_REFINE)]
) -> Response:
    """Let a model draft a job for a rough question: task, form, criteria and rubric, to be edited and sent.

    `instruct`, `resp_format`, `eval_crit` and `rubric` of the answer are the body of `POST /v1/generate-answer`.
    It waits for the model, and stores nothing but the calls.
    """
    return render(await draft(context, body))


async def draft(context: Context, body: RefineQuestion) -> Refinement:
    return await wait_for_model(context, lambda: refine.refine(context.services, body))
