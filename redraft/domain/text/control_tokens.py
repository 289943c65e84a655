"""Control tokens of chat templates: in an untrusted text they would end a turn, or begin one of another role."""

import re

# Bars and brackets as tokenizers' own tokens have them, and the words that stand in plain brackets.
_ANGLED = re.compile(
    r"<(?=[|\uff5c][\w/]|<\s*/?\s*SYS\s*>>"
    r"|[\w./:-]{1,40}[|\uff5c]>"
    r"|/?\s*(?:s|bos|eos|pad|unk|sop|eop|tool_calls?|tool_response"
    r"|(?:begin|start|end)_?of_?\w{1,30}|(?:reserved|extra_id|unused|special|reserved_special_token)_?\d{1,5})\s*>)",
    re.IGNORECASE,
)
_SQUARE = re.compile(
    r"\[(?=/?\s*(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|g?MASK|BOS|EOS)\s*\])"
    r"|\](?=~!?b\])|\[(?=e~\[)"
)


def neutralise(text: str) -> str:
    """A text in which no control token of a chat template stands: each loses its first bracket to an entity."""
    return _SQUARE.sub(lambda match: f"&#{ord(match[0])};", _ANGLED.sub("&lt;", text))
