"""Sample values for the variables of a profile's templates, which are rendered once when the profile is read."""

from typing import Any

from redraft.domain.text.prompt_framing import frame
from redraft.prompts.evaluator_context import CriterionView

_NONCE, _ANSWER_NONCE = "0123456789abcdef", "fedcba9876543210"
SHOWN_ANSWER = frame("THE ANSWER", "answer", _ANSWER_NONCE)
_START, _END = f'<answer id="{_ANSWER_NONCE}">', f'</answer id="{_ANSWER_NONCE}">'


_SPARSE: dict[str, Any] = {
    "instruct": "THE TASK",
    "resp_format": "",
    "conversation": (),
    "eval_crit": None,
    "sources": (),
    "reference": None,
    "answer": SHOWN_ANSWER,
    "complaint": None,
    "frame_start": _START,
    "frame_end": _END,
    "nonce": _NONCE,
    "criteria": (CriterionView("a", "It is short.", is_scale=False, anchors=()),),
}
_FULL: dict[str, Any] = {
    **_SPARSE,
    "resp_format": "THE FORM",
    "conversation": (("A QUESTION", "AN ANSWER"),),
    "eval_crit": "THE CRITERIA",
    "sources": ("A SOURCE",),
    "reference": "A REFERENCE",
    "complaint": "There was no score.",
    "criteria": (
        *_SPARSE["criteria"],
        CriterionView("b", "It is clear.", is_scale=True, anchors=(("0", "absent"), ("5", "fully"))),
    ),
}
SAMPLE_VALUES = (_FULL, _SPARSE)
