"""Reads error messages that refuse an output limit.

The limit exceeds either the model's own output limit, or the context that prompt and output share. Servers word these
messages in dozens of ways. So patterns of words only find out which of the two limits is meant. A comparison with the
limit that was sent shows what each number in the message means.
"""

import re
from dataclasses import dataclass
from typing import Literal

from redraft.caching import lazy_pattern

_NUMBER = lazy_pattern(r"(?<![\w.#/-])((?<!\[)\d{1,3}(?:[,_']\d{3})+|\d+)(?![\w-]|\.\d)")
_N = r"(?<!\d)(\d[\d,_']{0,30})"
# Smaller numbers are parts of versions or list numbers, because no model has such a small context or output limit
_SMALLEST_LIMIT = 16

_LIMIT_NAMED = lazy_pattern(
    r"max_?(completion_?|new_?|output_?|gen_?|total_?)?tokens|max_gen_len|max(imum)?[ -]tokens|tokens you requested"
    r"|(output|completion|generated|new) tokens|tokens (for|of) (the )?(output|completion)",
    re.IGNORECASE,
)
_OUTPUT = lazy_pattern(r"in the (output|completion)|\bcompletion\b|\boutput\b|tokens per min", re.IGNORECASE)
_PROMPT = lazy_pattern(
    r"\bprompt(?:_tokens)?\b|\binputs?(?:_tokens|_length)?\b|\bmessages?\b|\btotal\b|tokens per min"
    rf"|current length|max_total_tokens|requested (a total of |about )?{_N} tokens",
    re.IGNORECASE,
)
_CONTEXT = lazy_pattern(
    r"context|model('s)? (maximum )?length|max_seq_len|sequence length|\+|\btotal\b|tokens per min|current length"
    r"|\bsum\b|\bplus\b|combined|max_total_tokens",
    re.IGNORECASE,
)
_EXCESS = lazy_pattern(
    r"too (large|big|high|many|long|great)|exceed|greater|larger|above|more than|at maximum|maximum|limit"
    r"|(less|lower|smaller) than|not less or equal|<=|≤|>|range|invalid|reduce|context.?length"
    r"|范围|超过|超出|大于|最大|上限|限制",
    re.IGNORECASE,
)
_OTHER_ERROR = lazy_pattern(
    r"tokens'? is not supported|field required|is required|is missing|must be (at least|greater|positive)"
    r"|greater than or equal to [01]\b",
    re.IGNORECASE,
)
_UNKNOWN = lazy_pattern(r"unknown|unrecogni|unsupported|unexpected|extra inputs|not (permitted|allowed)", re.IGNORECASE)
_STATUS = lazy_pattern(r"\b(error|code|status)\W{0,9}[45]\d\d\b|<[45]\d\d>", re.IGNORECASE)
_PROMPT_ALONE = lazy_pattern(
    r"\b(prompt|inputs?|messages?|text|query|request)\b[^.;]{0,60}"
    r"(too long|too large|resulted in|longer than|exceed|greater than)"
    r"|maximum (allowed )?(prompt|input) (length|size)",
    re.IGNORECASE,
)
_EXCLUSIVE = lazy_pattern(rf"(?:less|lower|smaller) than {_N}|{_N} \(exclusive\)", re.IGNORECASE)

