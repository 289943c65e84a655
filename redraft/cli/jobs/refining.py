"""`redraft refine` and `redraft ask --refine`: a rough question becomes a job before anything is written."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
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
    model: Annotated[str | None, typer.Option(help="Who drafts, as provider:name.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the reasoning and the usage too, as the API does.")
    ] = False,
) -> None:
    """Draft a job from a rough question, as JSON.

    No answer is generated yet; `redraft ask --file` takes the output.
    """
    from redraft.domain.jobs.drafts import RefineQuestion

    asked = sessions.check(RefineQuestion, {"question": request_bodies.task_of(question), "model": model})
    with sessions.opened() as services:
        found = _draft(services, asked)
    output.say(found.reasoning, "dim")
    output.say(_cost(found), "dim")
    output.write_json(found.model_dump(mode="json") if as_json else request_of(found))


def refined_body(body: Mapping[str, Any]) -> dict[str, Any]:
    """Complete a request from a draft of its rough question; fields that the user set win."""
    from redraft.domain.jobs.drafts import RefineQuestion

    if body.get("profile", "criteria") != "criteria":
        raise typer.BadParameter("It drafts a rubric, which goes with profile 'criteria'.", param_hint="--refine")
    models = cast("str | list[str] | None", body.get("model"))
    model = models[0] if isinstance(models, list) and models else models
    asked = sessions.check(RefineQuestion, {"question": body["instruct"], "model": model or None})
    with sessions.opened() as services:
        found = _draft(services, asked)
    own = {name: value for name, value in body.items() if name != "instruct" and value is not None}
    request = {**request_of(found), **own}
    _show(request, None if "rubric" in own else found.rubric)
    output.say(_cost(found), "dim")
    return request


def request_of(found: "Refinement") -> dict[str, Any]:
    """The part of a draft that is a request."""
    return found.model_dump(mode="json", include=set(_REQUEST), exclude_none=True)


def _draft(services: "Services", asked: "RefineQuestion") -> "Refinement":
    from redraft.operations.jobs import refine

    # The rate limits of models are kept in the broker
    beside = sessions.worker_beside(services) if refine.must_acquire(services, asked) else nullcontext()
    with beside, _progress("Drafting the job …"):
        return refine.refine(services, asked)


def _progress(words: str) -> AbstractContextManager[Any]:
    """A spinner on a terminal, a line elsewhere."""
    console = output.stderr()
    if console.is_terminal and not console.is_dumb_terminal:
        return console.status(words)
    output.say(words)
    return nullcontext()


def _cost(found: "Refinement") -> str:
    usage = found.usage
    made = "1 call" if usage.calls == 1 else f"{usage.calls} calls"
    price = "unknown cost" if usage.cost_usd is None else f"${usage.cost_usd}"
    return f"Drafted by {made} · {usage.input_tokens + usage.output_tokens:,} tokens · {price}"


def _show(request: Mapping[str, Any], rubric: "Sequence[Criterion] | None") -> None:
    """The job that is about to be run, for a person to read; a rubric of one's own is known already."""
    from redraft.domain.evaluation.rubrics import statement_of

    for title, name in (("Task", "instruct"), ("Form", "resp_format"), ("Criteria", "eval_crit")):
        if request.get(name):
            output.say(f"{title}: {request[name]}")
    if rubric:
        output.say("Rubric:")
    for criterion in rubric or ():
        mark = " (required)" if criterion.required else ""
        output.say(f"  - {criterion.id}{mark}: {statement_of(criterion)}")
