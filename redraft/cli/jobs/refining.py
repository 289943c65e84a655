"""`redraft refine` and `redraft ask --refine`: draft a request from a rough question."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from redraft.cli import options, output, sessions
from redraft.cli.jobs import request_bodies

if TYPE_CHECKING:
    from redraft.domain.evaluation.rubrics import Criterion
    from redraft.domain.jobs.drafts import RefineQuestion
    from redraft.operations.jobs.refine import Refinement
    from redraft.operations.services import Services

EPILOG = options.examples(
    "redraft refine 'sky blue why? for my kid' > job.json",
    "redraft refine 'sky blue why? for my kid' | redraft ask --file -",
)
_REQUEST = ("instruct", "resp_format", "eval_crit", "rubric")


def refine(
    *,
    question: Annotated[
        str | None, typer.Argument(metavar="QUESTION", help="A rough question. '-' or nothing: read it from stdin.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Model that drafts, as provider:name (default: REDRAFT_MODEL).")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the whole answer of the API, with reasoning and usage.")
    ] = False,
) -> None:
    """Draft a job from a rough question, as JSON.

    It generates no answer. `redraft ask --file` reads its output.
    """
    from redraft.domain.jobs.drafts import RefineQuestion

    asked = sessions.check(
        RefineQuestion, {"question": request_bodies.request_body(question, None, {})["instruct"], "model": model}
    )
    with sessions.opened() as services:
        found = _draft(services, asked)
    output.say(found.reasoning, "dim")
    output.say(f"Drafted by {output.usage_text(found.usage)}", "dim")
    output.write_json(found if as_json else request_of(found))


def refined_body(body: Mapping[str, Any]) -> dict[str, Any]:
    """Complete a request from a draft of its rough question; fields that the user set win."""
    from redraft.domain.jobs.drafts import RefineQuestion

    if body.get("profile", "criteria") != "criteria":
        raise typer.BadParameter("It drafts a rubric, which needs the profile 'criteria'.", param_hint="--refine")
    models = cast("str | list[str] | None", body.get("model"))
    model = models[0] if isinstance(models, list) and models else models
    asked = sessions.check(RefineQuestion, {"question": body["instruct"], "model": model or None})
    with sessions.opened() as services:
        found = _draft(services, asked)
    own = {name: value for name, value in body.items() if name != "instruct" and value is not None}
    request = {**request_of(found), **own}
    _show(request, None if "rubric" in own else found.rubric)
    output.say(f"Drafted by {output.usage_text(found.usage)}", "dim")
    return request


def request_of(found: "Refinement") -> dict[str, Any]:
    """The part of a draft that is a request."""
    return found.model_dump(mode="json", include=set(_REQUEST), exclude_none=True)


def _draft(services: "Services", asked: "RefineQuestion") -> "Refinement":
    from redraft.operations.jobs import refine

    # The rate limits of models are kept in the broker
    beside = sessions.worker_beside(services) if refine.must_acquire(services, asked) else nullcontext()
    with beside, output.status("Drafting the job …"):
        return refine.refine(services, asked)


def _show(request: Mapping[str, Any], rubric: "Sequence[Criterion] | None") -> None:
    """Print the request before it is run, with its rubric if the draft brought one."""
    from redraft.domain.evaluation.rubrics import statement_of

    for title, name in (("Task", "instruct"), ("Form", "resp_format"), ("Criteria", "eval_crit")):
        if request.get(name):
            output.say(f"{title}: {request[name]}")
    if rubric:
        output.say("Rubric:")
    for criterion in rubric or ():
        mark = " (required)" if criterion.required else ""
        output.say(f"  - {criterion.id}{mark}: {statement_of(criterion)}")
