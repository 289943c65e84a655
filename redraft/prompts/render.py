"""Prompts from templates. A user's or a model's text is only ever a value in them, never a template."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from jinja2 import FileSystemLoader

from redraft.domain.chats import Message, Prompt, ReplySchema
from redraft.domain.loop import Feedback
from redraft.domain.requests import GenerateAnswer
from redraft.prompts.demands import demands
from redraft.prompts.sights import framed_sources, framer, nonce_of
from redraft.prompts.templates import SANDBOX

_FOLDER = Path(__file__).parent
_TEMPLATES = SANDBOX.overlay(loader=FileSystemLoader(_FOLDER), auto_reload=False)


def _render(name: str, **values: Any) -> str:
    return _TEMPLATES.get_template(name).render(**values).strip("\n")


def generation_prompt(request: GenerateAnswer, feedback: Feedback | None) -> Prompt:
    """The next generation: the task and its criteria, and what earlier attempts taught.

    Its length does not grow with the number of iterations: one earlier answer at most.
    """
    system = _render("generate/system.j2", system_instructions=request.system_instructions)
    nonce = nonce_of(request, "")
    task = _render(
        "generate/task.j2",
        instruct=request.instruct,
        resp_format=request.resp_format,
        eval_crit=request.eval_crit,
        demands=demands(request.rubric),
        sources=framed_sources(request.sources, framer(nonce)),
        nonce=nonce,
        schema=json.dumps(request.answer_schema, ensure_ascii=False) if request.answer_schema else None,
    )
    earlier = [
        message
        for user, assistant in request.conversation
        for message in (Message("user", user), Message("assistant", assistant.rstrip()))
        if message.content.strip()
    ]
    schema = ReplySchema("answer", request.answer_schema) if request.answer_schema else None
    return Prompt(system, (*earlier, *_turns(task, feedback)), schema)


def repair_prompt(prompt: Prompt, answer: str, complaint: str) -> Prompt:
    """The same once more, with the answer that does not fit and what is wrong with it."""
    request = Message("user", _render("generate/repair.j2", complaint=complaint))
    given = (Message("assistant", answer.rstrip()),) if answer.strip() else ()
    return replace(prompt, messages=(*prompt.messages, *given, request))


def _turns(task: str, feedback: Feedback | None) -> tuple[Message, ...]:
    if feedback is None:
        return (Message("user", task),)
    if feedback.strategy == "encourage" and feedback.base and feedback.base.answer.strip():
        answer = Message("assistant", feedback.base.answer.rstrip())
        request = _render("generate/encourage.j2", guidance=feedback.guidance)
        return (Message("user", task), answer, Message("user", request))
    revise = _render(
        "generate/revise.j2",
        base=feedback.base.answer if feedback.base else None,
        feedback=feedback_text(feedback),
    )
    return (Message("user", f"{task}\n\n{revise}"),)


def feedback_text(feedback: Feedback) -> str:
    """What is said about the earlier answers, without the answer itself."""
    return _render(
        "generate/feedback.j2",
        reasoning=feedback.reasoning,
        failing=feedback.failing,
        problems=feedback.problems,
        fails_unseen=feedback.fails_unseen,
        kept=feedback.kept,
        later_problems=feedback.later_problems,
        guidance=feedback.guidance,
    )
