"""Make characters visible that could affect a terminal or a page: controls, bidi overrides, hidden tags."""

import re

# Controls except tab and newline, line and paragraph separators, bidi embeddings, overrides and isolates, halves of
# surrogate pairs, annotations, and the tags that hide whole sentences from people but not from models.
_ACTING = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)


def reveal(text: str) -> str:
    """Replace each character that could affect a terminal or a page by a readable escape."""
    # These characters are not printable. Nearly all values of a page are, and this test is faster than the pattern
    return text if text.isprintable() else _ACTING.sub(_visible, text.replace("\r\n", "\n"))


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def one_line(text: str, limit: int = 2000) -> str:
    """Return a text on one line with readable escapes, shortened with an ellipsis."""
    folded = " ".join(text.split())
    return reveal(folded if len(folded) <= limit else folded[: limit - 1] + "…")


def reveal_in_json(text: str) -> str:
    """Replace the characters of `reveal` in a JSON text by JSON escapes, so that the text keeps its meaning."""
    return _ACTING.sub(_in_json, text)


def _in_json(match: re.Match[str]) -> str:
    # json.dumps does not fit here: it leaves U+007F unchanged.
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
