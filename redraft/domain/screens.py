"""Texts of models and files on a person's screen: what in them could act on it becomes visible."""

import re

# Controls but tab and newline, line and paragraph separators, bidi embeddings, overrides and isolates, halves of
# surrogate pairs, annotations.
_ACTING = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufff9-\ufffb\ufffe\uffff]")


def reveal(text: str) -> str:
    """The text with each such character as an escape that can be read."""
    return _ACTING.sub(_visible, text.replace("\r\n", "\n"))


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def one_line(text: str, limit: int = 2000) -> str:
    """Revealed, with white space folded, cut with an ellipsis."""
    folded = " ".join(text.split())
    return reveal(folded if len(folded) <= limit else folded[: limit - 1] + "…")


def reveal_in_json(text: str) -> str:
    """JSON in which the same characters stand as JSON's own escapes; its line ends stay."""
    return _ACTING.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
