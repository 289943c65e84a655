"""Classify finish reasons, by one table for both wire formats and for generator and evaluator.

Vendors spell the same few reasons in many ways (`max_tokens`, `MAX_TOKENS`, `maxTokens`, `length`, `model_length`), and
gateways add words (`content_filter: RECITATION`). So the table compares only letters and digits, without case, and
searches for the words that the vendors' documentation uses.
"""

import re
from enum import StrEnum


class Finish(StrEnum):
    """The meaning of a finish reason. Only `complete` means that no text is missing."""

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
    """The provider aborted the reply. Another attempt may succeed."""
    UNKNOWN = "unknown"
    """The provider gave no reason, or a reason that is not in the table."""


# Servers combine these words in any order (`stop_token_found`), and some send the token itself (`<|im_end|>`). A reason
# with any other word does not mean a complete reply.
_END = r"stop(?:ped|s)?|eo[smdgt]|ended|end|complet(?:ed?|ion)|finish(?:ed)?|succe(?:ss|eded)|ok|done|normal|natural"
_OF_THE_END = (
    r"reason|token|sequences?|string|str|word|id|found|hit|reached|matched|by|on|criteria|met|of|the|turn|text"
    r"|sentence|message|generation|model|im"
)
_COMPLETE = rf"(?:(?:{_OF_THE_END})*(?:{_END}))+(?:{_OF_THE_END})*|s|word|alternativestatusfinal"

_FILTERED = (
    r"filter|safety|unsafe|recitation|blocklist|blacklist|block|prohibited|spii|guardrail|sensitive|toxic"
    r"|moderat|polic|violation|modelarmor|copyright|harm|censor|flagged|risk|inspection|inappropriate|profan|nsfw"
    r"|hatespeech|jailbreak|banned|illegal|restricted|security|responsibleai|\A(finishreason)?(language|hate|pii)\Z"
)
_BROKEN_OFF = (
    r"error|abort|fail|cancel|time|interrupt|repetition|repeat|loop|load|resource|exception|invalid|other|network"
    r"|disconnect|pause|progress|pending|partial|preempt|evict|unavailable|exhaust|kill|shutdown|missing|noimage|dropped"
    r"|terminat|halted|expired|crash|stalled|quota|memory|oom\Z|user|busy|capacity|throttl|reject|broken|lost|closed"
    r"|badrequest|reset|internal|running|abandon|degenerat|dead|never|\Anot"
)

# The first matching pattern decides. Specific patterns stand before general ones: `error_toxic` comes from a filter.
_TABLE = tuple(
    (finish, re.compile(pattern))
    for finish, pattern in (
        (Finish.COMPLETE, rf"\A({_COMPLETE})\Z"),
        (Finish.REFUSED, r"refus|declin"),
        (Finish.FILTERED, _FILTERED),
        (Finish.FAILED, r"malformed|unexpected|toomany|timelimit|maxtime|ratelimit|insufficient|(?:not|un)finished"),
        (Finish.CONTEXT_FULL, r"context|ctx|kvcache|errorlimit|modelmaxlen|prompttoo"),
        (Finish.CUT, r"length|max|truncat|limit|incomplete|cutoff|outoftokens|budget|toolong|toolarge|numpredict"),
        (Finish.TOOL_CALL, r"tool|function"),
        (Finish.FAILED, _BROKEN_OFF),
    )
)
_ABSENT = frozenset({"", "null", "none", "undefined", "nil"})


def classify_finish(reason: str | None) -> Finish:
    """Return the meaning of a provider's finish reason in any spelling."""
    word = re.sub(r"[^a-z0-9]", "", (reason or "").casefold())
    return next((finish for finish, pattern in _TABLE if pattern.search(word)), Finish.UNKNOWN)


def is_absent(reason: str) -> bool:
    """Return whether a finish reason is a placeholder, which streams send before the last piece."""
    return reason.strip().casefold() in _ABSENT
