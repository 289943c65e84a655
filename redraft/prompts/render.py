"""Builds generator prompts from templates. Texts of users and models are only values in the templates."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from jinja2 import FileSystemLoader

from redraft.domain.calls.conversation import Message, Prompt, ReplySchema
from redraft.domain.evaluation.rubrics import Criterion, statement_of
from redraft.domain.jobs.requests import GenerateAnswer, Source
from redraft.domain.loop.feedback import Feedback
from redraft.domain.structured.answers import json_kind
from redraft.domain.text.prompt_framing import escape_delimiters
from redraft.domain.text.visible_text import visible
from redraft.prompts.evaluator_context import media_of, nonce_of, source_text
from redraft.prompts.template_files import STANDARD, SYSTEM, USER, GeneratorTemplate, built_in_templates
from redraft.prompts.templates import SANDBOX

_TAGS = ("source-#", "sources")
_FOLDER = Path(__file__).parent
_TEMPLATES = SANDBOX.overlay(loader=FileSystemLoader(_FOLDER), auto_reload=False)


def _render(name: str, **values: Any) -> str:
    return _TEMPLATES.get_template(name).render(**values).strip("\n")


def generation_prompt(
    request: GenerateAnswer,
    feedback: Feedback | None,
    schema: Mapping[str, Any] | None = None,
    template: GeneratorTemplate | None = None,
) -> Prompt:
    """Build the prompt of a generation: the task, its criteria, and the feedback on earlier answers.

    The prompt has at most one earlier answer, so that its length does not grow with the iterations. `feedback` is None
    in the first iteration. `schema` is the JSON Schema of a structured answer. `template` has the texts of the
    system prompt and of the task; the default is `standard`.

    Raises:
        TemplateFault: if the template names a variable that the request does not have, or its text becomes too long.
    """
    rules = {
        "system_instructions": request.system_instructions,
        "grounding": request.grounds,
        "has_sources": bool(request.sources),
        "has_form": bool(request.resp_format.strip()),
        "is_structured": schema is not None,
    }
    # The nonce does not depend on the answer, so that the task is the same text in each iteration
    nonce = nonce_of(request, "")
    values = _task_values(request, schema, nonce)
    template = template or built_in_templates()[STANDARD]
    system = _system(template, rules, request.vars)
    task = _task(template, values, request.vars)
    earlier = [
        message
        for user, assistant in request.conversation
        for message in (Message("user", user), Message("assistant", assistant.rstrip()))
        if message.content.strip()
    ]
    reply = ReplySchema("answer", schema) if schema is not None else None
    first, *rest = _turns(task, feedback, nonce)
    # Media come first, so that each iteration begins with the same prompt
    first = replace(first, media=media_of(request))
    return Prompt(system, (*earlier, first, *rest), reply)


def _system(template: GeneratorTemplate, rules: Mapping[str, Any], variables: Mapping[str, Any]) -> str:
    is_grounded = rules["grounding"] and rules["has_sources"]
    grounding_rules = _render("generate/grounding.j2", **rules) if is_grounded else ""
    parts = {"system_instructions": rules["system_instructions"] or "", "grounding_rules": grounding_rules}
    return template.render(SYSTEM, parts, variables)


def _task(template: GeneratorTemplate, values: Mapping[str, Any], variables: Mapping[str, Any]) -> str:
    parts = {name: _render(f"generate/{name}.j2", **values) for name in ("sources", "criteria")}
    parts["schema"] = _render("generate/schema.j2", **values) if values["schema"] else ""
    return template.render(USER, {**parts, **{name: values[name] for name in ("instruct", "resp_format")}}, variables)


def _task_values(request: GenerateAnswer, schema: Mapping[str, Any] | None, nonce: str) -> dict[str, Any]:
    return {
        "instruct": request.instruct,
        "resp_format": request.resp_format,
        "eval_crit": request.eval_crit,
        # The first prompt also has the criteria, because they alone raise the share of good answers (RefineBench)
        "criteria": [_criterion_line(each) for each in request.rubric or () if not each.hidden],
        "grounding": request.grounds,
        "sources": [_source(number, source, nonce) for number, source in enumerate(request.sources, 1)],
        "nonce": nonce,
        "schema": json.dumps(schema, ensure_ascii=False) if schema is not None else None,
        "schema_kind": json_kind(schema or {}),
    }


def _criterion_line(criterion: Criterion) -> str:
    words = statement_of(criterion)
    best = (criterion.anchors or {}).get("5")
    words = f"{words} (the best level: {best})" if best else words
    words = f"It must not be true that: {words}" if criterion.weight < 0 else words
    return f"{words} (required)" if criterion.required else words


def _source(number: int, source: Source, nonce: str) -> str:
    """Return a source with its opening tag."""
    # A source ends where the next tag begins, so a closing tag would only cost tokens
    content = escape_delimiters(visible(source_text(source, source.content)), nonce, _TAGS)
    return f'<source-{number} id="{nonce}">\n{content}'


def repair_prompt(prompt: Prompt, answer: str, complaint: str) -> Prompt:
    """Build a repair prompt: the prompt, the invalid answer and its validation errors."""
    request = Message("user", _render("generate/repair.j2", complaint=complaint))
    given = (Message("assistant", answer.rstrip()),) if answer.strip() else ()
    return replace(prompt, messages=(*prompt.messages, *given, request))


def _turns(task: str, feedback: Feedback | None, nonce: str) -> tuple[Message, ...]:
    if feedback is None:
        return (Message("user", task, (len(task),)),)
    if feedback.base and _encourages(feedback):
        answer = Message("assistant", feedback.base.answer.rstrip())
        return (
            Message("user", task, (len(task),)),
            answer,
            Message("user", feedback_text(feedback).replace(nonce, "[…]")),
        )
    revise = _render(
        "generate/revise.j2",
        base=feedback.base.answer if feedback.base else None,
        feedback=feedback_text(feedback),
    )
    # Remove the nonce: a source can make the generator copy the tags around it, and the answer would contain the nonce
    return (Message("user", f"{task}\n\n{revise.replace(nonce, '[…]')}", (len(task),)),)


def _encourages(feedback: Feedback) -> bool:
    return feedback.strategy == "encourage" and feedback.base is not None and bool(feedback.base.answer.strip())


def feedback_text(feedback: Feedback) -> str:
    """Return the feedback on earlier answers, without the answers."""
    if _encourages(feedback):
        problems = (*feedback.cut, *feedback.vetoes)
        return _render("generate/encourage.j2", problems=problems, guidance=feedback.guidance)
    return _render(
        "generate/feedback.j2",
        reasoning=feedback.reasoning,
        failing=feedback.failing,
        problems=(*feedback.cut, *feedback.problems),
        fails_unseen=feedback.fails_unseen,
        kept=feedback.kept,
        later_problems=feedback.later_problems,
        guidance=feedback.guidance,
    )
