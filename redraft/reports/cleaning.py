"""Names and error words come from files and models: what in them could act on a reader's screen becomes visible."""

import re

_ACTING = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufff9-\ufffb\ufffe\uffff]"
)
_LIMIT = 2000


def one_line(text: str, limit: int = _LIMIT) -> str:
    """White space folded, cut with an ellipsis; control characters and bidi overrides as visible escapes."""
    folded = " ".join(text.split())
    return _ACTING.sub(_visible, folded if len(folded) <= limit else folded[: limit - 1] + "…")


def safe_json(text: str) -> str:
    """JSON in which the same characters stand as JSON's own escapes; its line ends stay."""
    return _ACTING.sub(lambda match: match[0] if match[0] == "\n" else f"\\u{ord(match[0]):04x}", text)


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
