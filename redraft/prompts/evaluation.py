"""What a judge is asked by a profile, and what its reply means."""

from collections.abc import Sequence
from typing import Any

from redraft.domain.calls.conversation import Message, Prompt, ReplySchema
from redraft.domain.evaluation.claims import QuotedSources
from redraft.domain.evaluation.json_extraction import Unusable
from redraft.domain.evaluation.rubric_replies import read_rubric_reply
from redraft.domain.evaluation.rubrics import SCALE_TOP, Criterion
from redraft.domain.evaluation.untrusted import Untrusted
from redraft.domain.evaluation.verdicts import Verdict, read_claims_reply, read_reply
from redraft.domain.jobs.requests import AnyRequest
from redraft.prompts.evaluator_context import EvaluatorContext, untrusted_texts
from redraft.prompts.profiles import Profile
from redraft.prompts.templates import render_template


def evaluation_prompt(
    profile: Profile,
    request: AnyRequest,
    answer: str,
    *,
    criteria: Sequence[Criterion] = (),
    complaint: str | None = None,
) -> Prompt:
    """The judge's view: what the profile sees; no iteration, threshold, earlier score, feedback or weight.

    Args:
        profile: how to judge.
        request: the job.
        answer: what to judge.
        criteria: the criteria of a rubric that this call judges, binary and scale ones; none: by the profile.
        complaint: why the judge's previous reply could not be used, when it is asked once more.
    """
    context = EvaluatorContext(profile.sees, profile.source_chars, profile.sources_chars, profile.media)
    values = context.values(request, answer, criteria, complaint)
    system, user = ("rubric_system", "rubric_user") if criteria else ("system", "user")
    schema = rubric_schema(criteria) if criteria else profile.reply_schema
    message = Message("user", render_template(profile.templates[user], **values))
    return Prompt(render_template(profile.templates[system], **values), (message,), ReplySchema("verdict", schema))


def read_verdict(
    profile: Profile,
    request: AnyRequest,
    answer: str,
    text: str,
    *,
    criteria: Sequence[Criterion] = (),
    unclaimed: float = 1.0,
    finish_reason: str | None = "stop",
) -> Verdict | Unusable:
    """What a reply to `evaluation_prompt` says.

    Args:
        profile: how it was asked.
        request: the job. A verdict that stands in its texts, or in the answer, is none of the evaluator's own.
        answer: what was judged.
        text: the reply.
        criteria: those that the call was about.
        unclaimed: the score of an answer without claims.
        finish_reason: the provider's word for why the reply ended.
    """
    untrusted = Untrusted(untrusted_texts(request, answer))
    if profile.reply.claims:
        sources = request.sources
        quoted = QuotedSources([source.content for source in sources], [source.about for source in sources])
        return read_claims_reply(quoted, text, unclaimed=unclaimed, finish_reason=finish_reason, untrusted=untrusted)
    if criteria:
        return read_rubric_reply(criteria, text, finish_reason=finish_reason, untrusted=untrusted)
    return read_reply(profile.reply, text, finish_reason=finish_reason, untrusted=untrusted)


def rubric_schema(criteria: Sequence[Criterion]) -> dict[str, Any]:
    """The JSON Schema of a reply that judges exactly these criteria, each with its evidence before its verdict."""
    return _object({"criteria": _object({criterion.id: _entry(criterion) for criterion in criteria})})


def _entry(criterion: Criterion) -> dict[str, Any]:
    verdict: dict[str, Any] = {"met": {"type": "boolean", "description": "Whether the statement is true of the answer"}}
    if criterion.kind == "scale":
        verdict = {"level": {"type": "integer", "minimum": 0, "maximum": SCALE_TOP}}
    evidence = {"type": "string", "description": "What in the answer the verdict rests on"}
    gap = {
        "type": "string",
        "description": "What would have to change for the statement to be fully true; empty if it is",
    }
    return _object({"evidence": evidence, "gap": gap, **verdict})


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
