"""Builds the job in which a model drafts a better request for a run, and checks the placeholders of the draft."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from redraft.domain.bodies.validation_errors import message_of
from redraft.domain.bulk.improvements import FailingRow, Improvement, SharedRequest, read_improvement
from redraft.domain.evaluation.rubrics import FAULT_ABSENT, statement_of
from redraft.domain.jobs.requests import GenerateAnswer
from redraft.domain.text.prompt_framing import frame
from redraft.domain.text.visible_text import visible
from redraft.prompts.evaluation import object_schema
from redraft.prompts.templates import render_template
from redraft.prompts.text_templates import TemplateFault, expressions_in, has_placeholders

_TASK = Path(__file__).parent / "improve" / "task.j2"
ROWS_SHOWN = 6
_CHARS = 1500
_TAGS = ("text", "row")
_TEXT = {"type": "string"}


def drafting_job(shared: SharedRequest, rows: Sequence[FailingRow], failures: Mapping[str, str]) -> dict[str, Any]:
    """Return the request of a job whose answer is a draft. `failures` says how many answers fail each criterion."""
    texts = [*shared.texts.values(), *(part for row in rows for part in (row.task, row.answer, row.verdict))]
    # The nonce is a hash, because no text can contain its own hash and so close its frame
    nonce = hashlib.sha256("\0".join(texts).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    criteria = [
        f"{each.id}: {FAULT_ABSENT if each.weight < 0 else ''}{statement_of(each)}{failures.get(each.id, '')}"
        for each in shared.shown_criteria
    ]
    values = {
        "nonce": nonce,
        "texts": {name: _framed(text, "text", nonce) for name, text in shared.texts.items()},
        "criteria": criteria,
        "rows": [_framed(_row(row), "row", nonce) for row in rows[:ROWS_SHOWN]],
        "has_placeholders": has_placeholders(list(shared.texts.values())),
    }
    fields: dict[str, Any] = {"reasons": _TEXT, **dict.fromkeys(shared.texts, _TEXT)}
    if criteria:
        names = {"type": "string", "enum": [each.id for each in shared.shown_criteria]}
        fields["rubric"] = {"type": "array", "items": object_schema(id=names, text=_TEXT)}
    return {
        "instruct": render_template(_TASK.read_text("utf-8"), **values),
        "answer_schema": object_schema(**fields),
        "rubric": [{"id": "json", "kind": "check", "check": {"kind": "is_json"}}],
        # The draft is validated by `read_draft`, and its effect is measured by a run, so it needs no revision
        "iter_max": 1,
    }


def _framed(text: str, tag: str, nonce: str) -> str:
    return frame(visible(text), tag, nonce, _TAGS)


def _row(row: FailingRow) -> str:
    parts = (("Task", row.task), ("Answer", row.answer), ("Verdict", row.verdict))
    return "\n\n".join(f"{title}: {_cut(text)}" for title, text in parts)


def _cut(text: str) -> str:
    return text if len(text) <= _CHARS else f"{text[:_CHARS]} […]"


def read_draft(reply: Any, shared: SharedRequest) -> Improvement:
    """Read a draft. Raises ValueError, with a sentence for people, if the draft cannot be used."""
    found = read_improvement(reply, shared)
    for name, old, new in found.texts:
        try:
            is_same = expressions_in(new) == expressions_in(old)
        except TemplateFault as fault:
            raise ValueError(f"`{name}` {fault}.") from None
        if not is_same:
            raise ValueError(f"`{name}` does not have the placeholders of the old text.")
    _check_limits(found.after)
    return found


def _check_limits(changed: Mapping[str, Any]) -> None:
    """Raise ValueError if a changed field breaks a limit of a request."""
    # A request needs criteria. If the draft does not change them, a placeholder stands for them
    criteria = {} if "rubric" in changed else {"eval_crit": "a"}
    body = {"instruct": "a", **criteria, **changed}
    try:
        GenerateAnswer.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"`{first['loc'][0]}`: {message_of(first, body)}.") from None
