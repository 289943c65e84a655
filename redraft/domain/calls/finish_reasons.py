"""Classify the reason why a model ended its reply: one table for both wire formats and both roles.

Vendors spell the same few reasons in many ways (`max_tokens`, `MAX_TOKENS`, `maxTokens`, `length`, `model_length`),
and gateways add to them (`content_filter: RECITATION`). So the table compares letters and digits only, without case,
and searches for the words that the vendors' documentation uses.
"""

import re
from enum import StrEnum


class Finish(StrEnum):
    """What a finish reason says about a reply. Only `complete` promises a whole text."""

    COMPLETE = "complete"
    CUT = "cut"
    """Cut at the output limit."""
    CONTEXT_FULL = "context_full"
    """Cut because prompt and reply fill the model's context."""
    FILTERED = "filtered"
    REFUSED = "refused"
    TOOL_CALL = "tool_call"
    """The model waits for the result of a tool. Redraft offers no tools."""
    FAILED = "failed"
    """The provider or its server broke the reply off; another attempt may bring a whole one."""
    UNKNOWN = "unknown"
    """No reason, or one that is not in the table."""


_COMPLETE = (
    r"(finishreason|reason)?(stop|stopped|stopsequences?|stopcriteriamet|stopword|stopstring|stoptoken"
    r"|eos|eostoken|eot|eom|endofsequence|endofturn|endturn|endoftext|endofstring|end"
    r"|completed?|finish|finished|success|succeeded|ok|done|normal|word|alternativestatusfinal)"
)

_FILTERED = (
    r"filter|safety|unsafe|recitation|blocklist|blacklist|block|prohibited|spii|guardrail|sensitive|toxic"
    r"|moderat|polic|violation|modelarmor|copyright|harm|censor|flagged|\A(finishreason)?language\Z"
)
_BROKEN_OFF = (
    r"error|abort|fail|cancel|time|interrupt|repetition|repeat|loop|load|resource|exception|invalid|other|network"
    r"|disconnect|pause|progress|pending|partial|preempt|evict|unavailable|exhaust|kill|shutdown|missing|noimage|dropped"
    r"|terminat|halted|expired|crash|stalled|quota"
)

# The first pattern that is found decides, the specific before the vague: `error_toxic` comes from a filter.
_TABLE = tuple(
    (finish, re.compile(pattern))
    for finish, pattern in (
        (Finish.COMPLETE, rf"\A({_COMPLETE})\Z"),
        (Finish.REFUSED, r"refus"),
        (Finish.FILTERED, _FILTERED),
        (Finish.FAILED, r"malformed|unexpected|toomany|timelimit|ratelimit|insufficient|notfinished|unfinished"),
        (Finish.CONTEXT_FULL, r"context|errorlimit|modelmaxlen"),
        (Finish.CUT, r"length|max|truncat|limit|incomplete|cutoff|outoftokens|budget|toolong|toolarge|numpredict"),
        (Finish.TOOL_CALL, r"tool|function"),
        (Finish.FAILED, _BROKEN_OFF),
    )
)
_ABSENT = frozenset({"", "null", "none", "undefined", "nil"})


def classify_finish(reason: str | None) -> Finish:
    """Return what a provider's finish reason says about the reply, whatever its spelling."""
    word = _folded(reason or "")
    return next((finish for finish, pattern in _TABLE if pattern.search(word)), Finish.UNKNOWN)


def is_absent(reason: str) -> bool:
    """Return whether a text stands for a finish reason that is not there yet."""
    return reason.strip().casefold() in _ABSENT


def _folded(reason: str) -> str:
    return re.sub(r"[^a-z0-9]", "", reason.casefold())
