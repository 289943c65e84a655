"""Drafts a request from a rough question, for `redraft refine` and `redraft ask --refine`."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from redraft.cli import options, output, sessions
from redraft.cli.backends import opening
from redraft.cli.jobs import request_bodies

if TYPE_CHECKING:
    from redraft.domain.evaluation.rubrics import Criterion
    from redraft.domain.jobs.drafts import RefineQuestion
    from redraft.operations.jobs.refine import Refinement

EPILOG = options.examples(
    "redraft refine 'sky blue why? for my kid' > job.json",
    "redraft refine 'sky blue why? for my kid' | redraft ask --file -",
)
_REQUEST = ("instruct", "resp_format", "eval_crit", "rubric")


def refine(
    *,
    question: Annotated[
        str | None,
        typer.Argument(metavar="QUESTION", help="A rough question. If it is missing or '-', it is read from stdin."),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Model that drafts the job, as provider:name (default: REDRAFT_MODEL). Not the bundled model."
        ),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Also print the reasoning and the usage of the draft.")
    ] = False,
) -> None:
    """Draft a job from a rough question, and print it as JSON.

    A model drafts the task, the format, the criteria and a rubric. No answer is generated. `redraft ask --file -` runs
    the drafted job.
    """
    from redraft.domain.jobs.drafts import RefineQuestion

    asked = sessions.check(
        RefineQuestion, {"question": request_bodies.request_body(question, None, {})["instruct"], "model": model}
    )
    found = _draft(asked)
    output.say(found.reasoning, "dim")
    output.say(f"Drafted by {output.usage_text(found.usage)}", "dim")
    output.write_json(found if as_json else request_of(found))


def refined_body(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request that a model drafted from a rough question. The fields that the user set are kept."""
    from redraft.domain.jobs.drafts import RefineQuestion

    if body.get("profile", "criteria") != "criteria":
        raise typer.BadParameter("It drafts a rubric, which only the profile 'criteria' uses.", param_hint="--refine")
    models = cast("str | list[str] | None", body.get("model"))
    model = models[0] if isinstance(models, list) and models else models
    asked = sessions.check(RefineQuestion, {"question": body["instruct"], "model": model or None})
    found = _draft(asked)
    own = {name: value for name, value in body.items() if name != "instruct" and value is not None}
    request = {**request_of(found), **own}
    _show(request, None if "rubric" in own else found.rubric)
    output.say(f"Drafted by {output.usage_text(found.usage)}", "dim")
    return request


def request_of(found: "Refinement") -> dict[str, Any]:
    """Return the request fields of a draft."""
    return found.model_dump(mode="json", include=set(_REQUEST), exclude_none=True)


def _draft(asked: "RefineQuestion") -> "Refinement":
    with opening.opened() as backend, output.status("Drafting the job …"):
        return backend.refine(asked)


def _show(request: Mapping[str, Any], rubric: "Sequence[Criterion] | None") -> None:
    """Print the request before it is submitted, with the rubric of the draft."""
    from redraft.domain.evaluation.rubrics import statement_of

    for title, name in (("Task", "instruct"), ("Format", "resp_format"), ("Criteria", "eval_crit")):
        if request.get(name):
            output.say(f"{title}: {request[name]}")
    if rubric:
        output.say("Rubric:")
    for criterion in rubric or ():
        mark = " (required)" if criterion.required else ""
        output.say(f"  - {criterion.id}{mark}: {statement_of(criterion)}")
