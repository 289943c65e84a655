"""Neutralise control tokens of chat templates, which could end a turn or begin one of another role."""

import re

# Tokens with bars in angle brackets, and the known words in plain angle brackets.
_ANGLED = re.compile(
    r"<(?=[|\uff5c][\w/]|<\s*+/?\s*+SYS\s*>>"
    r"|[\w./:-]{1,40}[|\uff5c]>"
    r"|/?\s*+(?:s|bos|eos|pad|unk|sop|eop|tool_calls?|tool_response"
    r"|(?:begin|start|end)_?of_?\w{1,30}|(?:reserved|extra_id|unused|special|reserved_special_token)_?\d{1,5})\s*>)",
    re.IGNORECASE,
)
_SQUARE = re.compile(
    r"\[(?=/?\s*(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|g?MASK|BOS|EOS)\s*\])"
    r"|\](?=~!?b\])|\[(?=e~\[)"
)


def neutralise(text: str) -> str:
    """Replace the first bracket of each control token by an HTML entity."""
    return _SQUARE.sub(lambda match: f"&#{ord(match[0])};", _ANGLED.sub("&lt;", text))
