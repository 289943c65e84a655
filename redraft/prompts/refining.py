"""Builds the prompt with which a model drafts a request from a rough question."""

import hashlib
from functools import cache
from pathlib import Path

from redraft.domain.calls.conversation import Message, Prompt, ReplySchema
from redraft.domain.jobs.drafts import DRAFT_CHECK_KINDS
from redraft.domain.text.prompt_framing import escape_delimiters, frame
from redraft.domain.text.visible_text import visible
from redraft.prompts.evaluation import object_schema
from redraft.prompts.templates import render_template

_FOLDER = Path(__file__).parent / "refine"
_TAG = "question"
_VALUES = {
    "max_words": "the maximum number of words, such as 60",
    "min_words": "the minimum number of words",
    "max_chars": "the maximum number of characters",
    "min_chars": "the minimum number of characters",
    "lines": "the number of lines that are not blank, such as 3, or a range such as 2..4",
    "bullets": "the number of list items, such as 5, or a range such as 3..5",
    "contains": "a text that the answer must contain word for word",
    "not_contains": "a text that the answer must not contain",
    "starts_with": "the text that the answer begins with",
    "ends_with": "the text that the answer ends with",
    "language": "the ISO 639-1 code of the answer's language, such as en",
    "is_json": "no value: the answer is JSON",
    "is_url_free": "no value: the answer contains no web address",
}


def refining_prompt(question: str, complaint: str | None = None) -> Prompt:
    """Build the prompt for a draft. For a repair, `complaint` says why the previous reply was not usable."""
    # The nonce is a hash, because no text can contain its own hash and so close its frame
    nonce = hashlib.sha256(question.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    values = {
        "question": frame(visible(question), _TAG, nonce),
        "complaint": escape_delimiters(visible(complaint), nonce, (_TAG,)) if complaint else None,
        "frame_start": f'<{_TAG} id="{nonce}">',
        "frame_end": f'</{_TAG} id="{nonce}">',
        "check_lines": [f"{kind}: {_VALUES[kind]}" for kind in DRAFT_CHECK_KINDS],
    }
    message = Message("user", render_template(_source("user"), **values))
    return Prompt(render_template(_source("system"), **values), (message,), ReplySchema("draft", DRAFT_SCHEMA))


@cache
def _source(name: str) -> str:
    return (_FOLDER / f"{name}.j2").read_text("utf-8")


_TEXT = {"type": "string"}
# A check in a draft is a kind and a text with the value, because strict dialects do not accept one schema per kind
DRAFT_SCHEMA = object_schema(
    reasoning=_TEXT,
    instruct=_TEXT,
    resp_format=_TEXT,
    eval_crit=_TEXT,
    rubric={
        "type": "array",
        "items": object_schema(
            id=_TEXT,
            text=_TEXT,
            kind={"type": "string", "enum": ["binary", "check", "scale"]},
            required={"type": "boolean"},
            check={"type": "string", "enum": ["none", *DRAFT_CHECK_KINDS]},
            value=_TEXT,
            level_0=_TEXT,
            level_5=_TEXT,
        ),
    },
)
