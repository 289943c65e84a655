"""Reduce an untrusted text to its visible part, so that it contains no hidden instructions for an evaluator."""

import re
import unicodedata

# Characters that Unicode hides in display, and those that change the direction of writing. They can carry instructions
# to a model that no person sees.
_INVISIBLE = (
    "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff"
)
_JOINERS = "\u200c\u200d\ufe0e\ufe0f"
# The flags of England, Scotland and Wales are written with tag characters.
_FLAG = (
    "\U0001f3f4\U000e0067\U000e0062"
    "(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074|\U000e0077\U000e006c\U000e0073)\U000e007f"
)
_HIDDEN = re.compile(rf"(?P<kept>{_FLAG}|[{_JOINERS}])|[{_INVISIBLE}]")
_JOINING = re.compile(rf"[{_JOINERS}]+")
_BREAKS = re.compile("\r\n|[\x85\u2028\u2029]")
# Scripts that are written with joiners: Arabic and related ones, those of India, South East Asia and Mongolia.
_JOINED_SCRIPTS = re.compile(
    "[\u0600-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u17ff\u1800-\u18af\ufb50-\ufdff\ufe70-\ufefc]"
)


def visible(text: str) -> str:
    """Remove invisible characters: zero-width characters, bidi controls, tags, soft hyphens and the like.

    Tabs and line breaks stay; each kind of line break becomes a newline. These characters stay as well: joiners between
    emoji and between letters of scripts that need them, the emoji sign after a symbol, and the three flags of tags.
    """
    text = _BREAKS.sub("\n", text)
    text = _HIDDEN.sub(lambda match: match["kept"] or "", text)
    return _JOINING.sub(lambda match: match[0] if _joins(match) else "", text)


def _joins(match: re.Match[str]) -> bool:
    text, run = match.string, match[0]
    before = text[match.start() - 1] if match.start() else ""
    after = text[match.end()] if match.end() < len(text) else ""
    if run in {"\u200d", "\ufe0f\u200d"} and _is_emoji(before) and _is_emoji(after):
        return True
    if run in {"\ufe0e", "\ufe0f"}:
        return _is_emoji(before) or (before != "" and before in "#*0123456789" and after == "\u20e3")
    return run in {"\u200c", "\u200d"} and bool(_JOINED_SCRIPTS.match(before) and _JOINED_SCRIPTS.match(after))


def _is_emoji(char: str) -> bool:
    is_sign = char != "" and unicodedata.category(char) == "So"
    return is_sign or "\U0001f3fb" <= char <= "\U0001f3ff" or char in {"\u2194", "\u2195"}


_IMAGE = "[image]"
_DATA_URI = re.compile(r"data:[\w.+-]{1,50}/[\w.+-]{1,80}(?:;[\w=.+-]{1,80}){0,5},[\w+/=%.~:@$&-]*", re.IGNORECASE)
_MARKDOWN = re.compile(r"!\[[^\]\n]{0,1000}\](?:\((?:[^()\n]|\([^()\n]{0,200}\)){0,2000}\)|\[[^\]\n]{0,200}\])")
_HTML = re.compile(r"<(?:img|image|video|audio|picture|svg)\b[^<>]{0,4000}>", re.IGNORECASE)
_LINES = r"(?:[A-Za-z0-9+/]{60,76}\r?\n){2,}[A-Za-z0-9+/]{60,76}(?:(?:\r?\n[A-Za-z0-9+/]{1,75})?={1,2})?"
_BLOB = re.compile(rf"{_LINES}|[A-Za-z0-9+/_-]{{200,}}={{0,2}}")


def without_media(text: str) -> str:
    """Replace images by `[image]`: Markdown and HTML images, data: URIs, base64 of 200 or more characters."""
    text = _DATA_URI.sub(_IMAGE, text)
    text = _MARKDOWN.sub(_IMAGE, text)
    text = _HTML.sub(_IMAGE, text)
    kinds = (str.isupper, str.islower, str.isdigit)
    # A long identifier may look like base64, but seldom has capital letters, small letters and digits.
    return _BLOB.sub(lambda blob: _IMAGE if all(any(map(kind, blob[0])) for kind in kinds) else blob[0], text)
