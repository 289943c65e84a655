"""Texts of models and files on a person's screen: what in them could act on it becomes visible."""

import re

# Controls but tab and newline, line and paragraph separators, bidi embeddings, overrides and isolates, halves of
# surrogate pairs, annotations, and the tags that hide whole sentences from people and not from models.
_ACTING = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)


def reveal(text: str) -> str:
    """The text with each such character as an escape that can be read."""
    return _ACTING.sub(_visible, text.replace("\r\n", "\n"))


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def one_line(text: str, limit: int = 2000) -> str:
    """Revealed, with white space folded, cut with an ellipsis."""
    folded = " ".join(text.split())
    return reveal(folded if len(folded) <= limit else folded[: limit - 1] + "…")


def reveal_in_json(text: str) -> str:
    """JSON in which the same characters stand as JSON's own escapes; its line ends stay."""
    return _ACTING.sub(_in_json, text)


def _in_json(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
