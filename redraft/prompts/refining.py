"""The prompt by which a model drafts a job from a rough question."""

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from redraft.domain.calls.conversation import Message, Prompt, ReplySchema
from redraft.domain.jobs.drafts import CHECK_KINDS
from redraft.domain.text.cleaning import defuse, frame
from redraft.domain.text.visible_text import visible
from redraft.prompts.templates import render_template

_FOLDER = Path(__file__).parent / "refine"
_TAG = "question"
_VALUES = {
    "max_words": "at most so many words, such as 60",
    "min_words": "at least so many words",
    "max_chars": "at most so many characters",
    "min_chars": "at least so many characters",
    "lines": "so many lines that are not blank, such as 3, or from 2..4",
    "bullets": "so many list items, such as 5, or from 3..5",
    "contains": "a text that must be there word for word",
    "not_contains": "a text that must not be there",
    "starts_with": "the text that the answer begins with",
    "ends_with": "the text that the answer ends with",
    "language": "the ISO 639-1 code of the answer's language, such as en",
    "is_json": "no value: the answer is JSON",
    "is_url_free": "no value: no web address is in it",
}


def refining_prompt(question: str, complaint: str | None = None) -> Prompt:
    """Build the prompt for a draft. `complaint` says why the previous reply could not be used."""
    nonce = _nonce_of(question)
    values = {
        "question": frame(visible(question), _TAG, nonce),
        "complaint": defuse(visible(complaint), nonce, (_TAG,)) if complaint else None,
        "frame_start": f'<{_TAG} id="{nonce}">',
        "frame_end": f'</{_TAG} id="{nonce}">',
        "check_lines": [f"{kind}: {_VALUES[kind]}" for kind in CHECK_KINDS],
    }
    message = Message("user", render_template(_source("user"), **values))
    return Prompt(render_template(_source("system"), **values), (message,), ReplySchema("draft", DRAFT_SCHEMA))


def _nonce_of(question: str) -> str:
    """Return a hash as nonce, because no text can contain its own hash and so close its frame."""
    return hashlib.sha256(question.encode("utf-8", "surrogatepass")).hexdigest()[:16]


@cache
def _source(name: str) -> str:
    return (_FOLDER / f"{name}.j2").read_text("utf-8")


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


_TEXT = {"type": "string"}
DRAFT_SCHEMA = _object(
    reasoning=_TEXT,
    instruct=_TEXT,
    resp_format=_TEXT,
    eval_crit=_TEXT,
    rubric={
        "type": "array",
        "items": _object(
            id=_TEXT,
            text=_TEXT,
            kind={"type": "string", "enum": ["binary", "check", "scale"]},
            required={"type": "boolean"},
            check={"type": "string", "enum": ["none", *CHECK_KINDS]},
            value=_TEXT,
            level_0=_TEXT,
            level_5=_TEXT,
        ),
    },
)
"""Flat, so that every strict dialect takes it: a check is a kind and a value as text."""
