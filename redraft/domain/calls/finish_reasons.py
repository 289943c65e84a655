"""Classify the reason why a model ended its reply: one table for both wire formats and both roles.

Vendors spell the same few reasons in many ways (`max_tokens`, `MAX_TOKENS`, `maxTokens`, `length`, `model_length`),
and gateways add to them (`content_filter: RECITATION`). So the table compares letters and digits only, without case,
and searches for the words that the vendors' documentation uses.
"""

import re
from enum import StrEnum


class Finish(StrEnum):
    """The meaning of a finish reason for a reply. Only `complete` promises a whole text."""

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


# Servers join these words as they like (`stop_token_found`), and some send the token itself (`<|im_end|>`). A word that
# is not in the list makes the reason another one.
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

# The first pattern that is found decides, the specific before the vague: `error_toxic` comes from a filter.
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
    """Return what a provider's finish reason says about the reply, whatever its spelling."""
    word = re.sub(r"[^a-z0-9]", "", (reason or "").casefold())
    return next((finish for finish, pattern in _TABLE if pattern.search(word)), Finish.UNKNOWN)


def is_absent(reason: str) -> bool:
    """Return whether a text stands for a finish reason that is not there yet."""
    return reason.strip().casefold() in _ABSENT
