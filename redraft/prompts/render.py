"""Prompts from templates. A user's or a model's text is only ever a value in them, never a template."""

import hashlib
import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import FileSystemLoader, StrictUndefined
from jinja2.sandbox import ImmutableSandboxedEnvironment

from redraft.domain.chats import Message, Prompt, ReplySchema
from redraft.domain.loop import Feedback
from redraft.domain.requests import AnyRequest, GenerateAnswer
from redraft.domain.texts import frame

_FOLDER = Path(__file__).parent
_TEMPLATES = ImmutableSandboxedEnvironment(
    loader=FileSystemLoader(_FOLDER),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    autoescape=False,
    auto_reload=False,
)


def _render(name: str, **values: Any) -> str:
    return _TEMPLATES.get_template(name).render(**values).strip("\n")


def generation_prompt(request: GenerateAnswer, feedback: Feedback | None) -> Prompt:
    """The next generation: the task and its criteria, and what earlier attempts taught.

    Its length does not grow with the number of iterations: one earlier answer at most.
    """
    system = _render("generate/system.j2", system_instructions=request.system_instructions)
    task = _render(
        "generate/task.j2",
        instruct=request.instruct,
        resp_format=request.resp_format,
        eval_crit=request.eval_crit,
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
        problems=feedback.problems,
        later_problems=feedback.later_problems,
        guidance=feedback.guidance,
    )


def evaluation_prompt(request: AnyRequest, answer: str, complaint: str | None = None) -> Prompt:
    """The judge's view: task, criteria and answer; no iteration, threshold, earlier score or feedback.

    Args:
        request: the job.
        answer: what to judge.
        complaint: why the judge's previous reply could not be used, when it is asked once more.
    """
    nonce = _nonce(request.instruct, answer)
    framed = frame(answer, "answer", nonce)
    first, last = framed.split("\n", 1)[0], framed.rsplit("\n", 1)[-1]
    user = _render(
        "criteria/user.j2",
        instruct=request.instruct,
        resp_format=request.resp_format,
        conversation=request.conversation,
        eval_crit=request.eval_crit,
        reference=request.reference,
        framed_answer=framed,
        complaint=complaint,
    )
    system = _render("criteria/system.j2", frame_start=first, frame_end=last)
    return Prompt(system, (Message("user", user),), ReplySchema("verdict", reply_schema("criteria")))


def _nonce(*texts: str) -> str:
    """No text can hold its own hash, so no answer can close its frame; the same call keeps the same prompt."""
    return hashlib.sha256("\x00".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:16]


@cache
def reply_schema(profile: str) -> dict[str, Any]:
    return json.loads((_FOLDER / profile / "reply.json").read_text("utf-8"))