_SUM = lazy_pattern(rf"{_N}\s*\+\s*{_N}\s*(?:>|exceeds?\w*|is (?:more|greater|larger) than)\s*{_N}", re.IGNORECASE)
_DIFFERENCE = lazy_pattern(rf"{_N}\s*>\s*{_N}\s*-\s*{_N}")
_OF_CONTEXT = lazy_pattern(
    r"(?:context|model|sequence|max_seq)[ _'s]*(?:maximum )?(?:length|len|size|window|limit)"
    r"(?:(?!prompt|input)\D){0,30}?"
    + _N
    + rf"|(?:>|<=|≤|at maximum|less than or equal to|not exceed)\s*`?{_N}|limit(?: is| of|:)?\s*{_N}"
    + rf"|{_N}(?: tokens?)? (?:maximum|max) context",
    re.IGNORECASE,
)
_OF_PROMPT = lazy_pattern(
    rf"<=? ?\d+\D{{1,20}}{_N} ?\+|{_N}[ `]+(?:tokens? )?(?:in (?:the|your) (?:messages|prompt|input)"
    r"|(?:of )?(?:text )?`?(?:inputs?|prompt)`? tokens|of text input|(?:in|from) the (?:input|prompt|messages)"
    rf"|`?inputs?`?\b)|(?:prompt|inputs?|request) (?:contains|has)(?: at least)? {_N}"
    rf"|(?:prompt|input)(?: tokens| length)?(?: \(| ?= ?|: ){_N}\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class LimitRefusal:
    """What a server says about an output limit that it refuses.

    Attributes:
        about: `output` if the model's output limit is lower; `context` if prompt and output together are too long.
        maximum: the maximum of the output, or of the context, in tokens; None if the message has no such number.
        prompt: the length of the prompt in tokens; None if the message has no such number.
        is_prompt_exact: False if the message says "at least", because the server stopped counting.
    """

    about: Literal["output", "context"]
    maximum: int | None = None
    prompt: int | None = None
    is_prompt_exact: bool = True


def refusal_kind(message: str) -> Literal["output", "context"] | None:
    """Return which of the two limits a message is about, or None if it is about neither."""
    if _OTHER_ERROR.search(message) or not _EXCESS.search(message):
        return None
    is_named = bool(_LIMIT_NAMED.search(message))
    if (is_named or _OUTPUT.search(message)) and _PROMPT.search(message) and _CONTEXT.search(message):
        return "context"
    return "output" if is_named else None


def read_refusal(message: str, requested: int, *, is_of_context: bool = False) -> LimitRefusal | None:
    """Read the refusal of an output limit. Return None if the message is not about an output limit.

    Args:
        message: the message of the server.
        requested: the output limit that was sent, in tokens.
        is_of_context: whether the error code says that the context is too long. If so, a message that names neither
            prompt nor output may mean the sum of both.
    """
    message = _STATUS.sub("", message)
    kind = refusal_kind(message)
    if kind == "output":
        return LimitRefusal("output", _maximum_output(message, requested))
    is_vague = is_of_context and not _PROMPT_ALONE.search(message) and not _OTHER_ERROR.search(message)
    if kind == "context" or is_vague:
        return _of_context(message, requested)
    return _of_unknown_wording(message, requested)


def _of_unknown_wording(message: str, requested: int) -> LimitRefusal | None:
    """Read a message that no pattern matches: by numbers that add up, or by the limit's name and a smaller number."""
    if summed := _by_sum(message, requested):
        return summed
    if not _LIMIT_NAMED.search(message) or _OTHER_ERROR.search(message) or _UNKNOWN.search(message):
        return None
    maximum = _maximum_output(message, requested)
    return None if maximum is None else LimitRefusal("output", maximum)


def _by_sum(message: str, requested: int) -> LimitRefusal | None:
    """Find the context in a message that contains the length of the prompt, the output limit and their sum."""
    numbers = _numbers(message)
    for total in numbers:
        prompt = total - requested
        others = list(numbers)
        for part in (total, requested, prompt):
            if part not in others:
                break
            others.remove(part)
        else:
            context = max((number for number in others if prompt < number < total), default=None)
            return LimitRefusal("context", context, prompt) if context else None
    return None


def _maximum_output(message: str, requested: int) -> int | None:
    """Return the largest number below the limit that was sent, or None."""
    # Return the largest number, because most smaller numbers are parts of model names and versions
    below = [number for number in _numbers(message) if _SMALLEST_LIMIT <= number <= requested]
    excluded = {_number(found) - 1 for found in _EXCLUSIVE.findall(message) for found in found if found}
    inside = [number - 1 if number - 1 in excluded else number for number in below]
    return max((number for number in inside if number < requested), default=None)


def _of_context(message: str, requested: int) -> LimitRefusal:
    is_exact = "at least" not in message
    if found := _SUM.search(message):
        return LimitRefusal("context", _number(found[3]), _number(found[1]), is_exact)
    if found := _DIFFERENCE.search(message):
        return LimitRefusal("context", _number(found[2]), _number(found[3]), is_exact)
    context = _first(_OF_CONTEXT, message)
    if context is None or context < _SMALLEST_LIMIT:
        return _by_sum(message, requested) or LimitRefusal("context")
    prompt = _first(_OF_PROMPT, message)
    if prompt is None:
        prompt = _prompt_by_sum(message, requested, context)
    return LimitRefusal("context", context, prompt, is_exact)


def _prompt_by_sum(message: str, requested: int, context: int) -> int | None:
    """Return the length of the prompt if the largest number is the sum of prompt and output, otherwise None."""
    total = max(_numbers(message), default=0)
    return total - requested if total > context and total > requested else None


def _first(pattern: re.Pattern[str], message: str) -> int | None:
    found = pattern.search(message)
    return next((_number(group) for group in found.groups() if group), None) if found else None


def _numbers(message: str) -> list[int]:
    return [_number(found) for found in _NUMBER.findall(message)]


def _number(text: str) -> int:
    digits = re.sub(r"\D", "", text)[:12]
    return int(digits) if digits else 0
