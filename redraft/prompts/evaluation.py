"""Builds evaluator prompts from profiles, and parses the replies."""

from collections.abc import Mapping, Sequence
from typing import Any

from redraft.domain.calls.conversation import Message, Prompt, ReplySchema
from redraft.domain.evaluation.claims import QuotedSources
from redraft.domain.evaluation.json_extraction import Unusable
from redraft.domain.evaluation.quoted_verdicts import UntrustedTexts
from redraft.domain.evaluation.rubric_verdict_parsing import read_rubric_reply
from redraft.domain.evaluation.rubrics import SCALE_TOP, Criterion
from redraft.domain.evaluation.verdict_parsing import Verdict, read_claims_reply, read_reply
from redraft.domain.jobs.requests import AnyRequest
from redraft.prompts.evaluator_context import ATTACHMENTS_RULE, EvaluatorContext, media_of, untrusted_texts
from redraft.prompts.example_texts import examples_text, texts_of
from redraft.prompts.profiles import Profile
from redraft.prompts.templates import render_stable_parts, render_template


def evaluation_prompt(
    profile: Profile,
    request: AnyRequest,
    answer: str,
    *,
    criteria: Sequence[Criterion] = (),
    complaint: str | None = None,
) -> Prompt:
    """Build the prompt of an evaluator call.

    The prompt has no iteration, threshold, earlier score, feedback or weight, because these bias an evaluator.

    Args:
        profile: the profile. Its own prompt is used if there are no criteria.
        request: the request of the job.
        answer: the answer to evaluate.
        criteria: the binary and scale criteria of this call.
        complaint: for a repair, the reason why the previous reply was not usable.
    """
    context = EvaluatorContext(profile.sees, profile.source_chars, profile.sources_chars, profile.media)
    values = context.values(request, answer, criteria, complaint)
    system, user = ("rubric_system", "rubric_user") if criteria else ("system", "user")
    schema: Mapping[str, Any] = profile.reply_schema
    if criteria:
        schema = object_schema(criteria=object_schema(**{criterion.id: _entry(criterion) for criterion in criteria}))
    media = media_of(request) if profile.media else ()
    message = Message("user", *render_stable_parts(profile.templates[user], **values), media=media)
    role = render_template(profile.templates[system], **values)
    if profile.examples:
        role = f"{role}\n\n{examples_text(profile.examples)}"
    if media:
        role = f"{role}\n\n{ATTACHMENTS_RULE}"
    return Prompt(role, (message,), ReplySchema("verdict", schema))


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
    """Parse the reply `text` to `evaluation_prompt`. `unclaimed` is the score of an answer without claims.

    A verdict that also occurs in the request or in the answer does not count, because it may be an injected text.
    """
    untrusted = UntrustedTexts([*untrusted_texts(request, answer), *texts_of(profile.examples)])
    if profile.reply.claims:
        sources = request.sources
        quoted = QuotedSources([source.content for source in sources], [source.about for source in sources])
        return read_claims_reply(quoted, text, unclaimed=unclaimed, finish_reason=finish_reason, untrusted=untrusted)
    if criteria:
        return read_rubric_reply(criteria, text, finish_reason=finish_reason, untrusted=untrusted)
    return read_reply(profile.reply, text, finish_reason=finish_reason, untrusted=untrusted)


def _entry(criterion: Criterion) -> dict[str, Any]:
    """Return the schema of the verdict on one criterion."""
    # The evidence comes first, because a model decides better after it has written its reasons
    verdict: dict[str, Any] = {"met": {"type": "boolean", "description": "Whether the statement is true of the answer"}}
    if criterion.kind == "scale":
        verdict = {"level": {"type": "integer", "minimum": 0, "maximum": SCALE_TOP}}
    evidence = {"type": "string", "description": "The part of the answer that supports the verdict"}
    gap = {
        "type": "string",
        "description": "The change that makes the statement fully true; empty if it already is",
    }
    return object_schema(evidence=evidence, gap=gap, **verdict)


def object_schema(**properties: Any) -> dict[str, Any]:
    """Return the schema of an object with exactly these properties."""
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
