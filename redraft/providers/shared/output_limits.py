"""Lowers the output limit to a value that the model accepts, unless a user has set the limit.

A model has an output limit for all prompts, and a context that prompt and reply share. Both are learned from refusals.
After a refusal, the length that remains for a reply is known for the refused prompt. For other prompts it is estimated.
"""

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pydantic_core import to_json

from redraft.domain.calls.conversation import LimitOrigin
from redraft.providers.shared.limit_refusals import LimitRefusal

LIMIT_NAMES = ("max_tokens", "max_completion_tokens", "max_output_tokens")

T = TypeVar("T")

_KEPT_MAX = 256
# A shorter reply is useless. REDRAFT_EVALUATOR_MAX_OUTPUT_TOKENS has the same minimum.
_REPLY_MIN = 64
# If a refusal has no number, the limit is halved, but not below this value. The evaluator's default of 4096 tokens can
# be halved four times
_HALVED_MIN = 256
# Most texts and JSON have at least 3 bytes per token. If a prompt has more tokens than estimated, the call is refused
# once, and then its length is known
_BYTES_PER_TOKEN = 3
_SHORTEN = "shorten the task, the sources or the criteria, or use a model with a larger context"


@dataclass(frozen=True, slots=True)
class _LearnedLimits:
    maximum: int | None = None
    context: int | None = None


class OutputLimits:
    """The limits of models that this process has learned. Those that were used longest ago are dropped first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._of_model: OrderedDict[str, _LearnedLimits] = OrderedDict()
        self._of_prompt: OrderedDict[str, int] = OrderedDict()

    def fitted(self, body: dict[str, Any], origin: LimitOrigin) -> dict[str, Any]:
        """Return the request with an output limit that its model accepts. A limit set by a user is not changed."""
        name = limit_name_in(body)
        if name is None or origin.is_fixed:
            return body
        with self._lock:
            known = self._of_model.get(body["model"])
            if known is None:
                return body
            self._of_model.move_to_end(body["model"])
            room = self._of_prompt.get(_prompt_key(body)) if known.context else None
        limits = [body[name], known.maximum, room]
        if known.context and room is None:
            estimate = known.context - _estimated_tokens(body)
            # A small limit would cut the reply, and the estimate may be wrong. A refusal would state the real length
            limits.append(estimate if estimate >= _HALVED_MIN else None)
        return {**body, name: min(limit for limit in limits if limit is not None)}

    def learn(self, refusal: LimitRefusal, sent: Mapping[str, Any]) -> int | None:
        """Store the limit of a refusal. Return the limit for the next call, or None if no lower limit makes sense."""
        name = limit_name_in(sent)
        if name is None:
            return None
        requested = sent[name]
        lowered = _lowered(refusal, sent, requested=requested)
        if lowered is None:
            return None
        with self._lock:
            known = self._of_model.get(sent["model"], _LearnedLimits())
            if refusal.about == "context" and refusal.prompt is None and _prompt_key(sent) in self._of_prompt:
                # This prompt was refused before. The limit is halved, because small steps would take too many calls
                lowered = min(lowered, max(requested // 2, _REPLY_MIN))
            if refusal.about == "output":
                known = replace(known, maximum=lowered)
            else:
                known = replace(known, context=refusal.maximum or _estimated_tokens(sent) + lowered)
                _keep(self._of_prompt, _prompt_key(sent), lowered)
            _keep(self._of_model, sent["model"], known)
        return lowered


def limit_name_in(body: Mapping[str, Any]) -> str | None:
    """Return the name of the output limit in a request, or None if the request has no limit."""
    return next((name for name in LIMIT_NAMES if isinstance(body.get(name), int)), None)


def limit_advice(refusal: LimitRefusal, origin: LimitOrigin, lowered: int | None) -> str:
    """Return a message with the limit of the next call, or with advice for the user.

    Args:
        refusal: the refusal of the server.
        origin: the setting of the limit.
        lowered: a limit that the model accepts; None if no such limit is known.
    """
    if origin.is_fixed:
        to = f" to at most {lowered}" if lowered else ""
        also = f", or {_SHORTEN}" if refusal.about == "context" else ""
        return f"Lower {origin.setting}{to}{also}. This setting limits the output."
    if lowered:
        return f"The next call asks for at most {lowered} tokens of output."
    if refusal.prompt is None and refusal.maximum is None:
        return f"Set {origin.setting} to a limit that the model accepts, or {_SHORTEN}."
    return f"The prompt leaves no room for a reply: {_SHORTEN}."


def _lowered(refusal: LimitRefusal, sent: Mapping[str, Any], *, requested: int) -> int | None:
    if refusal.maximum is None:
        return requested // 2 if requested // 2 >= _HALVED_MIN else None
    if refusal.about == "output":
        return refusal.maximum
    estimate = _estimated_tokens(sent)
    prompt = estimate if refusal.prompt is None else refusal.prompt
    room = refusal.maximum - (prompt if refusal.is_prompt_exact else max(prompt, estimate))
    if room >= requested or (room < _REPLY_MIN and not (refusal.prompt and refusal.is_prompt_exact)):
        # The estimate of the prompt is not reliable here, so the limit is halved instead
        room = requested // 2 if requested // 2 >= _HALVED_MIN else 0
    return room if room >= _REPLY_MIN else None


def _estimated_tokens(body: Mapping[str, Any]) -> int:
    return len(_prompt_bytes(body)) // _BYTES_PER_TOKEN


def _prompt_key(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(_prompt_bytes(body)).hexdigest()


def _prompt_bytes(body: Mapping[str, Any]) -> bytes:
    names = ("model", "system", "instructions", "messages", "input", "response_format", "text")
    return to_json([body.get(name) for name in names])


def _keep(kept: OrderedDict[str, T], key: str, value: T) -> None:
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > _KEPT_MAX:
        kept.popitem(last=False)
